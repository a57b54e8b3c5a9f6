package karpenter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	pscheduling "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/utils/resources"
)

// plannedPrefix begins the names of new nodes of a plan in a simulation: the scheduler fills nodes by name, so these
// come last.
const plannedPrefix = "zzz-trimtab-planned-"

// simulate asks Karpenter's scheduler, once, where the pods of candidates go if the new nodes of the plan were there.
// By itself the scheduler fills one new node until the largest instance type is full, which is rarely the cheapest.
// It returns the results without these nodes, and the claims for those of them that got pods, and for what else the
// scheduler wants.
func (m *Method) simulate(ctx context.Context, plan *Plan, cluster *Cluster, chosen []*disruption.Candidate) (pscheduling.Results, error) {
	seen, planned := m.parts.Cluster, map[string]*Group{}
	if len(plan.Coming) > 0 {
		var err error
		if seen, planned, err = m.withPlanned(ctx, plan, cluster); err != nil {
			return pscheduling.Results{}, err
		}
	}
	results, err := disruption.SimulateScheduling(ctx, m.parts.Client, seen, m.parts.Provisioner, m.parts.Clock, m.parts.Recorder,
		[]pscheduling.Options{pscheduling.IsConsolidationSimulation}, disruption.SimulationOptions{}, chosen...)
	if err != nil {
		return pscheduling.Results{}, fmt.Errorf("simulating scheduling, %w", err)
	}
	existing := []*pscheduling.ExistingNode{}
	for _, node := range results.ExistingNodes {
		group := planned[node.Name()]
		switch {
		case group == nil:
			existing = append(existing, node)
		case len(node.Pods) > 0:
			results.NewNodeClaims = append(results.NewNodeClaims, claimOf(group, cluster, node))
		}
	}
	results.ExistingNodes = existing
	return results, nil
}

// withPlanned returns a copy of Karpenter's state with the new nodes of a plan, and their groups by name of the node.
func (m *Method) withPlanned(ctx context.Context, plan *Plan, cluster *Cluster) (*state.Cluster, map[string]*Group, error) {
	found := state.NewCluster(m.parts.Clock, m.parts.Client, m.parts.Cloud)
	leaving := []string{}
	nodes := m.parts.Cluster.DeepCopyNodes()
	// The copy counts its nodes in a metric of Karpenter's.
	defer func() { state.ClusterStateNodesCount.Set(float64(len(nodes)), nil) }()
	for _, node := range nodes {
		if node.NodeClaim != nil {
			found.UpdateNodeClaim(node.NodeClaim)
		}
		if node.Node != nil {
			if err := found.UpdateNode(ctx, node.Node); err != nil {
				return nil, nil, err
			}
		}
		if node.MarkedForDeletion() {
			leaving = append(leaving, node.ProviderID())
		}
	}
	found.MarkForDeletion(leaving...)
	groups, byID := map[string]*Group{}, map[string]*Group{}
	for _, group := range cluster.Groups {
		byID[group.ID] = group
	}
	for at, id := range plan.Coming {
		group := byID[id]
		if group == nil || group.Template == nil {
			return nil, nil, &disagreement{Reason: unknownGroup, Detail: fmt.Sprintf("no NodePool may launch %s", id)}
		}
		name := fmt.Sprintf("%s%04d", plannedPrefix, at)
		claim, node := m.plannedNode(name, group)
		found.UpdateNodeClaim(claim)
		if err := found.UpdateNode(ctx, node); err != nil {
			return nil, nil, err
		}
		groups[name] = group
	}
	return found, groups, nil
}

// plannedNode returns a node of a group as it will be once it is initialized.
func (m *Method) plannedNode(name string, group *Group) (*v1.NodeClaim, *corev1.Node) {
	node := group.Template.DeepCopy()
	node.Name, node.Spec.ProviderID = name, "trimtab://"+name
	node.Labels[corev1.LabelHostname] = name
	node.Status.Allocatable = group.Room
	node.Labels[v1.NodeRegisteredLabelKey], node.Labels[v1.NodeInitializedLabelKey] = "true", "true"
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: node.Labels}}
	claim.Status = v1.NodeClaimStatus{
		NodeName: name, ProviderID: node.Spec.ProviderID, Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable,
		// consolidateAfter protects nodes that have changed lately; this one is not there at all.
		LastPodEventTime: metav1.NewTime(m.parts.Clock.Now().Add(-10 * 365 * 24 * time.Hour)),
	}
	for _, condition := range []string{v1.ConditionTypeLaunched, v1.ConditionTypeRegistered, v1.ConditionTypeInitialized} {
		claim.StatusConditions().SetTrue(condition)
	}
	return claim, node
}

// claimOf returns what is to be launched for a planned node: its type, and all others that would also take its pods in
// the same place. Which of them are cheap enough is decided later. Where minValues ask for several zones or capacity
// types, the place is any that the NodePool and the pods allow.
func claimOf(group *Group, cluster *Cluster, node *pscheduling.ExistingNode) *pscheduling.NodeClaim {
	claim := &pscheduling.NodeClaim{NodeClaimTemplate: *pscheduling.NewNodeClaimTemplate(cluster.Pools[group.Pool]), Pods: node.Pods}
	pinned := []string{}
	for _, key := range placeKeys {
		value := group.Template.Labels[key]
		switch {
		case !asksForSeveral(claim, key) || cluster.isBound(node.Pods, key):
			pinned = append(pinned, key)
			if value != "" {
				claim.Requirements.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, value))
			}
		default:
			for _, pod := range node.Pods {
				if wanted := scheduling.NewStrictPodRequirements(pod); wanted.Has(key) {
					claim.Requirements.Add(wanted.Get(key))
				}
			}
		}
	}
	pods := resources.RequestsForPods(node.Pods...)
	claim.Spec.Resources.Requests = resources.Merge(pods, cluster.daemonRequests(group))
	names := []string{}
	for _, other := range cluster.Groups {
		if other.Template == nil || !isInPlaceOf(other, group, pinned) || !takes(other, node.Pods) {
			continue
		}
		if resources.Fits(resources.Merge(pods, cluster.daemonRequests(other)), other.Template.Status.Allocatable) {
			names = append(names, other.Template.Labels[corev1.LabelInstanceTypeStable])
		}
	}
	for _, name := range slices.Compact(names) {
		claim.InstanceTypeOptions = append(claim.InstanceTypeOptions, cluster.Types[group.Pool][name])
	}
	return claim
}

// daemonRequests is what DaemonSets take of a new node of a group.
func (c *Cluster) daemonRequests(group *Group) corev1.ResourceList {
	if found, known := c.daemons[group]; known {
		return found
	}
	daemons := []*corev1.Pod{}
	for _, set := range c.DaemonSets {
		pod := &corev1.Pod{ObjectMeta: set.Spec.Template.ObjectMeta, Spec: set.Spec.Template.Spec}
		if scheduling.Taints(group.Template.Spec.Taints).ToleratesPod(pod) == nil && takes(group, []*corev1.Pod{pod}) {
			daemons = append(daemons, pod)
		}
	}
	if c.daemons == nil {
		c.daemons = map[*Group]corev1.ResourceList{}
	}
	c.daemons[group] = resources.RequestsForPods(daemons...)
	return c.daemons[group]
}

// asksForSeveral returns whether minValues of a claim ask for several values of a label.
func asksForSeveral(claim *pscheduling.NodeClaim, key string) bool {
	return lo.FromPtr(claim.Requirements.Get(key).MinValues()) > 1
}

// isBound returns whether pods of a new node, or others that keep away from them, may depend on a label of its place:
// by spread, affinity to pods, or volumes, which the simulation has checked for the planned place alone.
func (c *Cluster) isBound(pods []*corev1.Pod, key string) bool {
	for _, pod := range c.Pods {
		if affinity := pod.Spec.Affinity; affinity != nil && affinity.PodAntiAffinity != nil &&
			hasTopology(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, key) {
			return true
		}
	}
	for _, pod := range pods {
		if slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(one corev1.TopologySpreadConstraint) bool {
			return one.TopologyKey == key
		}) || slices.ContainsFunc(pod.Spec.Volumes, func(one corev1.Volume) bool {
			return one.PersistentVolumeClaim != nil || one.Ephemeral != nil
		}) {
			return true
		}
		if affinity := pod.Spec.Affinity; affinity != nil && affinity.PodAffinity != nil &&
			hasTopology(affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, key) {
			return true
		}
	}
	return false
}

func hasTopology(terms []corev1.PodAffinityTerm, key string) bool {
	return slices.ContainsFunc(terms, func(one corev1.PodAffinityTerm) bool { return one.TopologyKey == key })
}

// isInPlaceOf returns whether a group is of the same NodePool as another and has the same labels of its place.
func isInPlaceOf(group, other *Group, keys []string) bool {
	if group.Pool != other.Pool {
		return false
	}
	for _, key := range keys {
		if group.Template.Labels[key] != other.Template.Labels[key] {
			return false
		}
	}
	return true
}

// takes returns whether the selectors and required affinities of pods match the nodes of a group.
func takes(group *Group, pods []*corev1.Pod) bool {
	for _, pod := range pods {
		matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(group.Template)
		if err != nil || !matches {
			return false
		}
	}
	return true
}
