package trimtab

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

var comparing = []string{"Gt", "Lt", "Gte", "Lte"}

var poolOperators = append([]string{"In", "NotIn", "Exists", "DoesNotExist"}, comparing...)

// wholeNumber is what Karpenter's schema allows as the bound of a comparison.
var wholeNumber = regexp.MustCompile(`\A[0-9]+\z`)

// labelRule is a requirement that was checked.
type labelRule struct {
	key, operator string
	values        map[string]bool
	bound         *big.Int
	// minValues is 0 for any number; place is the index in the object.
	minValues, place int
}

// allows says whether a label may have a value; isSet = the machine has it.
func (r *labelRule) allows(value string, isSet bool) bool {
	switch {
	case !isSet:
		return r.operator == "NotIn" || r.operator == "DoesNotExist"
	case r.operator == "In":
		return r.values[value]
	case r.operator == "NotIn":
		return !r.values[value]
	case r.bound != nil:
		return r.compares(value)
	}
	return r.operator == "Exists"
}

func (r *labelRule) compares(value string) bool {
	number, isNumber := new(big.Int).SetString(value, 10)
	if !isNumber {
		return false
	}
	order := number.Cmp(r.bound)
	switch r.operator {
	case "Gt":
		return order > 0
	case "Gte":
		return order >= 0
	case "Lt":
		return order < 0
	}
	return order <= 0
}

// poolRules are all requirements of a pool, by key; order has the keys as they
// are given first.
type poolRules struct {
	order []string
	byKey map[string][]*labelRule
}

func (p *poolRules) allows(key, value string, isSet bool) bool {
	return !slices.ContainsFunc(p.byKey[key], func(rule *labelRule) bool { return !rule.allows(value, isSet) })
}

// valuesOf returns the values that requirements with In leave for a label,
// sorted; none without In.
func (p *poolRules) valuesOf(key string) []string {
	found := []string{}
	for _, rule := range p.byKey[key] {
		if rule.operator != "In" {
			continue
		}
		for value := range rule.values {
			if p.allows(key, value, true) {
				found = append(found, value)
			}
		}
		break
	}
	slices.Sort(found)
	return found
}

// diverse returns the requirements that ask for several values, in order.
func (p *poolRules) diverse() []*labelRule {
	found := []*labelRule{}
	for _, key := range p.order {
		for _, rule := range p.byKey[key] {
			if rule.minValues > 0 {
				found = append(found, rule)
			}
		}
	}
	return found
}

// rulesOf checks requirements; errors have the path below `requirements`.
func rulesOf(requirements []NodePoolRequirement) (*poolRules, error) {
	found := &poolRules{byKey: map[string][]*labelRule{}}
	for place := range requirements {
		rule, err := ruleOf(&requirements[place], place)
		if err != nil {
			return &poolRules{}, err
		}
		if found.byKey[rule.key] == nil {
			found.order = append(found.order, rule.key)
		}
		found.byKey[rule.key] = append(found.byKey[rule.key], rule)
	}
	return found, nil
}

func ruleOf(one *NodePoolRequirement, place int) (*labelRule, error) {
	at := fmt.Sprintf("[%d]", place)
	rule := &labelRule{key: one.Key, operator: one.Operator, values: map[string]bool{}, minValues: int(one.MinValues), place: place}
	for _, value := range one.Values {
		rule.values[value] = true
	}
	switch {
	case one.Key == "":
		return nil, badField(at+".key", "name a label", "it is missing")
	case !slices.Contains(poolOperators, one.Operator):
		return nil, badField(at+".operator", "use one of "+strings.Join(poolOperators, ", "), "%q is no operator", one.Operator)
	case one.Operator == "In" && len(one.Values) == 0:
		return nil, badField(at+".values", "give at least one", "In has no value")
	case (one.Operator == "Exists" || one.Operator == "DoesNotExist") && len(one.Values) > 0:
		return nil, badField(at+".values", "leave them out", "%s takes no value", one.Operator)
	case slices.Contains(comparing, one.Operator):
		if len(one.Values) != 1 || !wholeNumber.MatchString(one.Values[0]) {
			return nil, badField(at+".values", "give an integer of at least 0", "%s takes one number", one.Operator)
		}
		rule.bound, _ = new(big.Int).SetString(one.Values[0], 10)
	}
	if one.MinValues < 0 || one.MinValues > 50 {
		return nil, badField(at+".minValues", "give 1 to 50", "%d is not possible", one.MinValues)
	}
	return rule, nil
}
