package karpenter

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	nodeutils "sigs.k8s.io/karpenter/pkg/utils/node"

	"trimtab.dev/clients/go/trimtab"
	"trimtab.dev/clients/go/trimtabv1"
)

// objectsOf returns the cluster in the form for the planner.
func objectsOf(cluster *Cluster) *trimtab.Cluster {
	found := &trimtab.Cluster{Listed: []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")}}
	trimtab.Add(found, cluster.Nodes...)
	trimtab.Add(found, cluster.Pods...)
	trimtab.Add(found, cluster.Namespaces...)
	trimtab.Add(found, cluster.Budgets...)
	trimtab.Add(found, cluster.DaemonSets...)
	trimtab.Add(found, cluster.Claims...)
	trimtab.Add(found, cluster.Volumes...)
	trimtab.Add(found, cluster.Classes...)
	trimtab.Add(found, cluster.CSINodes...)
	trimtab.Add(found, controllersOf(cluster.Pods)...)
	for _, group := range cluster.Groups {
		trimtab.Add(found, nodeGroup(group))
	}
	return found
}

func nodeGroup(group *Group) *trimtab.NodeGroup {
	spec := trimtab.NodeGroupSpec{
		MaxSize: proto.Int32(int32(group.Most)), TargetSize: proto.Int32(int32(group.Size())), Nodes: group.Nodes,
	}
	if group.Template != nil {
		spec.Template = &trimtab.NodeTemplate{Node: *group.Template}
		if group.Upcoming == 0 { // what is ordered has all its room
			spec.Template.Status.Allocatable = group.Room
		}
	}
	if !math.IsNaN(group.Price) {
		spec.Price = proto.Float64(group.Price)
	}
	return trimtab.NewNodeGroup(group.ID, spec)
}

// controllersOf returns the controllers that pods name. Karpenter does not watch them, so each counts as having as many
// replicas as it has pods: it is there, and will create its pods again. Of two of one name, of which one has been
// created again, the one with the newest pod is there.
func controllersOf(pods []*corev1.Pod) []*unstructured.Unstructured {
	owners := map[types.UID]*owner{}
	for _, pod := range pods {
		reference := metav1.GetControllerOfNoCopy(pod)
		if reference == nil {
			continue
		}
		one := owners[reference.UID]
		if one == nil {
			one = &owner{namespace: pod.Namespace, reference: *reference}
			owners[reference.UID] = one
		}
		one.count++
		if one.newest.Before(&pod.CreationTimestamp) {
			one.newest = pod.CreationTimestamp
		}
	}
	there := map[string]*owner{}
	for _, uid := range slices.Sorted(maps.Keys(owners)) {
		one := owners[uid]
		if other := there[one.name()]; other == nil || other.newest.Before(&one.newest) {
			there[one.name()] = one
		}
	}
	found := []*unstructured.Unstructured{}
	for _, one := range there {
		if replicas := replicasOf[one.kind()]; replicas != "" {
			found = append(found, one.object(replicas))
		}
	}
	return found
}

// replicasOf has the field of `spec` with the number of pods, by kind of controller.
var replicasOf = map[string]string{
	"apps/ReplicaSet": "replicas", "apps/StatefulSet": "replicas", "batch/Job": "parallelism", "v1/ReplicationController": "replicas",
}

// owner is a controller as its pods tell of it.
type owner struct {
	namespace string
	reference metav1.OwnerReference
	count     int64
	newest    metav1.Time
}

// kind returns "group/kind", with "v1" for the core group.
func (o *owner) kind() string {
	group, _, _ := strings.Cut(o.reference.APIVersion, "/")
	return group + "/" + o.reference.Kind
}

func (o *owner) name() string { return o.kind() + "/" + o.namespace + "/" + o.reference.Name }

func (o *owner) object(replicas string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": o.reference.APIVersion, "kind": o.reference.Kind,
		"metadata": map[string]any{"namespace": o.namespace, "name": o.reference.Name, "uid": string(o.reference.UID)},
		"spec":     map[string]any{replicas: o.count}, "status": map[string]any{"replicas": o.count},
	}}
}

// requestOf returns the request for a replacement in one wave, by Karpenter's rules: it evicts pods with local storage
// and of kube-system, and acts on any saving that is as large as the settings ask, as its prices do not change by
// themselves.
func requestOf(cluster *Cluster, clusterName string, settings Settings, now time.Time) *trimtabv1.PlanRequest {
	return &trimtabv1.PlanRequest{
		Cluster: clusterName, Now: timestamppb.New(now), Decisions: []trimtabv1.Decision_Code{trimtabv1.Decision_REPLACEMENT},
		Settings: &trimtabv1.PlanSettings{
			ScaleDown: &trimtabv1.ScaleDownSettings{
				SkipNodesWithLocalStorage: proto.Bool(false), SkipNodesWithSystemPods: proto.Bool(false),
				SkipNodesWithCustomControllerPods: proto.Bool(false),
			},
			Planner: &trimtabv1.PlannerSettings{
				Limits: limitsOf(cluster), RecentEvictionTtl: durationpb.New(0), DisruptionBudgets: budgetsOf(cluster),
			},
			Replacement: &trimtabv1.ReplacementSettings{
				MinSavingShare: proto.Float64(settings.LeastSaving), MinSavingPerEviction: proto.Float64(settings.LeastSavingPerPod), StabilityMargin: proto.Float64(0), MaxWaves: proto.Int32(1),
				MaxLeavingNodes: proto.Int32(int32(cluster.MostLeaving)), MaxSurgeNodes: proto.Int32(int32(cluster.MostLeaving)),
				Spot: &trimtabv1.SpotReplacementSettings{
					Enabled: proto.Bool(cluster.SpotToSpot), MinAlternatives: proto.Int32(disruption.MinInstanceTypesForSpotToSpotConsolidation),
				},
			},
		},
	}
}

// budgetsOf returns how many nodes of each NodePool may leave. The planner takes nodes that are not ready off a budget,
// which Karpenter has done already.
func budgetsOf(cluster *Cluster) []*trimtabv1.DisruptionBudget {
	unready := map[string]int{}
	for _, node := range cluster.Nodes {
		if nodeutils.GetCondition(node, corev1.NodeReady).Status != corev1.ConditionTrue {
			unready[node.Labels[v1.NodePoolLabelKey]]++
		}
	}
	found := []*trimtabv1.DisruptionBudget{}
	for _, name := range slices.Sorted(maps.Keys(cluster.MayLeave)) {
		most := cluster.MayLeave[name]
		if most > 0 {
			most += unready[name]
		}
		found = append(found, &trimtabv1.DisruptionBudget{MaxNodes: fmt.Sprint(most), Nodes: nodesOf(name)})
	}
	return found
}

func limitsOf(cluster *Cluster) []*trimtabv1.ResourceLimit {
	found := []*trimtabv1.ResourceLimit{}
	for _, name := range slices.Sorted(maps.Keys(cluster.Pools)) {
		for _, resource := range slices.Sorted(maps.Keys(cluster.Pools[name].Spec.Limits)) {
			amount := cluster.Pools[name].Spec.Limits[resource]
			most := amount.Value()
			if resource == corev1.ResourceCPU {
				most = amount.MilliValue()
			}
			found = append(found, &trimtabv1.ResourceLimit{Resource: string(resource), Maximum: &most, Nodes: nodesOf(name)})
		}
	}
	return found
}

func nodesOf(pool string) *trimtabv1.Selector {
	return &trimtabv1.Selector{MatchLabels: map[string]string{v1.NodePoolLabelKey: pool}}
}

// planOf returns the first wave of an answer.
func planOf(decision *trimtabv1.ReplacementDecision) *Plan {
	found := &Plan{Detail: decision.GetDetail(), Limited: decision.GetResult() == trimtabv1.ReplacementResult_REPLACEMENT_LIMITED || decision.GetIncomplete()}
	if len(decision.GetWaves()) == 0 {
		return found
	}
	wave := decision.GetWaves()[0]
	for _, one := range wave.GetLeaving() {
		found.Leaving = append(found.Leaving, one.GetNode())
	}
	for _, one := range wave.GetNewNodes() {
		found.Coming = append(found.Coming, one.GetNodeGroup())
	}
	found.SavingPerHour = wave.GetSavingPerHour()
	return found
}
