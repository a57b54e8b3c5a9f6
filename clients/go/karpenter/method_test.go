package karpenter

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/samber/lo"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/test"
)

func threeLargeNodes(t *testing.T, change ...func(*v1.NodePool)) *world {
	w := newWorld(t, change...)
	for _, name := range []string{"a", "b", "c"} {
		w.addNode(name, "large", v1.CapacityTypeOnDemand, 500, 500)
	}
	return w
}

func TestAPlanBecomesOneCommandWithACheaperReplacement(t *testing.T) {
	w := threeLargeNodes(t)
	commands := w.plans("a", "b", "c")
	if len(commands) != 1 || len(commands[0].Replacements) != 1 {
		t.Fatalf("got %v", commands)
	}
	if got := names(commands[0].Candidates); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("leaving %v", got)
	}
	kinds := lo.Map(commands[0].Replacements[0].InstanceTypeOptions, func(one *cloudprovider.InstanceType, _ int) string { return one.Name })
	if !slices.Equal(kinds, []string{"medium"}) {
		t.Errorf("3 cores fit on a medium node, and a large one leaves, but the options are %v", kinds)
	}
	if saving := commands[0].EstimatedSavings(); math.Abs(saving-4.4) > 1e-9 {
		t.Errorf("saves %v", saving)
	}
}

func TestTheQueueTakesTheCommandAndOrdersItsReplacements(t *testing.T) {
	w := threeLargeNodes(t)
	command := w.plans("a", "b", "c")[0]
	command.Method = w.method
	if err := w.parts.Queue.StartCommand(w.ctx, &command); err != nil {
		t.Fatal(err)
	}
	claims := &v1.NodeClaimList{}
	lo.Must0(w.client.List(w.ctx, claims))
	if len(claims.Items) != 4 {
		t.Errorf("there are %d NodeClaims", len(claims.Items))
	}
	if !w.method.IsBusy() {
		t.Error("a command in progress does not count as one")
	}
}

func TestSeveralNodesAreReplacedBySeveral(t *testing.T) {
	w := newWorld(t)
	w.cloud.InstanceTypes = append(w.cloud.InstanceTypes, instanceType("huge", 32, 4.0, false))
	for _, name := range []string{"a", "b", "c", "d"} {
		w.addNode(name, "huge", v1.CapacityTypeOnDemand, 3500, 3500)
	}
	w.cloud.InstanceTypes = w.cloud.InstanceTypes[:3] // the huge type is not sold any more
	w.cloud.InstanceTypes = append(w.cloud.InstanceTypes, instanceType("huge", 32, 4.0, false))
	w.cloud.InstanceTypes[3].Offerings[0].Available = false
	commands := w.plans("a", "b", "c", "d")
	if len(commands) != 1 || len(commands[0].Replacements) != 2 {
		t.Fatalf("28 cores need two nodes of 16, got %v", commands)
	}
}

func TestNewNodesAreThoseOfThePlanAndNotTheLargestThatTheSchedulerFills(t *testing.T) {
	w := newWorld(t)
	w.cloud.InstanceTypes = append(w.cloud.InstanceTypes, instanceType("twelve", 12, 1.2, false))
	for _, name := range []string{"a", "b", "c"} {
		w.addNode(name, "twelve", v1.CapacityTypeOnDemand, 1900, 1900)
	}
	commands := w.plans("a", "b", "c")
	if kinds := optionsOf(commands); !slices.Equal(kinds, []string{"twelve"}) {
		// 11.4 cores: Karpenter fills one node, which is of the type that leaves.
		t.Logf("Karpenter alone: %v", kinds)
	}
	w.method.started = nil
	w.planner.plan = &Plan{Leaving: []string{"a", "b", "c"}, Coming: slices.Repeat([]string{"pool/medium/" + zone + "/on-demand"}, 3)}
	w.method.memory = newMemory(100)
	commands = w.compute()
	if kinds := optionsOf(commands); !slices.Equal(kinds, []string{"medium", "medium", "medium"}) && len(commands) != 1 {
		t.Fatalf("got %v of %v", kinds, commands)
	}
	if len(commands[0].Replacements) != 3 {
		t.Errorf("%d replacements", len(commands[0].Replacements))
	}
	for _, replacement := range commands[0].Replacements {
		if got := replacement.Requirements.Get(corev1.LabelTopologyZone).Values(); !slices.Equal(got, []string{zone}) || len(replacement.Pods) != 2 {
			t.Errorf("in %v with %d pods", got, len(replacement.Pods))
		}
	}
	for _, existing := range commands[0].Results.ExistingNodes {
		if existing.Labels()[v1.NodePoolLabelKey] == "" || existing.ProviderID() == "" || existing.ProviderID()[:4] != "fake" {
			t.Errorf("%s is not there", existing.Name())
		}
	}
}

func optionsOf(commands []disruption.Command) []string {
	found := []string{}
	for _, command := range commands {
		for _, replacement := range command.Replacements {
			found = append(found, lo.Map(replacement.InstanceTypeOptions, func(one *cloudprovider.InstanceType, _ int) string { return one.Name })...)
		}
	}
	return found
}

func TestNodesWhosePodsFitElsewhereGoWithoutReplacement(t *testing.T) {
	w := threeLargeNodes(t)
	commands := w.plans("a", "b")
	if len(commands) != 1 || commands[0].Decision() != disruption.DeleteDecision {
		t.Fatalf("got %v", commands)
	}
}

func TestWithoutAPlanKarpenterGoesOnAlone(t *testing.T) {
	cases := []struct {
		reason string
		err    error
		slow   bool
	}{
		{away, status.Error(codes.Unavailable, "connection refused"), false},
		{denied, status.Error(codes.Unavailable, "connection error: tls: failed to verify certificate: x509: unknown authority"), false},
		{denied, status.Error(codes.PermissionDenied, "no right"), false},
		{failed, status.Error(codes.Internal, "bug"), false},
		{failed, errors.New("other"), false},
		{slow, nil, true},
	}
	for _, one := range cases {
		t.Run(one.reason, func(t *testing.T) {
			w := threeLargeNodes(t)
			w.planner.err, w.planner.slow = one.err, one.slow
			var got []disruption.Command
			if grown := increase("fallbacks", one.reason, func() { got = w.compute() }); grown != 1 || len(got) != 0 {
				t.Errorf("counted %v, commands %v", grown, got)
			}
		})
	}
}

func TestAPlannerThatFailsIsAskedLessAndLessOften(t *testing.T) {
	w := threeLargeNodes(t)
	w.planner.err = status.Error(codes.Unavailable, "away")
	for range 60 {
		w.compute()
		w.clock.Step(10 * time.Second)
	}
	if asked := len(w.planner.asked); asked < 5 || asked > 12 {
		t.Errorf("asked %d times in ten minutes", asked)
	}
	w.planner.err = nil
	w.clock.Step(5 * time.Minute)
	if len(w.plans("a", "b", "c")) != 1 {
		t.Error("a planner that is back gives no command")
	}
}

func TestWhatKarpenterRefusesIsCountedAndNotTriedAgainForAWhile(t *testing.T) {
	onlyThere := func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "a"} }
	cases := []struct {
		reason  string
		arrange func(*testing.T) *world
		leaving []string
	}{
		{podsUnplaced, func(t *testing.T) *world {
			w := threeLargeNodes(t)
			w.addPod("stays", "a", 100, onlyThere)
			return w
		}, []string{"a", "b", "c"}},
		{notCheaper, func(t *testing.T) *world {
			w := newWorld(t)
			w.addNode("a", "small", v1.CapacityTypeOnDemand, 1500)
			w.addNode("b", "small", v1.CapacityTypeOnDemand, 1500)
			return w
		}, []string{"a", "b"}},
		{notACandidate, func(t *testing.T) *world { return threeLargeNodes(t) }, []string{"a", "unknown"}},
		{overBudget, func(t *testing.T) *world {
			return threeLargeNodes(t, func(pool *v1.NodePool) { pool.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "2"}} })
		}, []string{"a", "b", "c"}},
		{minimumValues, func(t *testing.T) *world {
			return threeLargeNodes(t, func(pool *v1.NodePool) {
				pool.Spec.Template.Spec.Requirements = append(pool.Spec.Template.Spec.Requirements, v1.NodeSelectorRequirementWithMinValues{
					Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"large", "medium"}, MinValues: lo.ToPtr(2),
				})
			})
		}, []string{"a", "b", "c"}},
		{spotRule, func(t *testing.T) *world {
			w := newWorld(t, func(pool *v1.NodePool) {
				pool.Spec.Template.Spec.Requirements[0].Values = []string{v1.CapacityTypeSpot}
			})
			w.addNode("a", "large", v1.CapacityTypeSpot, 500)
			w.addNode("b", "large", v1.CapacityTypeSpot, 500)
			return w
		}, []string{"a", "b"}},
	}
	for _, one := range cases {
		t.Run(one.reason, func(t *testing.T) {
			w := one.arrange(t)
			var got []disruption.Command
			if grown := increase("disagreements", one.reason, func() { got = w.plans(one.leaving...) }); grown != 1 || len(got) != 0 {
				t.Fatalf("counted %v, commands %v", grown, got)
			}
			if grown := increase("fallbacks", disagreed, func() { got = w.plans(one.leaving...) }); grown != 1 || len(got) != 0 {
				t.Errorf("counted %v, commands %v", grown, got)
			}
			if last := w.planner.asked[1]; last.MostLeaving >= len(one.leaving) {
				t.Errorf("%d nodes may leave after %d were refused", last.MostLeaving, len(one.leaving))
			}
		})
	}
}

func TestTheSameNodesAreTriedAgainAfterTheRefusalTime(t *testing.T) {
	w := threeLargeNodes(t)
	w.method.memory.refuse([]string{"c", "b", "a"}, nil, w.clock.Now().Add(15*time.Minute))
	if grown := increase("disagreements", refusedEarlier, func() { w.plans("a", "b", "c") }); grown != 1 {
		t.Errorf("counted %v", grown)
	}
	w.clock.Step(16 * time.Minute)
	if len(w.plans("a", "b", "c")) != 1 {
		t.Error("they are not tried again")
	}
}

func TestNodesOfPodsWithoutPlaceStayInLaterPlans(t *testing.T) {
	w := threeLargeNodes(t)
	w.addPod("stays", "a", 100, func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "a"} })
	w.plans("a", "b", "c")
	w.compute()
	for _, node := range w.planner.asked[1].Nodes {
		if keeps := node.Annotations[v1.DoNotDisruptAnnotationKey] == "true"; keeps != (node.Name == "a") {
			t.Errorf("%s: kept %v", node.Name, keeps)
		}
	}
}

func TestSpotNodesAreReplacedBySpotNodesBehindTheFeatureGate(t *testing.T) {
	w := newWorld(t, func(pool *v1.NodePool) {
		pool.Spec.Template.Spec.Requirements[0].Values = []string{v1.CapacityTypeSpot}
	})
	w.ctx = options.ToContext(w.ctx, test.Options(test.OptionsFields{FeatureGates: test.FeatureGates{SpotToSpotConsolidation: lo.ToPtr(true)}}))
	w.addNode("a", "large", v1.CapacityTypeSpot, 500)
	w.addNode("b", "large", v1.CapacityTypeSpot, 500)
	if len(w.plans("a", "b")) != 1 {
		t.Error("two by one is refused")
	}
	if !w.planner.asked[0].SpotToSpot {
		t.Error("the planner was not told")
	}
	w.method.started = nil
	if grown := increase("disagreements", spotRule, func() { w.addNode("c", "large", v1.CapacityTypeSpot, 15000); w.plans("c") }); grown != 0 {
		t.Error("a full node has no cheaper type, which is no matter of spot")
	}
}

func TestOnDemandNodesAreReplacedBySpotNodesOnlyIfTheLaunchMustBeSpot(t *testing.T) {
	w := threeLargeNodes(t, func(pool *v1.NodePool) {
		pool.Spec.Template.Spec.Requirements[0].Values = []string{v1.CapacityTypeOnDemand, v1.CapacityTypeSpot}
	})
	command := w.plans("a", "b", "c")[0]
	if got := command.Replacements[0].Requirements.Get(v1.CapacityTypeLabelKey).Values(); !slices.Equal(got, []string{v1.CapacityTypeSpot}) {
		t.Errorf("it may be %v", got)
	}
}

func waits(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
}

func TestPodsThatWaitGetNoNodeOfThePlan(t *testing.T) {
	w := threeLargeNodes(t)
	w.addPod("waits", "", 15900, waits)
	command := w.plans("a", "b", "c")[0]
	if len(command.Replacements) != 1 || lo.SomeBy(command.Replacements[0].Pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" }) {
		t.Errorf("replacements %v", command.Replacements)
	}
}

func TestAPlanThatIsTooDearOnlyBecauseOtherPodsWaitIsNoDisagreement(t *testing.T) {
	w := threeLargeNodes(t)
	w.addPod("waits", "", 15000, waits)
	var got []disruption.Command
	if grown := increase("fallbacks", changed, func() { got = w.plans("a", "b", "c") }); grown != 1 || len(got) != 0 {
		t.Errorf("counted %v, commands %v", grown, got)
	}
	if w.method.memory.hasRefused([]string{"a", "b", "c"}) {
		t.Error("it is not tried again")
	}
}

func TestWhileACommandIsInProgressOtherConsolidationWaits(t *testing.T) {
	w := threeLargeNodes(t)
	command := w.plans("a", "b")[0]
	command.Method = w.method
	lo.Must0(w.parts.Queue.StartCommand(w.ctx, &command))
	own := &counting{}
	held := &waiting{Method: own, first: w.method}
	lo.Must(held.ComputeCommands(w.ctx, nil))
	asked := len(w.planner.asked)
	if got := w.compute(); len(got) != 0 || len(w.planner.asked) != asked || own.asked != 0 {
		t.Errorf("commands %v, planner asked %d times, Karpenter %d", got, len(w.planner.asked)-asked, own.asked)
	}
	w.clock.Step(6 * time.Minute)
	lo.Must(held.ComputeCommands(w.ctx, nil))
	if own.asked != 1 {
		t.Error("Karpenter waits for ever")
	}
}

func TestACommandWhoseNodesAreGoneIsCompletedAndOneGivenUpHasFailed(t *testing.T) {
	for _, gone := range []bool{true, false} {
		w := threeLargeNodes(t)
		command := w.plans("a", "b")[0]
		command.Method = w.method
		lo.Must0(w.parts.Queue.StartCommand(w.ctx, &command))
		command.Succeeded = gone
		if gone {
			for _, name := range []string{"a", "b"} {
				w.parts.Cluster.DeleteNodeClaim("claim-" + name)
				w.parts.Cluster.DeleteNode(name)
			}
		}
		w.parts.Queue.CompleteCommand(&command)
		state := map[bool]string{true: "completed", false: "failed"}[gone]
		busy := true
		if grown := increase("commands", state, func() { busy = w.method.IsBusy() }); grown != 1 || busy {
			t.Errorf("%s: counted %v, busy %v", state, grown, busy)
		}
		if w.method.memory.hasRefused([]string{"a", "b"}) == gone {
			t.Errorf("%s: tried again: %v", state, gone)
		}
	}
}

func TestAPlanIsAbandonedIfANodeIsToGetAPodMeanwhile(t *testing.T) {
	w := threeLargeNodes(t)
	w.parts.Cluster.NominateNodeForPod(w.ctx, "fake://b")
	w.planner.plan = &Plan{Leaving: []string{"a", "b", "c"}}
	candidates := w.candidates()
	if len(candidates) == 3 {
		t.Skip("nominated nodes are candidates in this version")
	}
	chosen := []*disruption.Candidate{candidates[0], candidates[1], candidates[1]}
	_, err := w.method.stillThere(w.ctx, chosen)
	var moved *changedError
	if !errors.As(err, &moved) {
		t.Errorf("got %v", err)
	}
}

func TestAnUnchangedClusterIsNotPlannedAgainIfThereWasNothingToDo(t *testing.T) {
	w := threeLargeNodes(t)
	w.compute()
	w.compute()
	if len(w.planner.asked) != 1 {
		t.Errorf("asked %d times", len(w.planner.asked))
	}
	w.parts.Cluster.MarkUnconsolidated()
	w.clock.Step(time.Second)
	w.parts.Cluster.MarkUnconsolidated()
	w.compute()
	if len(w.planner.asked) != 2 {
		t.Error("a change is not looked at")
	}
}

func TestThePolicyBalancedHasItsSay(t *testing.T) {
	w := newWorld(t, func(pool *v1.NodePool) { pool.Spec.Disruption.ConsolidationPolicy = v1.ConsolidationPolicyBalanced })
	many := slices.Repeat([]int64{300}, 40)
	w.addNode("a", "large", v1.CapacityTypeOnDemand, many...)
	w.addNode("b", "large", v1.CapacityTypeOnDemand, slices.Repeat([]int64{500}, 28)...)
	w.cloud.InstanceTypes = append(w.cloud.InstanceTypes, instanceType("almost", 15, 1.5, false))
	if grown := increase("disagreements", balancedScore, func() { w.plans("a") }); grown != 1 {
		t.Errorf("counted %v", grown)
	}
}

func TestOurMethodComesBeforeKarpentersConsolidationAndAfterTheRest(t *testing.T) {
	w := threeLargeNodes(t)
	kinds := lo.Map(Methods(w.ctx, w.parts, w.method), func(one disruption.Method, _ int) string {
		switch typed := one.(type) {
		case *Method:
			return "trimtab"
		case *waiting:
			return "waiting " + typed.ConsolidationType()
		case *disruption.Emptiness:
			return "emptiness"
		}
		return string(one.Reason())
	})
	want := []string{"emptiness", "Drifted", "Drifted", "trimtab", "waiting multi", "waiting single"}
	if !slices.Equal(kinds, want) {
		t.Errorf("got %v", kinds)
	}
}

type counting struct {
	disruption.Method
	asked int
}

func (c *counting) ComputeCommands(context.Context, map[string]int, ...*disruption.Candidate) ([]disruption.Command, error) {
	c.asked++
	return nil, nil
}

func TestReservedNodesThatCostNothingMayComeInPlaceOfOthers(t *testing.T) {
	w := newWorld(t, func(pool *v1.NodePool) {
		pool.Spec.Template.Spec.Requirements[0].Values = []string{v1.CapacityTypeOnDemand, v1.CapacityTypeReserved}
	})
	free := instanceType("free", 8, 0, false)
	free.Offerings[0].Price = 0
	w.cloud.InstanceTypes = append(w.cloud.InstanceTypes, free)
	for _, name := range []string{"a", "b", "c"} {
		w.addNode(name, "large", v1.CapacityTypeOnDemand, 2000)
	}
	if kinds := optionsOf(w.plans("a", "b", "c")); !slices.Equal(kinds, []string{"free"}) {
		t.Errorf("got %v", kinds)
	}
}

// failedCommand returns a world in which a command with three new nodes was given up because one of them was deleted,
// and another one.
func failedCommand(t *testing.T) (*world, *v1.NodeClaim) {
	t.Helper()
	w := newWorld(t)
	w.cloud.InstanceTypes = append(w.cloud.InstanceTypes, instanceType("twelve", 12, 1.2, false))
	for _, name := range []string{"a", "b", "c"} {
		w.addNode(name, "twelve", v1.CapacityTypeOnDemand, 1900, 1900)
	}
	w.planner.plan = &Plan{Leaving: []string{"a", "b", "c"}, Coming: slices.Repeat([]string{"pool/medium/" + zone + "/on-demand"}, 3)}
	command := w.compute()[0]
	command.Method = w.method
	lo.Must0(w.parts.Queue.StartCommand(w.ctx, &command))
	if len(command.Replacements) != 3 {
		t.Fatalf("%d new nodes", len(command.Replacements))
	}
	claims := [3]*v1.NodeClaim{{}, {}, {}}
	for at, one := range command.Replacements {
		lo.Must0(w.client.Get(w.ctx, client.ObjectKey{Name: one.Name}, claims[at]))
	}
	lo.Must0(w.client.Delete(w.ctx, claims[0]))
	w.parts.Queue.CompleteCommand(&command)
	w.planner.plan = nil
	return w, claims[1]
}

func TestNewNodesOfACommandThatFailedAreRemovedAgain(t *testing.T) {
	w, claim := failedCommand(t)
	before := testutil.ToFloat64(rolledBackTotal)
	w.compute()
	if err := w.client.Get(w.ctx, client.ObjectKeyFromObject(claim), claim); !apierrors.IsNotFound(err) {
		t.Errorf("the other new node is still there: %v", err)
	}
	if grown := testutil.ToFloat64(rolledBackTotal) - before; grown != 2 {
		t.Errorf("counted %v", grown)
	}
	for _, name := range []string{"a", "b", "c"} {
		lo.Must0(w.client.Get(w.ctx, client.ObjectKey{Name: "claim-" + name}, &v1.NodeClaim{}))
	}
}

func TestANewNodeThatHasPodsByNowStaysThoughItsCommandFailed(t *testing.T) {
	w, claim := failedCommand(t)
	w.addNode("new", "medium", v1.CapacityTypeOnDemand, 100)
	used := &v1.NodeClaim{}
	lo.Must0(w.client.Get(w.ctx, client.ObjectKey{Name: "claim-new"}, used))
	used.Annotations = lo.Assign(used.Annotations, claim.Annotations)
	lo.Must0(w.client.Update(w.ctx, used))
	w.parts.Cluster.UpdateNodeClaim(used)
	w.compute()
	lo.Must0(w.client.Get(w.ctx, client.ObjectKeyFromObject(used), used))
	if err := w.client.Get(w.ctx, client.ObjectKeyFromObject(claim), claim); !apierrors.IsNotFound(err) {
		t.Errorf("the one without pods is still there: %v", err)
	}
}
