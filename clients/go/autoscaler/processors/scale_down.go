//go:build cluster_autoscaler

package processors

import (
	"context"
	"slices"

	apiv1 "k8s.io/api/core/v1"
	ca_context "k8s.io/autoscaler/cluster-autoscaler/context"
	"k8s.io/autoscaler/cluster-autoscaler/processors/nodes"
	"k8s.io/autoscaler/cluster-autoscaler/simulator"
	"k8s.io/autoscaler/cluster-autoscaler/utils/errors"
	klog "k8s.io/klog/v2"

	"trimtab.dev/clients/go/autoscaler"
)

// Candidates is a ScaleDownNodeProcessor: the nodes of the plan are looked at first, in the plan's order, and the
// others in the order of the processor that it stands before. No node is left out or added.
type Candidates struct {
	inner   nodes.ScaleDownNodeProcessor
	advisor *autoscaler.Advisor
}

var _ nodes.ScaleDownNodeProcessor = &Candidates{}

// NewCandidates returns a processor that stands before another one, such as the builder's.
func NewCandidates(inner nodes.ScaleDownNodeProcessor, advisor *autoscaler.Advisor) *Candidates {
	return &Candidates{inner, advisor}
}

// GetPodDestinationCandidates returns what the other processor returns.
func (c *Candidates) GetPodDestinationCandidates(given *ca_context.AutoscalingContext, all []*apiv1.Node) ([]*apiv1.Node, errors.AutoscalerError) {
	return c.inner.GetPodDestinationCandidates(given, all)
}

// GetScaleDownCandidates asks for a plan, and sorts the candidates by it.
func (c *Candidates) GetScaleDownCandidates(given *ca_context.AutoscalingContext, all []*apiv1.Node) ([]*apiv1.Node, errors.AutoscalerError) {
	found, failure := c.inner.GetScaleDownCandidates(given, all)
	if failure != nil {
		return found, failure
	}
	groups, err := groupsOf(given.CloudProvider, all)
	if err != nil {
		klog.Warningf("trimtab: no plan of nodes to remove: %v", err)
		return found, nil
	}
	plan := c.advisor.PlanRemovals(context.Background(), groups)
	if plan == nil {
		klog.Warning("trimtab: no plan of nodes to remove, candidates keep their order")
		return found, nil
	}
	klog.V(2).Infof("trimtab: %d nodes can go together", plan.Len())
	sorted := slices.Clone(found)
	slices.SortStableFunc(sorted, func(a, b *apiv1.Node) int { return plan.Rank(a.Name) - plan.Rank(b.Name) })
	return sorted, nil
}

// CleanUp ends the other processor.
func (c *Candidates) CleanUp() { c.inner.CleanUp() }

// Set is a ScaleDownSetProcessor: of the nodes that are to go now, those stay that the plan of this loop keeps, or has
// in a later wave. Without a plan it keeps none.
type Set struct {
	advisor *autoscaler.Advisor
}

var _ nodes.ScaleDownSetProcessor = &Set{}

// NewSet returns a processor for the list of a CompositeScaleDownSetProcessor, before those that keep groups whole.
func NewSet(advisor *autoscaler.Advisor) *Set { return &Set{advisor} }

// FilterUnremovableNodes divides the candidates.
func (s *Set) FilterUnremovableNodes(_ *ca_context.AutoscalingContext, _ *nodes.ScaleDownContext, candidates []simulator.NodeToBeRemoved) ([]simulator.NodeToBeRemoved, []simulator.UnremovableNode) {
	plan := s.advisor.Removals()
	if plan == nil {
		return candidates, []simulator.UnremovableNode{}
	}
	going, staying := []simulator.NodeToBeRemoved{}, []simulator.UnremovableNode{}
	for _, one := range candidates {
		if plan.GoesNow(one.Node.Name) {
			going = append(going, one)
		} else {
			staying = append(staying, simulator.UnremovableNode{Node: one.Node, Reason: simulator.NotUnneededOtherReason})
		}
	}
	return going, staying
}

// CleanUp does nothing.
func (s *Set) CleanUp() {}
