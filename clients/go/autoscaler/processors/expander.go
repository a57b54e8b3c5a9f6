//go:build cluster_autoscaler

package processors

import (
	"context"

	apiv1 "k8s.io/api/core/v1"
	"k8s.io/autoscaler/cluster-autoscaler/cloudprovider"
	"k8s.io/autoscaler/cluster-autoscaler/expander"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/framework"
	klog "k8s.io/klog/v2"

	"trimtab.dev/clients/go/autoscaler"
)

// Expander is an expander Strategy and Filter: of the options, it takes the group that the plan gives most new nodes.
// If there is no plan, or it grows none of the options, another strategy decides.
type Expander struct {
	advisor  *autoscaler.Advisor
	cloud    cloudprovider.CloudProvider
	nodes    func() ([]*apiv1.Node, error)
	fallback expander.Strategy
}

var (
	_ expander.Strategy = &Expander{}
	_ expander.Filter   = &Expander{}
)

// NewExpander returns an expander. nodes lists all nodes of the cluster.
func NewExpander(advisor *autoscaler.Advisor, cloud cloudprovider.CloudProvider, nodes func() ([]*apiv1.Node, error), fallback expander.Strategy) *Expander {
	return &Expander{advisor, cloud, nodes, fallback}
}

// BestOption returns the option of the plan, or the other strategy's.
func (e *Expander) BestOption(options []expander.Option, infos map[string]*framework.NodeInfo) *expander.Option {
	return e.fallback.BestOption(e.BestOptions(options, infos), infos)
}

// BestOptions returns the option of the plan alone, or all options.
func (e *Expander) BestOptions(options []expander.Option, _ map[string]*framework.NodeInfo) []expander.Option {
	growth := e.growth()
	best, most := -1, 0
	for at, option := range options {
		if count := growth[option.NodeGroup.Id()]; count > most {
			best, most = at, count
		}
	}
	if best < 0 {
		return options
	}
	klog.V(2).Infof("trimtab: node group %s grows", options[best].NodeGroup.Id())
	return options[best : best+1]
}

func (e *Expander) growth() map[string]int {
	nodes, err := e.nodes()
	if err != nil {
		klog.Warningf("trimtab: no plan of growth: %v", err)
		return nil
	}
	groups, err := groupsOf(e.cloud, nodes)
	if err != nil {
		klog.Warningf("trimtab: no plan of growth: %v", err)
		return nil
	}
	return e.advisor.PlanGrowth(context.Background(), groups)
}
