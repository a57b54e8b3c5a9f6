package autoscaler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"trimtab.dev/clients/go/autoscaler"
	"trimtab.dev/clients/go/internal/testplanner"
	"trimtab.dev/clients/go/trimtab"
)

// planner returns a client of a real planner, and what kills it.
func planner(t *testing.T) (*trimtab.Client, func()) {
	t.Helper()
	address, kill := testplanner.Start(t)
	client, err := trimtab.NewClient(address, trimtab.Options{Retry: trimtab.RetryPolicy{UnavailableCalls: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return client, kill
}

func amounts(cpu string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110")}
}

func node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "a", corev1.LabelHostname: name}},
		Status:     corev1.NodeStatus{Capacity: amounts("4"), Allocatable: amounts("4"), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func pod(name, node, cpu string) *corev1.Pod {
	phase := corev1.PodRunning
	conditions := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if node == "" {
		phase = corev1.PodPending
		conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID("uid-" + name),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "c", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
		}}}},
		Status: corev1.PodStatus{Phase: phase, Conditions: conditions},
	}
}

// cluster has nodes n0 to n5; n0 is full, the others are hardly used.
func cluster() (*trimtab.Cluster, error) {
	objects := &trimtab.Cluster{}
	trimtab.Add(objects, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "web"},
		Spec:       appsv1.ReplicaSetSpec{Replicas: ptr.To(int32(6)), Template: corev1.PodTemplateSpec{Spec: pod("", "", "500m").Spec}},
		Status:     appsv1.ReplicaSetStatus{Replicas: 6},
	})
	for at := range 6 {
		cpu := "500m"
		if at == 0 {
			cpu = "3900m"
		}
		trimtab.Add(objects, node(fmt.Sprint("n", at)))
		trimtab.Add(objects, pod(fmt.Sprint("p", at), fmt.Sprint("n", at), cpu))
	}
	return objects, nil
}

func group(name string, price float64, nodes ...string) *trimtab.NodeGroup {
	return trimtab.NewNodeGroup(name, trimtab.NodeGroupSpec{
		MaxSize: ptr.To(int32(10)), Nodes: nodes, Price: &price, Template: &trimtab.NodeTemplate{Node: *node("template-" + name)},
	})
}

func TestThePlansNodesComeFirstAndTheFullNodeStays(t *testing.T) {
	client, kill := planner(t)
	reasons := []error{}
	now := time.Now()
	advisor := autoscaler.NewAdvisor(client, cluster, autoscaler.Settings{
		Failed: func(err error) { reasons = append(reasons, err) }, Now: func() time.Time { return now },
	})
	groups := []*trimtab.NodeGroup{group("a", 1, "n0", "n1", "n2", "n3", "n4", "n5")}
	removals := advisor.PlanRemovals(context.Background(), groups)
	if removals == nil {
		t.Fatal(reasons)
	}
	if removals.Len() != 4 || removals.GoesNow("n0") || removals.Rank("n0") != removals.Len() {
		t.Errorf("%d nodes go; n0 has rank %d, goes: %v", removals.Len(), removals.Rank("n0"), removals.GoesNow("n0"))
	}
	going := 0
	for at := 1; at < 6; at++ {
		name := fmt.Sprint("n", at)
		if removals.GoesNow(name) != (removals.Rank(name) < removals.Len()) {
			t.Errorf("%s: rank %d, goes now: %v", name, removals.Rank(name), removals.GoesNow(name))
		}
		if removals.GoesNow(name) {
			going++
		}
	}
	if going != 4 {
		t.Errorf("%d go now", going)
	}
	if advisor.Removals() != removals {
		t.Error("the plan is not remembered")
	}
	now = now.Add(3 * time.Minute)
	if advisor.Removals() != nil {
		t.Error("an old plan counts")
	}
	kill()
	if advisor.PlanRemovals(context.Background(), groups) != nil || advisor.Removals() != nil || len(reasons) != 1 || !trimtab.IsUnavailable(reasons[0]) {
		t.Errorf("without a planner: %v", reasons)
	}
}

func TestTheCheaperGroupGrows(t *testing.T) {
	client, _ := planner(t)
	waiting := func() (*trimtab.Cluster, error) {
		objects, err := cluster()
		trimtab.Add(objects, pod("w1", "", "3900m"), pod("w2", "", "3900m"))
		return objects, err
	}
	advisor := autoscaler.NewAdvisor(client, waiting, autoscaler.Settings{})
	growth := advisor.PlanGrowth(context.Background(), []*trimtab.NodeGroup{group("dear", 2, "n0"), group("cheap", 1, "n1")})
	if growth["cheap"] != 2 || growth["dear"] != 0 {
		t.Errorf("got %v", growth)
	}
}

func TestWhatCannotBeReadIsNoPlanAndIsTold(t *testing.T) {
	client, err := trimtab.NewClient("127.0.0.1:1", trimtab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("no lists yet")
	var told error
	advisor := autoscaler.NewAdvisor(client, func() (*trimtab.Cluster, error) { return nil, broken }, autoscaler.Settings{
		Failed: func(err error) { told = err },
	})
	if advisor.PlanRemovals(context.Background(), nil) != nil || !errors.Is(told, broken) {
		t.Errorf("told %v", told)
	}
}
