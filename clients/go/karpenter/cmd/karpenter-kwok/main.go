// Command karpenter-kwok is Karpenter with its kwok provider and, with --trimtab-address, plans of Trimtab. Without the
// flag it is the same as upstream's. A main of another provider differs in the same few lines.
package main

import (
	"os"

	"github.com/samber/lo"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/node/health"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
	"sigs.k8s.io/karpenter/pkg/operator/options"

	trimtab "trimtab.dev/clients/go/karpenter"
)

func main() {
	options.Injectables = append(options.Injectables, &trimtab.Options{})
	ctx, op := operator.NewOperator()
	types, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "failed constructing instance types")
		os.Exit(1)
	}
	plain := kwok.NewCloudProvider(ctx, op.GetClient(), types)
	cloud := overlay.Decorate(plain, op.GetClient(), op.InstanceTypeStore)
	matcher := lo.Must(health.NewRepairPolicyMatcher(ctx, cloud))
	cluster := state.NewCluster(op.Clock, op.GetClient(), cloud, state.WithRepairPolicyMatcher(matcher))
	all := controllers.NewControllers(ctx, op.Manager, op.Clock, op.GetClient(), op.EventRecorder, cloud, plain, cluster,
		op.InstanceTypeStore, op.PredictionStore)

	if given := trimtab.FromContext(ctx); given.Address != "" {
		planner := lo.Must(trimtab.Dial(given))
		all = lo.Must(trimtab.WithPlanner(ctx, all, trimtab.Karpenter{
			Clock: op.Clock, Client: op.GetClient(), Recorder: op.EventRecorder, Cloud: cloud, Cluster: cluster,
		}, planner, given.Settings))
	}
	op.WithControllers(ctx, all...).Start(ctx)
}
