package trimtab

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Labels of Karpenter's nodes, and values of them.
const (
	poolLabel         = "karpenter.sh/nodepool"
	capacityTypeLabel = "karpenter.sh/capacity-type"
	onDemand, spot    = "on-demand", "spot"
)

// machineLabels are what the keys of labels begin with that say what a machine
// is and where it runs.
var machineLabels = []string{
	"topology.kubernetes.io/", "topology.k8s.aws/", "failure-domain.beta.kubernetes.io/", "karpenter.k8s.aws/instance-",
	"karpenter.azure.com/sku-", "karpenter.k8s.gcp/instance-",
}

// providerLabels are what the keys of labels begin with that providers of
// machines give to nodes.
var providerLabels = []string{
	"karpenter.k8s.aws/", "karpenter.azure.com/", "karpenter.k8s.gcp/", "topology.k8s.aws/", "topology.kubernetes.io/",
	"node.kubernetes.io/", "kubernetes.io/", "eks.amazonaws.com/",
}

// newNames are the labels that have taken the place of others.
var newNames = map[string]string{
	corev1.LabelInstanceType:          corev1.LabelInstanceTypeStable,
	corev1.LabelFailureDomainBetaZone: corev1.LabelTopologyZone,
	"beta.kubernetes.io/arch":         corev1.LabelArchStable,
	"beta.kubernetes.io/os":           corev1.LabelOSStable,
}

var oldNames = map[string]string{
	corev1.LabelInstanceTypeStable: corev1.LabelInstanceType, corev1.LabelTopologyZone: corev1.LabelFailureDomainBetaZone,
}

var controlPlaneLabels = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

var awsType = regexp.MustCompile(`\A([a-z]+)([0-9]+)[a-z0-9-]*\.[a-z0-9-]+\z`)

// OfferKey is what an offering is: an instance type in a zone, on demand or
// spot. An empty Zone is every zone of the cluster.
type OfferKey struct {
	InstanceType string `json:"instanceType"`
	Zone         string `json:"zone,omitempty"`
	CapacityType string `json:"capacityType"`
}

func (k OfferKey) parts() []string {
	return []string{cmp.Or(k.InstanceType, "-"), cmp.Or(k.Zone, "-"), cmp.Or(k.CapacityType, "-")}
}

func compareKeys(a, b OfferKey) int {
	return cmp.Or(cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType))
}

// MachineOffer is an offering that NodePools may have new nodes of.
type MachineOffer struct {
	OfferKey
	// Capacity and Allocatable are those of one node.
	Capacity    corev1.ResourceList `json:"capacity"`
	Allocatable corev1.ResourceList `json:"allocatable"`
	// Labels of its nodes besides those that follow from the key.
	Labels map[string]string `json:"labels,omitempty"`
	// Price of one node for one hour; nil = not known.
	Price *float64 `json:"price,omitempty"`
}

// offerOf returns the offering that a node's labels name; "" = they do not say.
func offerOf(labels map[string]string) OfferKey {
	return OfferKey{
		InstanceType: cmp.Or(labels[corev1.LabelInstanceTypeStable], labels[oldNames[corev1.LabelInstanceTypeStable]]),
		Zone:         cmp.Or(labels[corev1.LabelTopologyZone], labels[oldNames[corev1.LabelTopologyZone]]),
		CapacityType: cmp.Or(labels[capacityTypeLabel], usualCapacityType(labels)),
	}
}

// usualCapacityType returns the capacity type by other labels than Karpenter's.
func usualCapacityType(labels map[string]string) string {
	if labels["eks.amazonaws.com/capacityType"] == "SPOT" || labels["cloud.google.com/gke-spot"] == "true" ||
		labels["cloud.google.com/gke-preemptible"] == "true" || labels["kubernetes.azure.com/scalesetpriority"] == "spot" {
		return spot
	}
	return onDemand
}

// isOfMachines says whether a requirement on a label, and not its presence in a
// pool, decides its value.
func isOfMachines(key string) bool {
	_, isOld := newNames[key]
	return isOld || key == capacityTypeLabel || hasPrefixOf(key, providerLabels)
}

func hasPrefixOf(text string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}

// presentOffers returns the offerings of nodes and NodeClaims, without nodes of
// the control plane, sorted.
func presentOffers(nodes []*corev1.Node, claims []*NodeClaim) []*MachineOffer {
	found := map[OfferKey]*MachineOffer{}
	for _, node := range nodes {
		allocatable, capacity := node.Status.Allocatable, node.Status.Capacity
		if len(allocatable) == 0 {
			allocatable = capacity
		}
		if len(capacity) == 0 {
			capacity = allocatable
		}
		if len(allocatable) > 0 && !slices.ContainsFunc(controlPlaneLabels, func(key string) bool { _, is := node.Labels[key]; return is }) {
			addOffer(found, node.Labels, capacity, allocatable)
		}
	}
	for _, claim := range claims {
		if status := claim.Status; len(status.Capacity) > 0 {
			allocatable := status.Allocatable
			if len(allocatable) == 0 {
				allocatable = status.Capacity
			}
			addOffer(found, claim.Labels, status.Capacity, allocatable)
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *MachineOffer) int { return compareKeys(a.OfferKey, b.OfferKey) })
}

// addOffer adds the offering of a node, unless one of its kind is known.
func addOffer(found map[OfferKey]*MachineOffer, labels map[string]string, capacity, allocatable corev1.ResourceList) {
	key := offerOf(labels)
	if key.InstanceType == "" || found[key] != nil {
		return
	}
	ofMachine := map[string]string{}
	for name, value := range labels {
		_, isOld := newNames[name]
		if isOld || hasPrefixOf(name, machineLabels) || name == corev1.LabelArchStable || name == corev1.LabelOSStable {
			ofMachine[name] = value
		}
	}
	cpu := capacity[corev1.ResourceCPU]
	found[key] = &MachineOffer{
		OfferKey: key, Capacity: capacity, Allocatable: allocatable,
		Labels: offerLabels(key, ofMachine, amountOf(corev1.ResourceCPU, milliOf(cpu))),
	}
}

// completed returns offerings with what nodes of the same instance type show
// and the offerings do not say: labels of the type. One of no zone is in every
// zone of the cluster, those of `zones` included.
func completed(offers []MachineOffer, present []*MachineOffer, zones []string) []*MachineOffer {
	known, everywhere := map[string]map[string]string{}, map[string]bool{}
	for _, one := range present {
		if one.Zone != "" {
			everywhere[one.Zone] = true
		}
		if known[one.InstanceType] != nil {
			continue
		}
		known[one.InstanceType] = map[string]string{}
		for key, value := range one.Labels {
			if !dependsOnPlace(key) {
				known[one.InstanceType][key] = value
			}
		}
	}
	for _, zone := range zones {
		everywhere[zone] = true
	}
	found, at := []*MachineOffer{}, map[OfferKey]int{}
	for _, one := range offers {
		for _, zone := range offerZones(one.Zone, sortedKeys(everywhere)) {
			made := one
			made.Zone = zone
			more := maps.Clone(known[one.InstanceType])
			if more == nil {
				more = map[string]string{}
			}
			maps.Copy(more, one.Labels)
			if zone != "" {
				more[corev1.LabelTopologyZone] = zone
			}
			made.Labels = offerLabels(made.OfferKey, more, 0)
			place, isThere := at[made.OfferKey]
			switch {
			case !isThere:
				at[made.OfferKey] = len(found)
				found = append(found, &made)
			case one.Zone != "":
				found[place] = &made
			}
		}
	}
	return found
}

func offerZones(own string, everywhere []string) []string {
	if own != "" || len(everywhere) == 0 {
		return []string{own}
	}
	return everywhere
}

func dependsOnPlace(key string) bool {
	return key == corev1.LabelTopologyZone || key == capacityTypeLabel || hasPrefixOf(key, []string{"topology.", "failure-domain."})
}

// offerLabels returns the labels of an offering's nodes: those of its key, of
// what the name of its type says, and more, under their old names too.
func offerLabels(key OfferKey, more map[string]string, cpuMilli int64) map[string]string {
	found := map[string]string{
		corev1.LabelInstanceTypeStable: key.InstanceType, corev1.LabelTopologyZone: key.Zone,
		capacityTypeLabel: key.CapacityType, corev1.LabelOSStable: "linux",
	}
	if parts := awsType.FindStringSubmatch(key.InstanceType); parts != nil {
		family, size, _ := strings.Cut(key.InstanceType, ".")
		maps.Copy(found, map[string]string{
			"karpenter.k8s.aws/instance-family": family, "karpenter.k8s.aws/instance-size": size,
			"karpenter.k8s.aws/instance-category": parts[1], "karpenter.k8s.aws/instance-generation": parts[2],
		})
		if cpuMilli != 0 {
			found["karpenter.k8s.aws/instance-cpu"] = fmt.Sprint(cpuMilli / 1000)
		}
	}
	maps.Copy(found, more)
	for old, name := range newNames {
		if value, is := found[name]; is {
			found[old] = value
		}
	}
	maps.DeleteFunc(found, func(_, value string) bool { return value == "" })
	return found
}
