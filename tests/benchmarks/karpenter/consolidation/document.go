package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/test"
)

const (
	poolName   = "default"
	claimLabel = "trimtab.dev/claim"
)

// document is a cluster as clusters.py writes it.
type document struct {
	Types  []instanceType `json:"types"`
	Nodes  []node         `json:"nodes"`
	Pods   []pod          `json:"pods"`
	byName map[string]*cloudprovider.InstanceType
}

type instanceType struct {
	Name      string     `json:"name"`
	CPUMilli  int64      `json:"cpuMilli"`
	MemoryMiB int64      `json:"memoryMiB"`
	Pods      int64      `json:"pods"`
	Offerings []offering `json:"offerings"`
}

type offering struct {
	Zone         string  `json:"zone"`
	CapacityType string  `json:"capacityType"`
	Price        float64 `json:"price"`
}

type node struct {
	Name         string `json:"name"`
	Type         string `json:"type"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
}

type pod struct {
	Name      string `json:"name"`
	App       string `json:"app"`
	Node      string `json:"node"`
	CPUMilli  int64  `json:"cpuMilli"`
	MemoryMiB int64  `json:"memoryMiB"`
	// Spread is the key of the label over whose values the pods of the app spread, "" = they do not.
	Spread string `json:"spread"`
}

func read(path string) *document {
	given := &document{}
	lo.Must0(json.Unmarshal(lo.Must(os.ReadFile(path)), given))
	return given
}

func (d *document) instanceTypes() []*cloudprovider.InstanceType {
	found := lo.Map(d.Types, func(one instanceType, _ int) *cloudprovider.InstanceType {
		offerings := lo.Map(one.Offerings, func(each offering, _ int) cloudprovider.Offering {
			return cloudprovider.Offering{Available: true, Price: each.Price, Requirements: scheduling.NewLabelRequirements(map[string]string{
				v1.CapacityTypeLabelKey: each.CapacityType, corev1.LabelTopologyZone: each.Zone,
			})}
		})
		return fake.NewInstanceType(one.Name, fake.WithResources(amounts(one.CPUMilli, one.MemoryMiB, one.Pods)),
			fake.WithOfferings(offerings...), fake.WithOperatingSystems("linux"))
	})
	d.byName = lo.KeyBy(found, func(one *cloudprovider.InstanceType) string { return one.Name })
	return found
}

func (d *document) price(labels map[string]string) float64 {
	of := d.byName[labels[corev1.LabelInstanceTypeStable]]
	for _, one := range of.Offerings {
		if one.Requirements.Get(corev1.LabelTopologyZone).Any() == labels[corev1.LabelTopologyZone] && one.CapacityType() == labels[v1.CapacityTypeLabelKey] {
			return one.Price
		}
	}
	panic(fmt.Sprintf("no offering for %v", labels))
}

func amounts(cpuMilli, memoryMiB, pods int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(cpuMilli, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memoryMiB<<20, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(pods, resource.DecimalSI),
	}
}

func nodePool() *v1.NodePool {
	return test.NodePool(v1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: poolName},
		Spec: v1.NodePoolSpec{
			// Without it, Karpenter would only accept spot nodes in place of others, of which there are none.
			Template: v1.NodeClaimTemplate{Spec: v1.NodeClaimTemplateSpec{Requirements: []v1.NodeSelectorRequirementWithMinValues{{
				Key: v1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{v1.CapacityTypeOnDemand},
			}}}},
			Limits: v1.Limits(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100000000")}),
			Disruption: v1.Disruption{
				ConsolidateAfter:    v1.MustParseNillableDuration("0s"),
				ConsolidationPolicy: v1.ConsolidationPolicyWhenEmptyOrUnderutilized,
				Budgets:             []v1.Budget{{Nodes: "100%"}},
			},
		},
	})
}

func (n node) build(given *document) (*v1.NodeClaim, *corev1.Node) {
	of := given.byName[n.Type]
	labels := map[string]string{
		v1.NodePoolLabelKey: poolName, corev1.LabelInstanceTypeStable: n.Type, v1.CapacityTypeLabelKey: n.CapacityType,
		corev1.LabelTopologyZone: n.Zone, corev1.LabelHostname: n.Name, v1.NodeInitializedLabelKey: "true",
		v1.NodeRegisteredLabelKey: "true", corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
		claimLabel: "claim-" + n.Name,
	}
	claim := test.NodeClaim(v1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim-" + n.Name, Labels: labels, CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))},
		Status:     v1.NodeClaimStatus{ProviderID: "trimtab://" + n.Name, NodeName: n.Name, Capacity: of.Capacity, Allocatable: of.Allocatable()},
	})
	for _, condition := range []string{v1.ConditionTypeLaunched, v1.ConditionTypeRegistered, v1.ConditionTypeInitialized, v1.ConditionTypeConsolidatable} {
		claim.StatusConditions().SetTrue(condition)
	}
	made := test.Node(test.NodeOptions{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels}, ProviderID: "trimtab://" + n.Name,
		Capacity: of.Capacity, Allocatable: of.Allocatable(),
	})
	made.Namespace, claim.Namespace = "", ""
	return claim, made
}

func (p pod) build() *corev1.Pod {
	requests := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(p.CPUMilli, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(p.MemoryMiB<<20, resource.BinarySI),
	}
	labels := map[string]string{"app": p.App}
	built := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: "default", UID: types.UID("uid-" + p.Name), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: p.App, UID: types.UID("uid-" + p.App), Controller: lo.ToPtr(true)}},
		},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Requests: requests}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	if p.Spread != "" {
		built.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: p.Spread, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
		}}
	}
	return built
}

func sorted[T any](from map[string]T) []string {
	names := lo.Keys(from)
	sort.Strings(names)
	return names
}
