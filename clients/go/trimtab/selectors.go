package trimtab

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pb "trimtab.dev/clients/go/trimtabv1"
)

const nodeNameField = "metadata.name"

type operator = pb.LabelOperator_Code

const (
	opIn           = pb.LabelOperator_IN
	opNotIn        = pb.LabelOperator_NOT_IN
	opExists       = pb.LabelOperator_EXISTS
	opDoesNotExist = pb.LabelOperator_DOES_NOT_EXIST
	opGt           = pb.LabelOperator_GT
	opLt           = pb.LabelOperator_LT
)

var (
	labelOperators = map[string]operator{
		"In": opIn, "NotIn": opNotIn, "Exists": opExists, "DoesNotExist": opDoesNotExist,
	}
	nodeOperators = map[string]operator{
		"In": opIn, "NotIn": opNotIn, "Exists": opExists, "DoesNotExist": opDoesNotExist, "Gt": opGt, "Lt": opLt,
	}
	fieldOperators = map[string]operator{"In": opIn, "NotIn": opNotIn}
)

// requirement is one requirement on a label or on a field of a node. Values of
// In and NotIn are sorted.
type requirement struct {
	key      string
	operator operator
	values   []string
}

// selector is a label selector; nil matches nothing, one without requirements
// everything.
type selector struct {
	requirements []requirement
}

// term is one alternative of a node selector.
type term struct {
	labels, fields []requirement
}

// terms are alternatives; nil means no requirement, none at all matches no node.
type terms struct {
	alternatives []term
}

// expression has the parts that expressions of label and node selectors share.
type expression struct {
	key, operator string
	values        []string
}

// labelSelector checks a label selector as the API server does.
func labelSelector(from *metav1.LabelSelector) (*selector, error) {
	if from == nil {
		return nil, nil
	}
	out := make([]requirement, 0, len(from.MatchLabels)+len(from.MatchExpressions))
	for _, key := range sortedKeys(from.MatchLabels) {
		if key == "" {
			return nil, below("matchLabels", missingKey())
		}
		out = append(out, requirement{key, opIn, []string{from.MatchLabels[key]}})
	}
	expressions := make([]expression, len(from.MatchExpressions))
	for i, one := range from.MatchExpressions {
		expressions[i] = expression{one.Key, string(one.Operator), one.Values}
	}
	more, err := requirementsOf("matchExpressions", expressions, labelOperators)
	if err != nil {
		return nil, err
	}
	return &selector{append(out, more...)}, nil
}

// nodeSelectorTerms checks a node selector as the API server does.
func nodeSelectorTerms(from *corev1.NodeSelector) (*terms, error) {
	out := make([]term, 0, len(from.NodeSelectorTerms))
	for i, one := range from.NodeSelectorTerms {
		checked, err := nodeTerm(one)
		if err != nil {
			return nil, below(fmt.Sprintf("nodeSelectorTerms[%d]", i), err)
		}
		out = append(out, checked)
	}
	return &terms{out}, nil
}

func nodeTerm(from corev1.NodeSelectorTerm) (term, error) {
	labels, err := requirementsOf("matchExpressions", nodeExpressions(from.MatchExpressions), nodeOperators)
	if err != nil {
		return term{}, err
	}
	fields, err := requirementsOf("matchFields", nodeExpressions(from.MatchFields), fieldOperators)
	if err != nil {
		return term{}, err
	}
	for i, one := range fields {
		path := fmt.Sprintf("matchFields[%d]", i)
		if one.key != nodeNameField {
			return term{}, badField(path+".key", "use "+nodeNameField, "%q is not a field of nodes", one.key)
		}
		if len(one.values) != 1 {
			return term{}, badField(path+".values", "give one node name", "there must be exactly one value")
		}
	}
	return term{labels, fields}, nil
}

func nodeExpressions(from []corev1.NodeSelectorRequirement) []expression {
	out := make([]expression, len(from))
	for i, one := range from {
		out[i] = expression{one.Key, string(one.Operator), one.Values}
	}
	return out
}

// topologyTerms returns allowed topologies of a storage class; nil allows all.
func topologyTerms(from []corev1.TopologySelectorTerm) (*terms, error) {
	if len(from) == 0 {
		return nil, nil
	}
	out := make([]term, 0, len(from))
	for i, one := range from {
		labels := make([]requirement, 0, len(one.MatchLabelExpressions))
		for j, label := range one.MatchLabelExpressions {
			checked, err := checkedRequirement(expression{label.Key, "In", label.Values}, labelOperators)
			if err != nil {
				return nil, below(fmt.Sprintf("[%d].matchLabelExpressions[%d]", i, j), err)
			}
			labels = append(labels, checked)
		}
		out = append(out, term{labels: labels})
	}
	return &terms{out}, nil
}

func requirementsOf(field string, from []expression, operators map[string]operator) ([]requirement, error) {
	out := make([]requirement, 0, len(from))
	for i, one := range from {
		checked, err := checkedRequirement(one, operators)
		if err != nil {
			return nil, below(fmt.Sprintf("%s[%d]", field, i), err)
		}
		out = append(out, checked)
	}
	return out, nil
}

func checkedRequirement(from expression, operators map[string]operator) (requirement, error) {
	code, ok := operators[from.operator]
	if !ok {
		return requirement{}, badField("operator", "", "%q is not an operator here", from.operator)
	}
	if from.key == "" {
		return requirement{}, missingKey()
	}
	values := sortedUnique(from.values)
	switch {
	case (code == opIn || code == opNotIn) && len(values) == 0:
		return requirement{}, badField("values", "give the values", "there must be at least one value with In and NotIn")
	case (code == opExists || code == opDoesNotExist) && len(values) > 0:
		return requirement{}, badField("values", "drop the values", "there must be none with Exists and DoesNotExist")
	case (code == opGt || code == opLt) && len(values) != 1:
		return requirement{}, badField("values", "give one integer", "there must be exactly one value with Gt and Lt")
	}
	return requirement{from.key, code, values}, nil
}

func missingKey() error {
	return badField("key", "name the label", "it is missing")
}

// matches says whether labels match; Gt and Lt have no place in label selectors.
// Selectors of apimachinery refuse values that the Python client takes.
func (s *selector) matches(labels map[string]string) bool {
	if s == nil {
		return false
	}
	for _, one := range s.requirements {
		value, present := labels[one.key]
		var holds bool
		switch one.operator {
		case opIn:
			holds = present && slices.Contains(one.values, value)
		case opNotIn:
			holds = !present || !slices.Contains(one.values, value)
		default:
			holds = present == (one.operator == opExists)
		}
		if !holds {
			return false
		}
	}
	return true
}

func (r requirement) equal(other requirement) bool {
	return r.key == other.key && r.operator == other.operator && slices.Equal(r.values, other.values)
}

func (t *terms) equal(other *terms) bool {
	if t == nil || other == nil {
		return t == other
	}
	return slices.EqualFunc(t.alternatives, other.alternatives, func(a, b term) bool {
		return slices.EqualFunc(a.labels, b.labels, requirement.equal) &&
			slices.EqualFunc(a.fields, b.fields, requirement.equal)
	})
}

func sortedUnique(values []string) []string {
	out := slices.Clone(values)
	slices.Sort(out)
	return slices.Compact(out)
}

func sortedKeys[K cmp.Ordered, V any](from map[K]V) []K {
	out := make([]K, 0, len(from))
	for key := range from {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}
