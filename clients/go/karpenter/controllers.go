package karpenter

import (
	"context"
	"errors"

	"github.com/awslabs/operatorpkg/controller"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	metricsnodepool "sigs.k8s.io/karpenter/pkg/controllers/metrics/nodepool"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/controllers/state/informer"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/state/cost"
)

// Karpenter is what its own main hands to controllers.NewControllers.
type Karpenter struct {
	Clock    clock.Clock
	Client   client.Client
	Recorder events.Recorder
	Cloud    cloudprovider.CloudProvider
	Cluster  *state.Cluster
}

// WithPlanner returns Karpenter's controllers with a disruption controller that asks a planner before Karpenter's own
// consolidation. Those that share the cost of NodePools with it are made anew, as they do not give it away.
func WithPlanner(ctx context.Context, given []controller.Controller, of Karpenter, planner Planner, settings Settings) ([]controller.Controller, error) {
	var provisioner *provisioning.Provisioner
	var queue *disruption.Queue
	for _, one := range given {
		switch typed := one.(type) {
		case *provisioning.Provisioner:
			provisioner = typed
		case *disruption.Queue:
			queue = typed
		}
	}
	if provisioner == nil || queue == nil {
		return nil, errors.New("the controllers have no provisioner or no disruption queue: this version of Karpenter is not known")
	}
	parts := Parts{Karpenter: of, Provisioner: provisioner, Queue: queue}
	clusterCost := cost.NewClusterCost(ctx, of.Cloud, of.Client)
	found, replaced := make([]controller.Controller, len(given)), false
	for at, one := range given {
		switch one.(type) {
		case *disruption.Controller:
			replaced = true
			found[at] = disruption.NewController(ctx, of.Clock, of.Client, provisioner, of.Cloud, of.Recorder, of.Cluster, queue, clusterCost,
				disruption.WithMethods(Methods(ctx, parts, NewMethod(parts, planner, settings))...))
		case *informer.NodePoolController:
			found[at] = informer.NewNodePoolController(of.Client, of.Cloud, of.Cluster, clusterCost)
		case *informer.NodeClaimController:
			found[at] = informer.NewNodeClaimController(of.Client, of.Cloud, of.Cluster, clusterCost)
		case *informer.PricingController:
			found[at] = informer.NewPricingController(of.Client, of.Cloud, clusterCost)
		case *metricsnodepool.Controller:
			found[at] = metricsnodepool.NewController(of.Client, of.Cloud, clusterCost)
		default:
			found[at] = one
		}
	}
	if !replaced {
		return nil, errors.New("the controllers have no disruption controller: this version of Karpenter is not known")
	}
	return found, nil
}

// Methods returns Karpenter's methods with this one before its consolidation of several and of single nodes, which wait
// while a command of this one is in progress. Repair, emptiness and drift stay before it.
func Methods(ctx context.Context, parts Parts, first *Method) []disruption.Method {
	found := []disruption.Method{}
	isIn := false
	for _, method := range disruption.NewMethods(ctx, parts.Clock, parts.Cluster, parts.Client, parts.Provisioner, parts.Cloud, parts.Recorder, parts.Queue) {
		switch method.(type) {
		case *disruption.MultiNodeConsolidation, *disruption.SingleNodeConsolidation:
			if !isIn {
				found, isIn = append(found, first), true
			}
			method = &waiting{Method: method, first: first}
		}
		found = append(found, method)
	}
	if !isIn {
		found = append(found, first)
	}
	return found
}

// waiting is a method of Karpenter's that finds nothing while a command of another one is in progress.
type waiting struct {
	disruption.Method
	first *Method
}

func (w *waiting) ComputeCommands(ctx context.Context, budgets map[string]int, candidates ...*disruption.Candidate) ([]disruption.Command, error) {
	if w.first.IsBusy() {
		return nil, nil
	}
	return w.Method.ComputeCommands(ctx, budgets, candidates...)
}

// SetNodePoolTotals hands over what the policy Balanced compares with.
func (w *waiting) SetNodePoolTotals(totals map[string]disruption.NodePoolTotals) {
	if setter, takes := w.Method.(disruption.NodePoolTotalsSetter); takes {
		setter.SetNodePoolTotals(totals)
	}
}
