package karpenter

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// snapshotOf returns the cluster in the form for the planner.
func snapshotOf(cluster *Cluster) (*trimtabv1.ClusterSnapshot, error) {
	objects := trimtab.Objects{
		Nodes: cluster.Nodes, Pods: cluster.Pods, Namespaces: cluster.Namespaces, PodDisruptionBudgets: cluster.Budgets,
		DaemonSets: cluster.DaemonSets, PersistentVolumeClaims: cluster.Claims, PersistentVolumes: cluster.Volumes,
		StorageClasses: cluster.Classes, CSINodes: cluster.CSINodes,
	}
	addControllers(&objects)
	for _, group := range cluster.Groups {
		objects.NodeGroups = append(objects.NodeGroups, nodeGroup(group))
	}
	built, err := trimtab.Build(objects)
	if err != nil {
		return nil, fmt.Errorf("building the snapshot, %w", err)
	}
	return built.Message, nil
}

func nodeGroup(group *Group) *trimtab.NodeGroup {
	made := &trimtab.NodeGroup{}
	made.Name = group.ID
	made.Spec.MaxSize, made.Spec.TargetSize = proto.Int32(int32(group.Most)), proto.Int32(int32(group.Size()))
	made.Spec.Nodes, made.Spec.Template = group.Nodes, group.Template
	if group.Template != nil && group.Upcoming == 0 { // what is ordered has all its room
		made.Spec.Template = group.Template.DeepCopy()
		made.Spec.Template.Status.Allocatable = group.Room
	}
	if !math.IsNaN(group.Price) {
		made.Spec.Price = proto.Float64(group.Price)
	}
	return made
}

// addControllers adds the controllers that pods name. Karpenter does not watch them, so each counts as having as many
// replicas as it has pods: it is there, and will create its pods again. Of two of one name, of which one has been
// created again, the one with the newest pod is there.
func addControllers(objects *trimtab.Objects) {
	owners := map[types.UID]*owner{}
	for _, pod := range objects.Pods {
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
	for _, one := range there {
		one.add(objects)
	}
}

// owner is a controller as its pods tell of it.
type owner struct {
	namespace string
	reference metav1.OwnerReference
	count     int32
	newest    metav1.Time
}

// kind returns "group/kind".
func (o *owner) kind() string {
	group, _, _ := strings.Cut(o.reference.APIVersion, "/")
	return group + "/" + o.reference.Kind
}

func (o *owner) name() string { return o.kind() + "/" + o.namespace + "/" + o.reference.Name }

func (o *owner) add(objects *trimtab.Objects) {
	meta := metav1.ObjectMeta{Namespace: o.namespace, Name: o.reference.Name, UID: o.reference.UID}
	count := o.count
	switch o.kind() {
	case "apps/ReplicaSet":
		objects.ReplicaSets = append(objects.ReplicaSets, &appsv1.ReplicaSet{
			ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &count}, Status: appsv1.ReplicaSetStatus{Replicas: count},
		})
	case "apps/StatefulSet":
		objects.StatefulSets = append(objects.StatefulSets, &appsv1.StatefulSet{
			ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &count}, Status: appsv1.StatefulSetStatus{Replicas: count},
		})
	case "batch/Job":
		objects.Jobs = append(objects.Jobs, &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Parallelism: &count}})
	case "v1/ReplicationController":
		objects.ReplicationControllers = append(objects.ReplicationControllers, &corev1.ReplicationController{
			ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Replicas: &count}, Status: corev1.ReplicationControllerStatus{Replicas: count},
		})
	}
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
			Planner: &trimtabv1.PlannerSettings{Limits: limitsOf(cluster), RecentEvictionTtl: durationpb.New(0)},
			Replacement: &trimtabv1.ReplacementSettings{
				MinSavingShare: proto.Float64(settings.LeastSaving), MinSavingPerEviction: proto.Float64(settings.LeastSavingPerPod), StabilityMargin: proto.Float64(0), MaxWaves: proto.Int32(1),
				MaxLeavingNodes: proto.Int32(int32(cluster.MostLeaving)), MaxSurgeNodes: proto.Int32(int32(cluster.MostLeaving)),
				Budgets: budgetsOf(cluster),
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
