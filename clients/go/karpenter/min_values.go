package karpenter

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// minValues is a requirement of a NodePool that asks for several values of a label of machines.
type minValues struct {
	key   string
	count int
}

// roomWithMinValues returns what a new node of each offering may be planned to hold, so that enough other machines
// could hold it too: Karpenter adds a pod to a new node only while the instance types that could hold all its pods have
// at least so many values of a label. Of each offering only that much is planned with which at least so many values of
// the label have an offering for: those that have most of what this one has, by the scarcest resource. The offerings
// must have enough values; amounts that need not be less stay as they are.
func roomWithMinValues(required []minValues, groups []*Group) []corev1.ResourceList {
	found := make([]corev1.ResourceList, len(groups))
	rows, rowOf := distinctGroups(required, groups)
	names := map[corev1.ResourceName]bool{}
	for _, one := range rows {
		for name := range one.Template.Status.Allocatable {
			names[name] = true
		}
	}
	resources := slices.Sorted(maps.Keys(names))
	amounts := make([][]int64, len(rows))
	for row, one := range rows {
		for _, name := range resources {
			amounts[row] = append(amounts[row], amountOf(name, one.Template.Status.Allocatable[name]))
		}
	}
	reduced := make([]corev1.ResourceList, len(rows))
	for row := range rows {
		held := slices.Clone(amounts[row])
		for _, one := range required {
			limitToOthers(held, row, amounts, rows, one)
		}
		reduced[row] = lessOf(rows[row].Template.Status.Allocatable, resources, held, amounts[row])
	}
	for at := range groups {
		found[at] = reduced[rowOf[at]]
		if len(required) == 0 {
			found[at] = groups[at].Template.Status.Allocatable
		}
	}
	return found
}

// distinctGroups returns an example of each kind of offering, in the order of the offerings, and the kind of each.
func distinctGroups(required []minValues, groups []*Group) ([]*Group, []int) {
	rows, rowOf, known := []*Group{}, make([]int, len(groups)), map[string]int{}
	for at, one := range groups {
		text := &strings.Builder{}
		for _, name := range slices.Sorted(maps.Keys(one.Template.Status.Allocatable)) {
			amount := one.Template.Status.Allocatable[name]
			fmt.Fprintf(text, "%s=%s\x00", name, amount.String())
		}
		for _, of := range required {
			value, is := one.Template.Labels[of.key]
			fmt.Fprintf(text, "%t%s\x00", is, value)
		}
		row, isKnown := known[text.String()]
		if !isKnown {
			row = len(rows)
			known[text.String()] = row
			rows = append(rows, one)
		}
		rowOf[at] = row
	}
	return rows, rowOf
}

// limitToOthers lowers what a row may hold to what enough values of a label have a row for.
func limitToOthers(held []int64, row int, amounts [][]int64, rows []*Group, required minValues) {
	type other struct {
		row   int
		value string
		share float64
	}
	others := []other{}
	for at, one := range rows {
		value, is := one.Template.Labels[required.key]
		if !is {
			continue
		}
		share := 1.0
		for column, own := range amounts[row] {
			if own > 0 {
				share = min(share, float64(amounts[at][column])/float64(own))
			}
		}
		others = append(others, other{at, value, share})
	}
	slices.SortStableFunc(others, func(a, b other) int { return cmp.Compare(b.share, a.share) })
	seen := map[string]bool{}
	for _, one := range others {
		if seen[one.value] {
			continue
		}
		if len(seen) == required.count {
			break
		}
		seen[one.value] = true
		for column := range held {
			held[column] = min(held[column], amounts[one.row][column])
		}
	}
}

// lessOf returns amounts, with those that are less than the offering has written anew.
func lessOf(list corev1.ResourceList, resources []corev1.ResourceName, held, amounts []int64) corev1.ResourceList {
	found := list.DeepCopy()
	for at, name := range resources {
		if held[at] >= amounts[at] {
			continue
		}
		found[name] = *resource.NewQuantity(held[at], resource.DecimalSI)
		if name == corev1.ResourceCPU {
			found[name] = *resource.NewMilliQuantity(held[at], resource.DecimalSI)
		}
	}
	return found
}

// amountOf returns what the scheduler counts: milli-cores of cpu, whole units of all others.
func amountOf(name corev1.ResourceName, of resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return max(of.MilliValue(), 0)
	}
	return max(of.Value(), 0)
}
