package karpenter

import (
	"testing"
	"time"

	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"trimtab.dev/clients/go/trimtab"
)

// withValues makes the NodePool ask for so many values of a label.
func withValues(key string, count int) func(*v1.NodePool) {
	return func(pool *v1.NodePool) {
		pool.Spec.Template.Spec.Requirements = append(pool.Spec.Template.Spec.Requirements, v1.NodeSelectorRequirementWithMinValues{
			Key: key, Operator: corev1.NodeSelectorOpExists, MinValues: lo.ToPtr(count),
		})
	}
}

// observed returns the groups that a planner is told of, by instance type.
func observed(w *world) map[string]*Group {
	w.compute()
	return lo.KeyBy(w.planner.asked[0].Groups, func(group *Group) string {
		return group.Template.Labels[corev1.LabelInstanceTypeStable]
	})
}

func TestNewNodesArePlannedToHoldWhatEnoughTypesCanHold(t *testing.T) {
	w := threeLargeNodes(t, withValues(corev1.LabelInstanceTypeStable, 2))
	groups := observed(w)
	for kind, as := range map[string]string{"large": "medium", "medium": "medium", "small": "small"} {
		room, whole := groups[kind].Room.Cpu(), groups[as].Template.Status.Allocatable.Cpu()
		if room.Cmp(*whole) != 0 {
			t.Errorf("a %s node is planned to hold %v cores, not %v", kind, room, whole)
		}
	}
	told := 0
	for _, object := range objectsOf(w.planner.asked[0]).Objects {
		if group, is := object.(*trimtab.NodeGroup); is {
			told++
			if cpu := group.Spec.Template.Status.Allocatable.Cpu(); cpu.Cmp(*groups["medium"].Room.Cpu()) > 0 {
				t.Errorf("the planner is told that a node of %s holds %v", group.Name, cpu)
			}
		}
	}
	if told != len(w.planner.asked[0].Groups) {
		t.Errorf("the planner is told of %d groups", told)
	}
}

func TestWithoutMinValuesNewNodesAreWhole(t *testing.T) {
	for kind, group := range observed(threeLargeNodes(t)) {
		if group.Room.Cpu().Cmp(*group.Template.Status.Allocatable.Cpu()) != 0 {
			t.Errorf("a %s node is planned to hold %v", kind, group.Room)
		}
	}
}

// twoZones adds a second zone, dearer by a tenth, to types that are sold on demand and on spot.
func twoZones(w *world) {
	for _, one := range w.cloud.InstanceTypes {
		offerings := cloudprovider.Offerings{}
		for _, here := range one.Offerings {
			there := offeringOf(here.CapacityType(), here.Price*1.1)
			there.Requirements = scheduling.NewLabelRequirements(map[string]string{
				v1.CapacityTypeLabelKey: here.CapacityType(), corev1.LabelTopologyZone: otherZone,
			})
			offerings = append(offerings, here, &there)
		}
		one.Offerings = offerings
		one.Requirements.Get(corev1.LabelTopologyZone).Insert(otherZone)
	}
}

const otherZone = "test-zone-2"

// inZones lets the NodePool launch in both zones and ask for so many of them.
func inZones(count int) func(*v1.NodePool) {
	return func(pool *v1.NodePool) {
		pool.Spec.Template.Spec.Requirements = append(pool.Spec.Template.Spec.Requirements, v1.NodeSelectorRequirementWithMinValues{
			Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone, otherZone}, MinValues: lo.ToPtr(count),
		})
	}
}

func TestANewNodeMayComeInAsManyZonesAsMinValuesAsk(t *testing.T) {
	w := oneHugeNode(t, inZones(2))
	twoZones(w)
	commands := w.compute()
	if len(commands) != 1 || len(commands[0].Replacements) != 2 {
		t.Fatalf("got %v", commands)
	}
	for _, one := range commands[0].Replacements {
		if zones := one.Requirements.Get(corev1.LabelTopologyZone); !zones.Has(zone) || !zones.Has(otherZone) {
			t.Errorf("it may come in %v", zones)
		}
		if _, _, err := one.InstanceTypeOptions.SatisfiesMinValues(one.Requirements); err != nil {
			t.Error(err)
		}
		for _, kind := range one.InstanceTypeOptions {
			if price := launchPrice(one.NodeClaim, kind); price < kind.Offerings[0].Price*1.09 {
				t.Errorf("%s counts with %v, which is not the dearer zone's price", kind.Name, price)
			}
		}
	}
}

func TestAPodThatNeedsOneZoneGetsNoNewNodeThatMustBePossibleInTwo(t *testing.T) {
	changes := map[string]func(*corev1.Pod){
		"selector": func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone} },
		"spread": func(pod *corev1.Pod) {
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "spread"}},
			}}
		},
	}
	for name, change := range changes {
		w := oneHugeNode(t, inZones(2))
		twoZones(w)
		w.addPod("bound", "a", 100, change)
		var commands int
		if grown := increase("disagreements", minimumValues, func() { commands = len(w.compute()) }); grown != 1 || commands != 0 {
			t.Errorf("%s: counted %v, %d commands", name, grown, commands)
		}
	}
}

func TestAPoolWithTooFewZonesGetsNoNewNodesByAPlan(t *testing.T) {
	w := threeLargeNodes(t, inZones(2)) // all offerings are in the first
	w.compute()
	for _, group := range w.planner.asked[0].Groups {
		if group.Template != nil {
			t.Errorf("%s may get new nodes", group.ID)
		}
	}
}

func TestANewNodeMayBeOfBothCapacityTypesForThePriceOnDemand(t *testing.T) {
	both := func(pool *v1.NodePool) {
		pool.Spec.Template.Spec.Requirements[0].Values = []string{v1.CapacityTypeOnDemand, v1.CapacityTypeSpot}
		pool.Spec.Template.Spec.Requirements[0].MinValues = lo.ToPtr(2)
	}
	w := oneHugeNode(t, both)
	commands := w.compute()
	if len(commands) != 1 || len(commands[0].Replacements) != 2 {
		t.Fatalf("got %v", commands)
	}
	for _, one := range commands[0].Replacements {
		if kinds := one.Requirements.Get(v1.CapacityTypeLabelKey); !kinds.Has(v1.CapacityTypeSpot) || !kinds.Has(v1.CapacityTypeOnDemand) {
			t.Errorf("it may be %v", kinds)
		}
		for _, kind := range one.InstanceTypeOptions {
			if price := launchPrice(one.NodeClaim, kind); price < kind.Offerings[0].Price {
				t.Errorf("%s counts with %v", kind.Name, price)
			}
		}
	}
}

// oneHugeNode is a cluster in which two pods of 3.5 and 1.5 cores are on a node that costs 2.32.
func oneHugeNode(t *testing.T, change ...func(*v1.NodePool)) *world {
	w := newWorld(t, change...)
	w.cloud.InstanceTypes = append(w.cloud.InstanceTypes, instanceType("huge", 32, 2.32, false))
	w.addNode("a", "huge", v1.CapacityTypeOnDemand, 3500, 1500)
	w.planner.plan = &Plan{Leaving: []string{"a"}, Coming: []string{"pool/small/" + zone + "/on-demand", "pool/medium/" + zone + "/on-demand"}}
	return w
}

func TestEachNewNodeKeepsAsManyTypesAsMinValuesAskWhereTheSavingAllowsIt(t *testing.T) {
	// Small or medium, and medium or large: 2.0 at most. In proportion to the cheapest types alone, large would be too dear.
	w := oneHugeNode(t, withValues(corev1.LabelInstanceTypeStable, 2))
	commands := w.compute()
	if len(commands) != 1 || len(commands[0].Replacements) != 2 {
		t.Fatalf("got %v", commands)
	}
	most := 0.0
	for _, one := range commands[0].Replacements {
		if _, _, err := one.InstanceTypeOptions.SatisfiesMinValues(one.Requirements); err != nil || len(one.InstanceTypeOptions) < 2 {
			t.Errorf("%v of %v", err, one.InstanceTypeOptions)
		}
		most += lo.Max(lo.Map(one.InstanceTypeOptions, func(kind *cloudprovider.InstanceType, _ int) float64 { return launchPrice(one.NodeClaim, kind) }))
	}
	if most >= 2.32*0.95 {
		t.Errorf("the new nodes may cost %v", most)
	}
}

func TestWhereMinValuesCostMoreThanIsSavedThereIsNoCommand(t *testing.T) {
	w := oneHugeNode(t, withValues(corev1.LabelInstanceTypeStable, 3))
	var commands int
	if grown := increase("disagreements", minimumValues, func() { commands = len(w.compute()) }); grown != 1 || commands != 0 {
		t.Errorf("counted %v, %d commands", grown, commands)
	}
}

func TestARealPlannersNewNodesSatisfyMinValues(t *testing.T) {
	w := newWorld(t, withValues(corev1.LabelInstanceTypeStable, 2))
	w.cloud.InstanceTypes = append(w.cloud.InstanceTypes, instanceType("twelve", 12, 1.8, false), instanceType("other", 4, 0.41, false))
	for _, name := range []string{"a", "b", "c"} {
		w.addNode(name, "twelve", v1.CapacityTypeOnDemand, 3800, 3800)
	}
	asked(t, w)
	commands := w.compute()
	if len(commands) != 1 || len(commands[0].Replacements) < 2 {
		t.Fatalf("got %v", commands)
	}
	for _, one := range commands[0].Replacements {
		if _, _, err := one.InstanceTypeOptions.SatisfiesMinValues(one.Requirements); err != nil {
			t.Error(err)
		}
	}
}

func TestACommandSavesEnoughForEachPodThatItMoves(t *testing.T) {
	for saving, most := range map[float64]int{0.7: 1, 0.9: 0} { // 1.72 are saved for two pods
		w := oneHugeNode(t)
		w.method.settings.LeastSavingPerPod = saving
		if commands := w.compute(); len(commands) != most {
			t.Errorf("with at least %v a pod there are %d commands", saving, len(commands))
		}
	}
	w := threeLargeNodes(t)
	w.method.settings.LeastSavingPerPod = 1 // two pods of each go to other nodes, and a node saves 1.6
	var commands int
	if grown := increase("disagreements", notCheaper, func() { commands = len(w.plans("a")) }); grown != 1 || commands != 0 {
		t.Errorf("counted %v, %d commands", grown, commands)
	}
}

func TestARealPlannerPlansNothingThatSavesTooLittleForItsPods(t *testing.T) {
	w := oneHugeNode(t)
	asked(t, w)
	planner := w.method.planner.(*remote)
	planner.settings.LeastSavingPerPod = 0.9
	if commands := w.compute(); len(commands) != 0 || len(w.method.memory.refused) > 0 {
		t.Errorf("got %v, refused %v", commands, w.method.memory.refused)
	}
	planner.settings.LeastSavingPerPod = 0.7
	w.method.settled = time.Time{}
	if commands := w.compute(); len(commands) != 1 {
		t.Errorf("got %v", commands)
	}
}
