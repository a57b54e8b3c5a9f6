//go:build cluster_autoscaler

package processors

import (
	"fmt"
	"reflect"
	"time"

	apiv1 "k8s.io/api/core/v1"
	"k8s.io/autoscaler/cluster-autoscaler/cloudprovider"

	"trimtab.dev/clients/go/trimtab"
)

// groupsOf returns the node groups of a cloud, with the nodes that each has and their price where the cloud knows it.
func groupsOf(cloud cloudprovider.CloudProvider, nodes []*apiv1.Node) ([]*trimtab.NodeGroup, error) {
	members := map[string][]string{}
	for _, node := range nodes {
		group, err := cloud.NodeGroupForNode(node)
		if err != nil {
			return nil, fmt.Errorf("node group of node %s, %w", node.Name, err)
		}
		// Some clouds return a nil pointer for nodes that are in no group.
		if group != nil && !reflect.ValueOf(group).IsNil() {
			members[group.Id()] = append(members[group.Id()], node.Name)
		}
	}
	pricing, failure := cloud.Pricing()
	if failure != nil {
		pricing = nil
	}
	found := []*trimtab.NodeGroup{}
	for _, group := range cloud.NodeGroups() {
		made, err := groupOf(group, members[group.Id()], pricing)
		if err != nil {
			return nil, err
		}
		found = append(found, made)
	}
	return found, nil
}

func groupOf(group cloudprovider.NodeGroup, nodes []string, pricing cloudprovider.PricingModel) (*trimtab.NodeGroup, error) {
	size, err := group.TargetSize()
	if err != nil {
		return nil, fmt.Errorf("target size of %s, %w", group.Id(), err)
	}
	most, target := int32(group.MaxSize()), int32(size)
	made := trimtab.NewNodeGroup(group.Id(), trimtab.NodeGroupSpec{
		MinSize: int32(group.MinSize()), MaxSize: &most, TargetSize: &target, Nodes: nodes,
	})
	// Without a template, the planner takes one of the group's nodes.
	template, err := group.TemplateNodeInfo()
	if err != nil || template == nil || template.Node() == nil {
		return made, nil
	}
	made.Spec.Template = &trimtab.NodeTemplate{Node: *template.Node()}
	for _, pod := range template.Pods() {
		made.Spec.DaemonSetPods = append(made.Spec.DaemonSetPods, pod.Pod)
	}
	if pricing != nil {
		now := time.Now()
		if price, err := pricing.NodePrice(template.Node(), now, now.Add(time.Hour)); err == nil {
			made.Spec.Price = &price
		}
	}
	return made, nil
}
