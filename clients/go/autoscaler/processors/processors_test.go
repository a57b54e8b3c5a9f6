//go:build cluster_autoscaler

package processors

import (
	"fmt"
	"slices"
	"testing"
	"time"

	apiv1 "k8s.io/api/core/v1"
	testprovider "k8s.io/autoscaler/cluster-autoscaler/cloudprovider/test"
	ca_context "k8s.io/autoscaler/cluster-autoscaler/context"
	"k8s.io/autoscaler/cluster-autoscaler/expander"
	"k8s.io/autoscaler/cluster-autoscaler/simulator"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/framework"
	"k8s.io/autoscaler/cluster-autoscaler/utils/errors"
	catest "k8s.io/autoscaler/cluster-autoscaler/utils/test"

	"trimtab.dev/clients/go/autoscaler"
	"trimtab.dev/clients/go/internal/testplanner"
	"trimtab.dev/clients/go/trimtab"
)

// inner is the processor that ours stands before: all nodes, as they are given.
type inner struct{}

func (inner) GetPodDestinationCandidates(_ *ca_context.AutoscalingContext, all []*apiv1.Node) ([]*apiv1.Node, errors.AutoscalerError) {
	return all, nil
}

func (inner) GetScaleDownCandidates(_ *ca_context.AutoscalingContext, all []*apiv1.Node) ([]*apiv1.Node, errors.AutoscalerError) {
	return all, nil
}

func (inner) CleanUp() {}

// first takes the first option.
type first struct{}

func (first) BestOption(options []expander.Option, _ map[string]*framework.NodeInfo) *expander.Option {
	return &options[0]
}

// cluster has five nodes of one group; n0 and n1 have a pod that nobody would create again.
func cluster() (*testprovider.TestCloudProvider, []*apiv1.Node, func() (*trimtab.Cluster, error)) {
	cloud := testprovider.NewTestCloudProviderBuilder().Build()
	cloud.AddNodeGroup("a", 0, 10, 5)
	cloud.AddNodeGroup("b", 0, 10, 0)
	nodes, pods := []*apiv1.Node{}, []*apiv1.Pod{}
	for at := range 5 {
		node := catest.BuildTestNode(fmt.Sprint("n", at), 4000, 16<<30)
		catest.SetNodeReadyState(node, true, time.Time{})
		nodes = append(nodes, node)
		cloud.AddNode("a", node)
		if at < 2 {
			pod := catest.BuildTestPod(fmt.Sprint("p", at), 500, 0)
			pod.Spec.NodeName, pod.Status.Phase = node.Name, apiv1.PodRunning
			pods = append(pods, pod)
		}
	}
	return cloud, nodes, func() (*trimtab.Cluster, error) {
		found := &trimtab.Cluster{}
		trimtab.Add(found, nodes...)
		trimtab.Add(found, pods...)
		return found, nil
	}
}

func advisorOf(t *testing.T, address string, objects func() (*trimtab.Cluster, error)) *autoscaler.Advisor {
	t.Helper()
	client, err := trimtab.NewClient(address, trimtab.Options{Retry: trimtab.RetryPolicy{UnavailableCalls: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return autoscaler.NewAdvisor(client, objects, autoscaler.Settings{Deadline: time.Minute})
}

func namesOf(nodes []*apiv1.Node) []string {
	found := []string{}
	for _, node := range nodes {
		found = append(found, node.Name)
	}
	return found
}

func removable(nodes []*apiv1.Node) []simulator.NodeToBeRemoved {
	found := []simulator.NodeToBeRemoved{}
	for _, node := range nodes {
		found = append(found, simulator.NodeToBeRemoved{Node: node})
	}
	return found
}

func TestWithoutAPlannerTheClusterAutoscalerDecides(t *testing.T) {
	cloud, nodes, objects := cluster()
	advisor := advisorOf(t, "127.0.0.1:1", objects)
	got, failure := NewCandidates(inner{}, advisor).GetScaleDownCandidates(&ca_context.AutoscalingContext{CloudProvider: cloud}, nodes)
	if failure != nil || !slices.Equal(namesOf(got), namesOf(nodes)) {
		t.Errorf("got %v, %v", namesOf(got), failure)
	}
	going, staying := NewSet(advisor).FilterUnremovableNodes(nil, nil, removable(nodes))
	if len(going) != 5 || len(staying) != 0 {
		t.Errorf("%d go, %d stay", len(going), len(staying))
	}
	options := []expander.Option{{NodeGroup: cloud.GetNodeGroup("b"), NodeCount: 1}, {NodeGroup: cloud.GetNodeGroup("a"), NodeCount: 1}}
	list := func() ([]*apiv1.Node, error) { return nodes, nil }
	if best := NewExpander(advisor, cloud, list, first{}).BestOption(options, nil); best.NodeGroup.Id() != "b" {
		t.Errorf("got %s", best.NodeGroup.Id())
	}
}

func TestNodesOfThePlanComeFirstAndOthersStay(t *testing.T) {
	address, _ := testplanner.Start(t)
	cloud, nodes, objects := cluster()
	advisor := advisorOf(t, address, objects)
	got, failure := NewCandidates(inner{}, advisor).GetScaleDownCandidates(&ca_context.AutoscalingContext{CloudProvider: cloud}, nodes)
	if failure != nil || len(got) != 5 || !slices.Equal(namesOf(got)[3:], []string{"n0", "n1"}) {
		t.Errorf("got %v, %v", namesOf(got), failure)
	}
	going, staying := NewSet(advisor).FilterUnremovableNodes(nil, nil, removable(nodes))
	if len(going) != 3 || len(staying) != 2 {
		t.Errorf("%d go, %d stay", len(going), len(staying))
	}
}
