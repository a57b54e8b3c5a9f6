package karpenter

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	pscheduling "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// placeKeys are the labels that a planned node is pinned to, but for those of which minValues ask for several.
var placeKeys = []string{corev1.LabelTopologyZone, v1.CapacityTypeLabelKey, cloudprovider.ReservationIDLabel}

// room is how many nodes a group may get beyond those that it has: more than any plan asks for.
const room = 1000

// Group is an offering of an instance type for a NodePool: what a planner knows as a node group.
type Group struct {
	// ID is "pool/instance type/zone/capacity type", with the reservation where there is one.
	ID   string
	Pool string
	// Price is that of one node for one hour; NaN = not known.
	Price float64
	// Template is a new node; nil = the group gets none, only has nodes.
	Template *corev1.Node
	// Room is what a new node may be planned to hold: less than the template has
	// where minValues ask for other types that could hold it too.
	Room corev1.ResourceList
	// Nodes are the names of the nodes that it has.
	Nodes []string
	// Upcoming counts the nodes that are ordered and not there yet.
	Upcoming int
	// Most is the largest number of nodes.
	Most int
}

// Size is how many nodes the group has or has ordered.
func (g *Group) Size() int { return len(g.Nodes) + g.Upcoming }

// offeringKey names the offering that labels of a node or NodeClaim are of.
func offeringKey(labels map[string]string) string {
	parts := []string{
		labels[v1.NodePoolLabelKey], labels[corev1.LabelInstanceTypeStable], labels[corev1.LabelTopologyZone], labels[v1.CapacityTypeLabelKey],
	}
	if reservation := labels[cloudprovider.ReservationIDLabel]; reservation != "" {
		parts = append(parts, reservation)
	}
	return strings.Join(parts, "/")
}

// poolGroups returns a group for each offering that a NodePool may launch, and whose price is known. Requirements on
// labels of the NodePool's own count with their value if they allow one, else new nodes are planned without it.
func poolGroups(pool *v1.NodePool, types map[string]*cloudprovider.InstanceType) []*Group {
	if pool.DeletionTimestamp != nil || pool.Spec.Replicas != nil || !pool.StatusConditions().Root().IsTrue() {
		return nil
	}
	template := pscheduling.NewNodeClaimTemplate(pool)
	found := []*Group{}
	for _, instanceType := range types {
		if instanceType.Requirements.Intersects(template.Requirements) != nil {
			continue
		}
		for _, offering := range instanceType.Offerings.Launchable().Compatible(template.Requirements) {
			found = append(found, newGroup(template, instanceType, offering))
		}
	}
	slices.SortFunc(found, func(a, b *Group) int { return cmp.Compare(a.ID, b.ID) })
	return withMinValues(template.Requirements, slices.CompactFunc(found, func(a, b *Group) bool { return a.ID == b.ID }))
}

// withMinValues lets new nodes be planned to hold only what enough other types could hold, as minValues of the NodePool
// ask: in so many zones, of so many capacity types, of so many types. A NodePool with too few values gets no new nodes
// by a plan.
func withMinValues(requirements scheduling.Requirements, groups []*Group) []*Group {
	required := []minValues{}
	for _, key := range slices.Sorted(maps.Keys(requirements)) {
		least := lo.FromPtr(requirements[key].MinValues())
		if least == 0 {
			continue
		}
		values := map[string]bool{}
		for _, group := range groups {
			if value := group.Template.Labels[key]; value != "" {
				values[value] = true
			}
		}
		if len(values) < least {
			return nil
		}
		required = append(required, minValues{key, least})
	}
	for at, room := range roomWithMinValues(required, groups) {
		groups[at].Room = room
	}
	return groups
}

func newGroup(template *pscheduling.NodeClaimTemplate, instanceType *cloudprovider.InstanceType, offering *cloudprovider.Offering) *Group {
	labels := map[string]string{}
	for _, requirements := range []scheduling.Requirements{template.Requirements, instanceType.Requirements, offering.Requirements} {
		for key, requirement := range requirements {
			if key != corev1.LabelHostname && requirement.Operator() == corev1.NodeSelectorOpIn && requirement.Len() == 1 {
				labels[key] = requirement.Any()
			}
		}
	}
	both := scheduling.NewRequirements(template.Requirements.Values()...)
	both.Add(instanceType.Requirements.Values()...)
	for _, key := range []string{corev1.LabelOSStable, corev1.LabelArchStable} {
		if values := both.Get(key).Values(); labels[key] == "" && len(values) > 0 {
			slices.Sort(values)
			labels[key] = values[0]
			if slices.Contains(values, "linux") {
				labels[key] = "linux"
			}
		}
	}
	maps.Copy(labels, template.Labels)
	labels[corev1.LabelInstanceTypeStable] = instanceType.Name
	most := room
	if offering.CapacityType() == v1.CapacityTypeReserved {
		most = offering.ReservationCapacity
	}
	return &Group{
		ID: offeringKey(labels), Pool: template.NodePoolName, Price: offering.Price, Most: most,
		Template: templateNode(template, instanceType, offering, labels),
	}
}

func templateNode(template *pscheduling.NodeClaimTemplate, instanceType *cloudprovider.InstanceType, offering *cloudprovider.Offering, labels map[string]string) *corev1.Node {
	node := &corev1.Node{}
	node.Labels = labels
	node.Spec.Taints = template.Spec.Taints
	node.Status.Capacity = instanceType.Capacity
	node.Status.Allocatable = instanceType.Allocatable()
	for _, one := range instanceType.AllocatableOfferingsList() {
		if slices.Contains(one.Offerings, offering) {
			node.Status.Allocatable = one.Allocatable
		}
	}
	return node
}

// nodeGroups are all groups, and those of nodes whose offering no NodePool may launch any more.
type nodeGroups struct {
	byID  map[string]*Group
	types map[string]map[string]*cloudprovider.InstanceType
}

func newNodeGroups(pools map[string]*v1.NodePool, types map[string]map[string]*cloudprovider.InstanceType) *nodeGroups {
	found := &nodeGroups{byID: map[string]*Group{}, types: types}
	for name, pool := range pools {
		for _, group := range poolGroups(pool, types[name]) {
			found.byID[group.ID] = group
		}
	}
	return found
}

// of returns the group that a node with these labels is of; nil = it is in no NodePool.
func (g *nodeGroups) of(labels map[string]string) *Group {
	if labels[v1.NodePoolLabelKey] == "" || labels[corev1.LabelInstanceTypeStable] == "" {
		return nil
	}
	id := offeringKey(labels)
	if g.byID[id] == nil {
		g.byID[id] = &Group{ID: id, Pool: labels[v1.NodePoolLabelKey], Price: g.price(labels)}
	}
	return g.byID[id]
}

func (g *nodeGroups) price(labels map[string]string) float64 {
	instanceType := g.types[labels[v1.NodePoolLabelKey]][labels[corev1.LabelInstanceTypeStable]]
	if instanceType == nil {
		return math.NaN()
	}
	price, known := instanceType.OfferingPrice(labels[corev1.LabelTopologyZone], labels[v1.CapacityTypeLabelKey])
	if !known {
		return math.NaN()
	}
	return price
}

// sorted returns the groups by id, with room for what they have.
func (g *nodeGroups) sorted() []*Group {
	found := make([]*Group, 0, len(g.byID))
	for _, group := range g.byID {
		group.Most += group.Size()
		slices.Sort(group.Nodes)
		found = append(found, group)
	}
	slices.SortFunc(found, func(a, b *Group) int { return cmp.Compare(a.ID, b.ID) })
	return found
}
