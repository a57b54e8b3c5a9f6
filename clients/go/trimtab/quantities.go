package trimtab

import (
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// mostRequested is the most of one resource that counts for a pod: more
	// than any node has. A planner takes amounts whose sum stays below 2^62.
	mostRequested = int64(1) << 50
	// mostOfANode is the most of one resource that counts for a node.
	mostOfANode = mostRequested - 1
	// mostMilli is where amounts stop growing; far above what still counts.
	mostMilli = int64(1) << 62
)

// amounts holds resources in thousandths, rounded up, as the API server stores
// them. Very large ones stop at mostMilli.
type amounts map[corev1.ResourceName]int64

// milliOf returns a quantity in thousandths, rounded up.
func milliOf(q resource.Quantity) int64 {
	if whole, ok := q.AsInt64(); ok {
		if whole > mostMilli/1000 {
			return mostMilli
		}
		return whole * 1000
	}
	if q.CmpInt64(mostMilli/1000) > 0 {
		return mostMilli
	}
	return q.MilliValue()
}

// amountsOf returns a list of resources; negative amounts are refused.
func amountsOf(list corev1.ResourceList) (amounts, error) {
	out := make(amounts, len(list))
	for name, q := range list {
		if q.Sign() < 0 {
			return nil, badField(string(name), "give an amount of at least 0", "%s is negative", q.String())
		}
		out[name] = milliOf(q)
	}
	return out, nil
}

// add adds other amounts.
func (a amounts) add(more amounts) {
	for name, milli := range more {
		a[name] = min(a[name]+min(milli, mostMilli-a[name]), mostMilli)
	}
}

// raiseTo takes the larger of both for each resource.
func (a amounts) raiseTo(other amounts) {
	for name, milli := range other {
		if have, ok := a[name]; !ok || milli > have {
			a[name] = milli
		}
	}
}

// overlaid returns the amounts with those of another in their place.
func (a amounts) overlaid(over amounts) amounts {
	out := make(amounts, len(a)+len(over))
	for name, milli := range a {
		out[name] = milli
	}
	for name, milli := range over {
		out[name] = milli
	}
	return out
}

// amountOf returns what the scheduler counts: milli-cores of cpu, whole units,
// rounded up, of all others.
func amountOf(name corev1.ResourceName, milli int64) int64 {
	if name == corev1.ResourceCPU {
		return milli
	}
	if milli > math.MaxInt64-999 {
		return milli / 1000
	}
	return (milli + 999) / 1000
}

// counts says whether the scheduler considers a resource of this name.
func counts(name corev1.ResourceName) bool {
	text := string(name)
	if name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage {
		return true
	}
	if strings.HasPrefix(text, "hugepages-") || strings.HasPrefix(text, "attachable-volumes-") {
		return true
	}
	return strings.Contains(text, "/") && !strings.HasPrefix(text, "requests.")
}

// sameQuantities compares lists as the API server writes them.
func sameQuantities(one, other corev1.ResourceList) bool {
	if len(one) != len(other) {
		return false
	}
	for name, q := range one {
		same, ok := other[name]
		if !ok || q.String() != same.String() {
			return false
		}
	}
	return true
}
