package karpenter

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	disruptionutils "sigs.k8s.io/karpenter/pkg/utils/disruption"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"
)

// Cluster is what a plan is made of. Its objects are copies where they differ from Karpenter's; nothing of it may be
// written to.
type Cluster struct {
	Nodes      []*corev1.Node
	Pods       []*corev1.Pod
	Budgets    []*policyv1.PodDisruptionBudget
	Namespaces []*corev1.Namespace
	DaemonSets []*appsv1.DaemonSet
	Claims     []*corev1.PersistentVolumeClaim
	Volumes    []*corev1.PersistentVolume
	Classes    []*storagev1.StorageClass
	CSINodes   []*storagev1.CSINode
	Groups     []*Group
	// Pools has the NodePools by name, Types the instance types of each by name.
	Pools map[string]*v1.NodePool
	Types map[string]map[string]*cloudprovider.InstanceType
	// MayLeave counts the nodes of each NodePool that may leave now, by Karpenter's disruption budgets.
	MayLeave map[string]int
	// MostLeaving is how many nodes may leave in all.
	MostLeaving int
	// SpotToSpot says whether spot nodes may be replaced by spot nodes.
	SpotToSpot bool
	// daemons remembers daemonRequests: each new node of a plan asks for many groups.
	daemons map[*Group]corev1.ResourceList
}

// observer reads the cluster as Karpenter knows it: nodes that are leaving are not in it, and their pods wait.
type observer struct{ Karpenter }

func (o *observer) observe(ctx context.Context, candidates []*disruption.Candidate, isKept func(string) bool) (*Cluster, error) {
	pools, types, err := disruption.BuildNodePoolMap(ctx, o.Client, o.Cloud)
	if err != nil {
		return nil, err
	}
	groups := newNodeGroups(pools, types)
	found := &Cluster{Pools: pools, Types: types}
	may := map[string]bool{}
	for _, candidate := range candidates {
		may[candidate.Name()] = !isKept(candidate.Name())
	}
	leaving := map[string]bool{}
	for _, node := range o.Cluster.DeepCopyNodes() {
		o.addNode(found, groups, node, may, leaving)
	}
	found.Groups = groups.sorted()
	return found, o.addObjects(ctx, found, leaving)
}

// addNode adds a node, or counts it as ordered if it is not there yet.
func (o *observer) addNode(found *Cluster, groups *nodeGroups, node *state.StateNode, may, leaving map[string]bool) {
	if node.MarkedForDeletion() || node.Deleted() {
		if node.Node != nil {
			leaving[node.Node.Name] = true
		}
		return
	}
	group := groups.of(node.Labels())
	if node.Node == nil {
		if group != nil && node.NodeClaim != nil && node.NodeClaim.Status.ProviderID != "" {
			group.Upcoming++
		}
		return
	}
	if group != nil {
		group.Nodes = append(group.Nodes, node.Node.Name)
	}
	found.Nodes = append(found.Nodes, o.copyOf(found, node, may[node.Node.Name]))
}

// copyOf returns a node as a plan may use it: only candidates may leave, and no pod moves to a node on which Karpenter
// would place none, because it is not initialized or has changed within consolidateAfter.
func (o *observer) copyOf(found *Cluster, node *state.StateNode, mayLeave bool) *corev1.Node {
	made := node.Node.DeepCopy()
	made.ResourceVersion = "" // it differs from that node
	made.Spec.Taints = node.Taints()
	made.Status.Allocatable = node.Allocatable()
	if !mayLeave {
		made.Annotations = withAnnotation(made.Annotations, v1.DoNotDisruptAnnotationKey)
	}
	pool := found.Pools[node.Labels()[v1.NodePoolLabelKey]]
	isNew := node.Managed() && (!node.Initialized() || disruptionutils.IsUnderConsolidateAfter(pool, node.NodeClaim, o.Clock))
	made.Spec.Unschedulable = made.Spec.Unschedulable || isNew
	return made
}

func withAnnotation(annotations map[string]string, key string) map[string]string {
	found := map[string]string{key: "true"}
	for name, value := range annotations {
		if name != key {
			found[name] = value
		}
	}
	return found
}

// addObjects adds everything else. Pods of nodes that are leaving wait for a place, unless they end there.
func (o *observer) addObjects(ctx context.Context, found *Cluster, leaving map[string]bool) error {
	pods := &corev1.PodList{}
	if err := o.Client.List(ctx, pods, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing pods, %w", err)
	}
	for at := range pods.Items {
		pod := &pods.Items[at]
		if leaving[pod.Spec.NodeName] {
			if !podutils.IsReschedulable(pod) {
				continue
			}
			pod = pod.DeepCopy()
			pod.Spec.NodeName, pod.ResourceVersion = "", ""
		}
		found.Pods = append(found.Pods, pod)
	}
	return o.addLists(ctx, found)
}

func (o *observer) addLists(ctx context.Context, found *Cluster) error {
	budgets, namespaces, daemons := &policyv1.PodDisruptionBudgetList{}, &corev1.NamespaceList{}, &appsv1.DaemonSetList{}
	claims, volumes := &corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}
	classes, csiNodes := &storagev1.StorageClassList{}, &storagev1.CSINodeList{}
	for _, list := range []client.ObjectList{budgets, namespaces, daemons, claims, volumes, classes, csiNodes} {
		if err := o.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing %T, %w", list, err)
		}
	}
	found.Budgets, found.Namespaces, found.DaemonSets = pointers(budgets.Items), pointers(namespaces.Items), pointers(daemons.Items)
	found.Claims, found.Volumes = pointers(claims.Items), pointers(volumes.Items)
	found.Classes, found.CSINodes = pointers(classes.Items), pointers(csiNodes.Items)
	return nil
}

func pointers[T any](items []T) []*T {
	found := make([]*T, len(items))
	for at := range items {
		found[at] = &items[at]
	}
	return found
}

// setOf names a set of nodes, whatever their order.
func setOf(names []string) string {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	return strings.Join(sorted, ",")
}
