package karpenter

import (
	"context"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	pscheduling "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"
)

// disagreement is why Karpenter does not carry out what a planner has chosen.
type disagreement struct {
	// Reason is one of the values of the label `reason`.
	Reason string
	Detail string
	// Nodes are those whose pods are the reason; none = the set as a whole.
	Nodes []string
}

func (d *disagreement) Error() string { return d.Detail }

// Reasons of disagreements.
const (
	podsUnplaced   = "pods-unplaced"
	notCheaper     = "not-cheaper"
	minimumValues  = "minimum-values"
	spotRule       = "spot-rule"
	sameType       = "same-type"
	balancedScore  = "balanced-score"
	overBudget     = "over-budget"
	notACandidate  = "not-a-candidate"
	refusedEarlier = "refused-earlier"
	unknownGroup   = "unknown-group"
)

// checkPlaces returns a disagreement if a pod that runs has no place in the simulation.
func checkPlaces(results pscheduling.Results) *disagreement {
	if results.AllNonPendingPodsScheduled() {
		return nil
	}
	nodes := map[string]bool{}
	for pod := range results.PodErrors {
		if !podutils.IsProvisionable(pod) && pod.Spec.NodeName != "" {
			nodes[pod.Spec.NodeName] = true
		}
	}
	found := &disagreement{Reason: podsUnplaced, Detail: results.NonPendingPodSchedulingErrors()}
	for name := range nodes {
		found.Nodes = append(found.Nodes, name)
	}
	return found
}

// neededClaims returns the new nodes that pods of candidates need; those for pods that wait already are the
// provisioner's.
func neededClaims(results pscheduling.Results, candidates []*disruption.Candidate) []*pscheduling.NodeClaim {
	leaving := namesOf(candidates)
	found := []*pscheduling.NodeClaim{}
	for _, claim := range results.NewNodeClaims {
		for _, pod := range claim.Pods {
			if leaving[pod.Spec.NodeName] {
				found = append(found, claim)
				break
			}
		}
	}
	return found
}

// servesOthers returns whether a new node of the simulation also has pods that wait already.
func servesOthers(results pscheduling.Results, candidates []*disruption.Candidate) bool {
	leaving := namesOf(candidates)
	for _, claim := range results.NewNodeClaims {
		for _, pod := range claim.Pods {
			if !leaving[pod.Spec.NodeName] {
				return true
			}
		}
	}
	return false
}

func namesOf(candidates []*disruption.Candidate) map[string]bool {
	found := map[string]bool{}
	for _, candidate := range candidates {
		found[candidate.Name()] = true
	}
	return found
}

// movedPods counts the pods of candidates that get another place.
func movedPods(results pscheduling.Results, candidates []*disruption.Candidate) int {
	leaving, count := namesOf(candidates), 0
	add := func(pods []*corev1.Pod) {
		for _, pod := range pods {
			if leaving[pod.Spec.NodeName] {
				count++
			}
		}
	}
	for _, node := range results.ExistingNodes {
		add(node.Pods)
	}
	for _, claim := range results.NewNodeClaims {
		add(claim.Pods)
	}
	return count
}

// limitPrices leaves each claim the instance types with which all claims together cost less than `most`, whichever are
// launched: each may cost as much above the cheapest types that satisfy its minValues as the others, in proportion. The
// rules are those that Karpenter has for one claim: on-demand nodes are not replaced by dearer on-demand nodes if there
// is no spot capacity, spot nodes by spot nodes only behind the feature gate, one by one only with enough types, and a
// type that leaves comes only for less than the cheapest node of it.
func limitPrices(ctx context.Context, claims []*pscheduling.NodeClaim, candidates []*disruption.Candidate, most float64) *disagreement {
	cheapest, least, needed := 0.0, 0.0, make([]float64, len(claims))
	for at, claim := range claims {
		if bad := restrictSpot(ctx, claim, candidates); bad != nil {
			return bad
		}
		claim.InstanceTypeOptions = claim.InstanceTypeOptions.OrderByPrice(claim.Requirements)
		var bad *disagreement
		if needed[at], bad = neededPrice(claim); bad != nil {
			return bad
		}
		least += needed[at]
		cheapest += leastPrice(claim)
	}
	if least >= most || math.IsNaN(most) {
		bad := &disagreement{Reason: notCheaper, Detail: fmt.Sprintf("%d new nodes may cost %.4f an hour, and no more than %.4f is allowed", len(claims), least, most)}
		if cheapest < most {
			bad.Reason = minimumValues
		}
		return bad
	}
	for at, claim := range claims {
		limit := math.SmallestNonzeroFloat64 // what is reserved may cost nothing
		if needed[at] > 0 {
			limit = most / least * needed[at]
		}
		if bad := limitPrice(claim, limit); bad != nil {
			return bad
		}
		if bad := limitPrice(claim, sameTypePrice(claim, candidates)); bad != nil {
			return bad
		}
		if bad := limitSpot(claim, candidates); bad != nil {
			return bad
		}
		restrictToSpot(claim)
	}
	return nil
}

// neededPrice returns what the dearest of the cheapest types costs that satisfy the minValues of a claim; without
// minValues, what the cheapest type costs. The types are in the order of their prices.
func neededPrice(claim *pscheduling.NodeClaim) (float64, *disagreement) {
	count, _, err := claim.InstanceTypeOptions.SatisfiesMinValues(claim.Requirements)
	if err != nil {
		return 0, &disagreement{Reason: minimumValues, Detail: err.Error()}
	}
	found := leastPrice(claim)
	for _, instanceType := range claim.InstanceTypeOptions[:count] {
		found = max(found, launchPrice(claim, instanceType))
	}
	return found, nil
}

// limitPrice leaves a claim the types that cost less than `limit`.
func limitPrice(claim *pscheduling.NodeClaim, limit float64) *disagreement {
	claim.InstanceTypeOptions = slices.DeleteFunc(claim.InstanceTypeOptions, func(one *cloudprovider.InstanceType) bool {
		return launchPrice(claim, one) >= limit
	})
	if _, err := claim.RemoveInstanceTypeOptionsByPriceAndMinValues(claim.Requirements, limit); err != nil {
		return &disagreement{Reason: minimumValues, Detail: err.Error()}
	}
	if len(claim.InstanceTypeOptions) == 0 {
		return &disagreement{Reason: sameType, Detail: "a new node would be of a type that leaves, for no less"}
	}
	return nil
}

// limitSpot leaves a spot node that replaces a single spot node the cheapest types, if they are enough, so that the
// result is not replaced again by the next cheaper one.
func limitSpot(claim *pscheduling.NodeClaim, candidates []*disruption.Candidate) *disagreement {
	count := len(claim.InstanceTypeOptions)
	if len(candidates) > 1 || !allSpot(candidates) || !claim.Requirements.Get(v1.CapacityTypeLabelKey).Has(v1.CapacityTypeSpot) {
		return nil
	}
	least := disruption.MinInstanceTypesForSpotToSpotConsolidation
	if count < least {
		return &disagreement{Reason: spotRule, Detail: fmt.Sprintf("a spot node needs %d cheaper instance types to be replaced by another, there are %d", least, count)}
	}
	if claim.Requirements.HasMinValues() {
		needed, _, _ := claim.InstanceTypeOptions.SatisfiesMinValues(claim.Requirements)
		least = max(least, needed)
	}
	claim.InstanceTypeOptions = claim.InstanceTypeOptions[:min(least, count)]
	return nil
}

// restrictSpot applies the rule for spot nodes that would be replaced by spot nodes.
func restrictSpot(ctx context.Context, claim *pscheduling.NodeClaim, candidates []*disruption.Candidate) *disagreement {
	if !allSpot(candidates) || !claim.Requirements.Get(v1.CapacityTypeLabelKey).Has(v1.CapacityTypeSpot) {
		return nil
	}
	if !options.FromContext(ctx).FeatureGates.SpotToSpotConsolidation {
		return &disagreement{Reason: spotRule, Detail: "SpotToSpotConsolidation is disabled, spot nodes are not replaced by spot nodes"}
	}
	claim.Requirements.Add(scheduling.NewRequirement(v1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, v1.CapacityTypeSpot))
	claim.InstanceTypeOptions = claim.InstanceTypeOptions.Compatible(claim.Requirements)
	return nil
}

// restrictToSpot makes a claim that may be of both kinds one for spot: its price was computed so, and a launch that
// fails keeps the nodes that leave, while an on-demand node in its place could cost more than they do.
func restrictToSpot(claim *pscheduling.NodeClaim) {
	kind := claim.Requirements.Get(v1.CapacityTypeLabelKey)
	if asksForSeveral(claim, v1.CapacityTypeLabelKey) {
		return // its price was computed for the dearest of them
	}
	if kind.Has(v1.CapacityTypeSpot) && kind.Has(v1.CapacityTypeOnDemand) {
		claim.Requirements.Add(scheduling.NewRequirement(v1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, v1.CapacityTypeSpot))
	}
}

func allSpot(candidates []*disruption.Candidate) bool {
	for _, candidate := range candidates {
		if candidate.Labels()[v1.CapacityTypeLabelKey] != v1.CapacityTypeSpot {
			return false
		}
	}
	return true
}

// launchPrice returns what a node of a claim costs at most if it is of this type.
func launchPrice(claim *pscheduling.NodeClaim, instanceType *cloudprovider.InstanceType) float64 {
	offerings := instanceType.Offerings.Launchable()
	if possible := offerings.Compatible(claim.Requirements); asksForSeveral(claim, v1.CapacityTypeLabelKey) && len(possible) > 0 {
		return possible.MostExpensive().Price
	}
	return offerings.WorstLaunchPrice(claim.Requirements)
}

func leastPrice(claim *pscheduling.NodeClaim) float64 {
	found := math.MaxFloat64
	for _, instanceType := range claim.InstanceTypeOptions {
		found = min(found, launchPrice(claim, instanceType))
	}
	return found
}

// sameTypePrice returns what the cheapest candidate costs whose type the claim may be of.
func sameTypePrice(claim *pscheduling.NodeClaim, candidates []*disruption.Candidate) float64 {
	may := map[string]bool{}
	for _, instanceType := range claim.InstanceTypeOptions {
		may[instanceType.Name] = true
	}
	found := math.MaxFloat64
	for _, candidate := range candidates {
		if may[candidate.Labels()[corev1.LabelInstanceTypeStable]] {
			found = min(found, candidate.Price)
		}
	}
	return found
}

// costOf sums up what candidates cost for one hour, NaN if that is not known of one.
func costOf(candidates []*disruption.Candidate) float64 {
	sum := 0.0
	for _, candidate := range candidates {
		if candidate.Price <= 0 {
			return math.NaN()
		}
		sum += candidate.Price
	}
	return sum
}
