package trimtab

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	pb "trimtab.dev/clients/go/trimtabv1"
)

var (
	effects = map[corev1.TaintEffect]pb.TaintEffect_Code{
		corev1.TaintEffectNoSchedule:       pb.TaintEffect_NO_SCHEDULE,
		corev1.TaintEffectPreferNoSchedule: pb.TaintEffect_PREFER_NO_SCHEDULE,
		corev1.TaintEffectNoExecute:        pb.TaintEffect_NO_EXECUTE,
	}
	tolerationOperators = map[string]pb.TolerationOperator_Code{
		"":       pb.TolerationOperator_EQUAL,
		"Equal":  pb.TolerationOperator_EQUAL,
		"Exists": pb.TolerationOperator_EXISTS,
		"Lt":     pb.TolerationOperator_LT,
		"Gt":     pb.TolerationOperator_GT,
	}
)

// splitPin separates the one node that every term of required node affinity
// names, as in pods of DaemonSets. It returns the node and the affinity without
// it, or "" and the affinity as it is.
func splitPin(affinity *corev1.Affinity) (string, *corev1.Affinity) {
	if affinity == nil || affinity.NodeAffinity == nil {
		return "", affinity
	}
	required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return "", affinity
	}
	pin := ""
	var rest []corev1.NodeSelectorTerm
	isFree := false
	for _, one := range required.NodeSelectorTerms {
		if len(one.MatchFields) == 0 && len(one.MatchExpressions) == 0 {
			continue
		}
		name := pinned(one)
		if name == "" || (pin != "" && name != pin) {
			return "", affinity
		}
		pin = name
		left := withoutPin(one, name)
		isFree = isFree || (len(left.MatchExpressions) == 0 && len(left.MatchFields) == 0)
		rest = append(rest, left)
	}
	if pin == "" {
		return "", affinity
	}
	out := &corev1.Affinity{PodAffinity: affinity.PodAffinity, PodAntiAffinity: affinity.PodAntiAffinity}
	if !isFree {
		out.NodeAffinity = &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: rest},
		}
	}
	return pin, out
}

func pinned(from corev1.NodeSelectorTerm) string {
	for _, one := range from.MatchFields {
		if one.Key == nodeNameField && one.Operator == corev1.NodeSelectorOpIn && len(one.Values) == 1 {
			return one.Values[0]
		}
	}
	return ""
}

func withoutPin(from corev1.NodeSelectorTerm, name string) corev1.NodeSelectorTerm {
	out := corev1.NodeSelectorTerm{MatchExpressions: from.MatchExpressions}
	for _, one := range from.MatchFields {
		isPin := one.Key == nodeNameField && one.Operator == corev1.NodeSelectorOpIn &&
			slices.Equal(one.Values, []string{name})
		if !isPin {
			out.MatchFields = append(out.MatchFields, one)
		}
	}
	return out
}

// podAffinityTerms returns the required terms of pod affinity or anti-affinity.
func podAffinityTerms(from []corev1.PodAffinityTerm, d *dictionary) ([]*pb.PodAffinityTerm, error) {
	var out []*pb.PodAffinityTerm
	for i := range from {
		one, err := affinityTerm(&from[i], d)
		if err != nil {
			return nil, below(fmt.Sprintf("requiredDuringSchedulingIgnoredDuringExecution[%d]", i), err)
		}
		out = append(out, one)
	}
	return out, nil
}

// preferredTerms returns the preferred terms of pod anti-affinity.
func preferredTerms(from []corev1.WeightedPodAffinityTerm, d *dictionary) ([]*pb.WeightedPodAffinityTerm, error) {
	var out []*pb.WeightedPodAffinityTerm
	for i := range from {
		path := fmt.Sprintf("preferredDuringSchedulingIgnoredDuringExecution[%d]", i)
		if weight := from[i].Weight; weight < 1 || weight > 100 {
			return nil, badField(path+".weight", "give 1 to 100", "%d is not a weight", weight)
		}
		one, err := affinityTerm(&from[i].PodAffinityTerm, d)
		if err != nil {
			return nil, below(path+".podAffinityTerm", err)
		}
		out = append(out, &pb.WeightedPodAffinityTerm{Weight: from[i].Weight, Term: one})
	}
	return out, nil
}

func affinityTerm(from *corev1.PodAffinityTerm, d *dictionary) (*pb.PodAffinityTerm, error) {
	if from.TopologyKey == "" {
		return nil, badField("topologyKey", "name the node label that makes a domain", "it is missing")
	}
	pods, err := labelSelector(from.LabelSelector)
	if err != nil {
		return nil, below("labelSelector", err)
	}
	namespaces, err := labelSelector(from.NamespaceSelector)
	if err != nil {
		return nil, below("namespaceSelector", err)
	}
	out := &pb.PodAffinityTerm{}
	out.Selector = d.selector(pods)
	out.Namespaces = d.strs(sortedUnique(from.Namespaces))
	out.NamespaceSelector = d.selector(namespaces)
	out.TopologyKey = d.string(from.TopologyKey)
	return out, nil
}

// spreadConstraints returns the DoNotSchedule constraints.
func spreadConstraints(from []corev1.TopologySpreadConstraint, d *dictionary) ([]*pb.TopologySpreadConstraint, error) {
	var out []*pb.TopologySpreadConstraint
	for i := range from {
		path := fmt.Sprintf("topologySpreadConstraints[%d]", i)
		switch when := from[i].WhenUnsatisfiable; when {
		case corev1.DoNotSchedule:
			one, err := spreadConstraint(&from[i], d)
			if err != nil {
				return nil, below(path, err)
			}
			out = append(out, one)
		case corev1.ScheduleAnyway:
		default:
			return nil, badField(path+".whenUnsatisfiable", "use DoNotSchedule or ScheduleAnyway", "%q is unknown", when)
		}
	}
	return out, nil
}

func spreadConstraint(from *corev1.TopologySpreadConstraint, d *dictionary) (*pb.TopologySpreadConstraint, error) {
	if err := checkSpread(from); err != nil {
		return nil, err
	}
	pods, err := labelSelector(from.LabelSelector)
	if err != nil {
		return nil, below("labelSelector", err)
	}
	out := &pb.TopologySpreadConstraint{MaxSkew: from.MaxSkew}
	out.TopologyKey = d.string(from.TopologyKey)
	out.Selector = d.selector(pods)
	if from.MinDomains != nil && *from.MinDomains != 1 {
		out.MinDomains = ptr.To(*from.MinDomains)
	}
	if from.NodeAffinityPolicy != nil && *from.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore {
		out.HonorNodeAffinity = ptr.To(false)
	}
	if from.NodeTaintsPolicy != nil && *from.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor {
		out.HonorNodeTaints = ptr.To(true)
	}
	out.MatchLabelKeys = d.strs(sortedUnique(from.MatchLabelKeys))
	return out, nil
}

func checkSpread(from *corev1.TopologySpreadConstraint) error {
	if from.TopologyKey == "" {
		return badField("topologyKey", "name the node label that makes a domain", "it is missing")
	}
	if from.MaxSkew < 1 {
		return badField("maxSkew", "give a number from 1 on", "%d is not greater than 0", from.MaxSkew)
	}
	if from.MinDomains != nil && *from.MinDomains < 1 {
		return badField("minDomains", "give a number from 1 on", "%d is not greater than 0", *from.MinDomains)
	}
	for field, policy := range map[string]*corev1.NodeInclusionPolicy{
		"nodeAffinityPolicy": from.NodeAffinityPolicy, "nodeTaintsPolicy": from.NodeTaintsPolicy,
	} {
		if policy != nil && *policy != corev1.NodeInclusionPolicyHonor && *policy != corev1.NodeInclusionPolicyIgnore {
			return badField(field, "use Honor or Ignore", "%q is unknown", *policy)
		}
	}
	if len(from.MatchLabelKeys) > 0 && from.LabelSelector == nil {
		return badField("matchLabelKeys", "give a labelSelector, or drop the keys", "there is no labelSelector")
	}
	return nil
}

// tolerations returns tolerations in their order; no operator is Equal, no
// effect is every effect.
func tolerations(from []corev1.Toleration, d *dictionary) ([]*pb.Toleration, error) {
	var out []*pb.Toleration
	for i, one := range from {
		path := fmt.Sprintf("tolerations[%d]", i)
		code, ok := tolerationOperators[string(one.Operator)]
		if !ok {
			return nil, badField(path+".operator", "use one of Equal, Exists, Lt, Gt", "%q is unknown", one.Operator)
		}
		row := &pb.Toleration{Operator: code}
		if one.Effect != "" {
			effect, err := effectOf(one.Effect)
			if err != nil {
				return nil, below(path, err)
			}
			row.Effect = effect
		}
		row.Key = d.string(one.Key)
		row.Value = d.string(one.Value)
		out = append(out, row)
	}
	return out, nil
}

// taints returns the taints of a node, sorted by key, value and effect.
func taints(from []corev1.Taint, d *dictionary) ([]*pb.Taint, error) {
	type content struct {
		key, value string
		effect     pb.TaintEffect_Code
	}
	var found []content
	for i, one := range from {
		path := fmt.Sprintf("taints[%d]", i)
		if one.Key == "" {
			return nil, badField(path+".key", "name the taint", "it is missing")
		}
		effect, err := effectOf(one.Effect)
		if err != nil {
			return nil, below(path, err)
		}
		found = append(found, content{one.Key, one.Value, effect})
	}
	slices.SortFunc(found, func(a, b content) int {
		return compareInTurn(a.key, b.key, a.value, b.value, int32(a.effect), int32(b.effect))
	})
	var out []*pb.Taint
	for _, one := range slices.Compact(found) {
		row := &pb.Taint{Effect: one.effect}
		row.Key = d.string(one.key)
		row.Value = d.string(one.value)
		out = append(out, row)
	}
	return out, nil
}

func effectOf(effect corev1.TaintEffect) (pb.TaintEffect_Code, error) {
	code, ok := effects[effect]
	if !ok {
		return 0, badField("effect", "use one of NoSchedule, PreferNoSchedule, NoExecute", "%q is unknown", effect)
	}
	return code, nil
}
