package trimtab_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"trimtab.dev/clients/go/trimtab"
	pb "trimtab.dev/clients/go/trimtabv1"
)

const instanceTypeLabel = "node.kubernetes.io/instance-type"

func nodePool(name string, requirements ...trimtab.NodePoolRequirement) *trimtab.NodePool {
	return &trimtab.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: &trimtab.NodePoolSpec{Template: &trimtab.NodePoolTemplate{
			Spec: &trimtab.NodePoolTemplateSpec{Requirements: requirements},
		}},
	}
}

func offering(kind, cpu string, price float64) trimtab.MachineOffer {
	amounts := quantities(cpu, "8Gi")
	return trimtab.MachineOffer{
		OfferKey: trimtab.OfferKey{InstanceType: kind, Zone: "z", CapacityType: "on-demand"},
		Capacity: amounts, Allocatable: amounts, Price: &price,
	}
}

func buildPools(t *testing.T, offers []trimtab.MachineOffer, pools ...*trimtab.NodePool) *trimtab.Snapshot {
	t.Helper()
	built, err := trimtab.Build(trimtab.Objects{NodePools: pools, Offers: offers})
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func idsOf(snapshot *trimtab.Snapshot) []string {
	found := []string{}
	for _, group := range snapshot.Message.NodeGroups {
		found = append(found, group.Id)
	}
	return found
}

func TestAPoolIsAGroupForEachOfferingThatItAllows(t *testing.T) {
	small := trimtab.NodePoolRequirement{Key: instanceTypeLabel, Operator: "In", Values: []string{"small"}}
	built := buildPools(t, []trimtab.MachineOffer{offering("small", "2", 0.1), offering("large", "8", 0.4)}, nodePool("any"), nodePool("few", small))
	want := []string{"any/large/z/on-demand", "any/small/z/on-demand", "few/small/z/on-demand"}
	if found := idsOf(built); !slices.Equal(found, want) {
		t.Errorf("the groups are %v", found)
	}
}

func TestWithMinValuesANewNodeIsPlannedToHoldWhatEnoughTypesCanHold(t *testing.T) {
	several := trimtab.NodePoolRequirement{Key: instanceTypeLabel, Operator: "Exists", MinValues: 2}
	built := buildPools(t, []trimtab.MachineOffer{offering("large", "8", 0.4), offering("medium", "4", 0.2), offering("small", "2", 0.1)}, nodePool("pool", several))
	cpu := slices.Index(built.Message.Resources, "cpu")
	found := []int64{}
	for _, group := range built.Message.NodeGroups {
		found = append(found, group.Template.Allocatable[cpu])
	}
	if !slices.Equal(found, []int64{4000, 4000, 2000}) {
		t.Errorf("of large, medium and small nodes, with two types for each, cpu is planned up to %v", found)
	}
}

func TestAPoolWithTooFewValuesGetsNoNewNodesAndSaysSo(t *testing.T) {
	several := trimtab.NodePoolRequirement{Key: instanceTypeLabel, Operator: "Exists", MinValues: 2}
	built := buildPools(t, []trimtab.MachineOffer{offering("large", "8", 0.4)}, nodePool("pool", several))
	if len(idsOf(built)) != 0 || !slices.ContainsFunc(built.Notes, func(note string) bool { return strings.Contains(note, "it gets no new nodes") }) {
		t.Errorf("groups %v, notes %v", idsOf(built), built.Notes)
	}
}

func TestAPoolWithAFieldThatCannotBeUsedIsNamedAndGetsNoNewNodes(t *testing.T) {
	wrong := nodePool("wrong", trimtab.NodePoolRequirement{Key: "a", Operator: "Near"})
	built := buildPools(t, []trimtab.MachineOffer{offering("large", "8", 0.4)}, wrong, nodePool("right"))
	if found := idsOf(built); !slices.Equal(found, []string{"right/large/z/on-demand"}) {
		t.Errorf("the groups are %v", found)
	}
	want := "NodePool wrong: spec.template.spec.requirements[0].operator: \"Near\" is no operator"
	if !slices.ContainsFunc(built.Notes, func(note string) bool { return strings.HasPrefix(note, want) }) {
		t.Errorf("the notes are %v", built.Notes)
	}
}

func TestNodesOfADeclaredGroupAreInNoGroupOfTheirPool(t *testing.T) {
	labels := map[string]string{"karpenter.sh/nodepool": "pool", instanceTypeLabel: "large", "topology.kubernetes.io/zone": "z"}
	nodes := []*corev1.Node{node("a"), node("b")}
	for _, one := range nodes {
		one.Labels = labels
	}
	built, err := trimtab.Build(trimtab.Objects{
		Nodes: nodes, NodePools: []*trimtab.NodePool{nodePool("pool")},
		NodeGroups: []*trimtab.NodeGroup{{
			ObjectMeta: metav1.ObjectMeta{Name: "declared"},
			Spec:       trimtab.NodeGroupSpec{MaxSize: ptr.To(int32(3)), Nodes: []string{"a"}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := built.Message.Nodes[0].NodeGroup, built.Message.Nodes[1].NodeGroup; a != "declared" || b != "pool/large/z/on-demand" {
		t.Errorf("the nodes are in %s and %s", a, b)
	}
}

func TestSettingsOfTheCallerWinOverThoseOfPoolsAndLimitsHoldTogether(t *testing.T) {
	pool := nodePool("pool")
	pool.Spec.Limits = quantities("16", "64Gi")
	pool.Spec.Disruption = &trimtab.NodePoolDisruption{ConsolidateAfter: ptr.To("30s")}
	asked := buildPools(t, []trimtab.MachineOffer{offering("large", "8", 0.4)}, pool).Settings
	own := &pb.PlanSettings{
		Planner: &pb.PlannerSettings{Limits: []*pb.ResourceLimit{{Resource: "cpu", Maximum: ptr.To(int64(64_000))}}},
		NodeGroups: map[string]*pb.NodeGroupSettings{
			"pool/large/z/on-demand": {UnneededTime: durationpb.New(time.Minute)}, "other": {UtilizationThreshold: ptr.To(0.7)},
		},
	}
	before := proto.Clone(own)
	merged := trimtab.WithPoolSettings(own, asked)
	of := merged.NodeGroups["pool/large/z/on-demand"]
	if of.UnneededTime.AsDuration() != time.Minute || of.ConsolidateAfter.AsDuration() != 30*time.Second {
		t.Errorf("the settings of the pool's group are %v", of)
	}
	if len(merged.Planner.Limits) != 3 || merged.NodeGroups["other"].GetUtilizationThreshold() != 0.7 {
		t.Errorf("merged are %v", merged)
	}
	if !proto.Equal(own, before) {
		t.Error("the caller's settings have changed")
	}
	if general := trimtab.WithPoolSettings(&pb.PlanSettings{Replacement: &pb.ReplacementSettings{ConsolidateAfter: durationpb.New(0)}}, asked); general.NodeGroups["pool/large/z/on-demand"].ConsolidateAfter != nil {
		t.Error("consolidate_after of the caller is for all groups")
	}
	if alone := trimtab.WithPoolSettings(nil, asked); !proto.Equal(alone, asked) {
		t.Errorf("without settings of the caller: %v", alone)
	}
}

func TestWithoutPoolsNothingIsAskedOfPlans(t *testing.T) {
	if built := buildPools(t, nil); built.Settings != nil {
		t.Errorf("settings %v", built.Settings)
	}
}
