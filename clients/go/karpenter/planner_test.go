package karpenter

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"trimtab.dev/clients/go/internal/testplanner"
)

// asked makes the world's method ask a real planner.
func asked(t *testing.T, w *world) func() {
	t.Helper()
	address, kill := testplanner.Start(t)
	given := &Options{Address: address, ClusterName: "test", Settings: DefaultSettings()}
	given.Settings.ValidationDelay, given.Settings.Deadline = 0, time.Minute
	planner, err := Dial(given)
	if err != nil {
		t.Fatal(err)
	}
	w.method = NewMethod(w.parts, planner, given.Settings)
	return kill
}

func TestARealPlannersPlanOfSeveralNewNodesIsCarriedOut(t *testing.T) {
	w := newWorld(t, func(pool *v1.NodePool) { pool.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "3"}} })
	w.cloud.InstanceTypes = append(w.cloud.InstanceTypes, instanceType("twelve", 12, 1.8, false))
	for _, name := range []string{"a", "b", "c", "d"} {
		w.addNode(name, "twelve", v1.CapacityTypeOnDemand, 3800, 3800)
	}
	w.addPod("stays", "d", 3900, func(pod *corev1.Pod) { pod.Annotations = map[string]string{v1.DoNotDisruptAnnotationKey: "true"} })
	kill := asked(t, w)
	commands := w.compute()
	if len(commands) != 1 {
		t.Fatalf("got %v", commands)
	}
	command := commands[0]
	if len(command.Candidates) > 3 || slices.Contains(names(command.Candidates), "d") || len(command.Replacements) < 2 {
		t.Errorf("%v leave, %d come", names(command.Candidates), len(command.Replacements))
	}
	// 22.8 cores cost 2.4 at least, on nodes of 4 that take one pod each; Karpenter alone would fill nodes of 12 and 16.
	if saving, least := command.EstimatedSavings(), 3*1.8-6*0.4; math.Abs(saving-least) > 1e-6 {
		t.Errorf("saves %v, not %v", saving, least)
	}
	kill()
	w.method.started = nil
	w.parts.Cluster.MarkUnconsolidated()
	if grown := increase("fallbacks", away, func() { commands = w.compute() }); grown != 1 || len(commands) != 0 {
		t.Errorf("without a planner: counted %v, commands %v", grown, commands)
	}
}

func TestOfTwoControllersOfOneNameTheOneWithTheNewestPodIsThere(t *testing.T) {
	w := newWorld(t)
	began := time.Now().Truncate(time.Second)
	for at, uid := range []types.UID{"first", "third", "second"} {
		w.addPod("of-"+string(uid), "", 100, func(pod *corev1.Pod) {
			pod.OwnerReferences[0].UID = uid
			pod.CreationTimestamp = metav1.NewTime(began.Add(time.Duration([]int{0, 2, 1}[at]) * time.Minute))
		})
	}
	pods := &corev1.PodList{}
	lo.Must0(w.client.List(w.ctx, pods))
	owners := controllersOf(pointers(pods.Items))
	if len(owners) != 1 || owners[0].GetUID() != "third" || owners[0].Object["spec"].(map[string]any)["replicas"] != int64(1) {
		t.Errorf("got %v", owners)
	}
}
