package trimtab

import (
	"cmp"
	"math"
	"regexp"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	pb "trimtab.dev/clients/go/trimtabv1"
)

const (
	scaleDownDisabled   = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	steered             = "trimtab.dev/steered"
	delayDeletionPrefix = "delay-deletion.cluster-autoscaler.kubernetes.io/"
	csiDrivers          = "capacity.cluster-autoscaler.kubernetes.io/csi-driver"
	attachable          = "attachable-volumes-"
)

// inTreeLimits are resources with attach limits that do not name the driver.
var inTreeLimits = map[string]string{
	"aws-ebs": "ebs.csi.aws.com", "azure-disk": "disk.csi.azure.com", "cinder": "cinder.csi.openstack.org",
	"gce-pd": "pd.csi.storage.gke.io",
}

// sharedRow has the fields that nodes and templates of nodes have in common.
type sharedRow struct {
	labelSet              int32
	taints                []*pb.Taint
	allocatable, capacity []int64
	declaredFeatures      []int32
}

// nodeRow returns the row of a node, without its group. required : drivers
// without which no pod is scheduled.
func nodeRow(node *corev1.Node, csiNode *storagev1.CSINode, d *dictionary, required map[string]bool) (*pb.Node, error) {
	row := &pb.Node{
		Name:              node.Name,
		ProviderId:        node.Spec.ProviderID,
		Unschedulable:     node.Spec.Unschedulable,
		CreateTime:        timestamp(&node.CreationTimestamp),
		BeingDeleted:      node.DeletionTimestamp != nil,
		ScaleDownDisabled: node.Annotations[scaleDownDisabled] == "true" && !isSteered(node),
		DoNotDisrupt:      node.Annotations[doNotDisrupt] == "true" && !isSteered(node),
	}
	for i, one := range node.Status.Conditions {
		if one.Type == corev1.NodeReady {
			row.Ready = row.Ready || one.Status == corev1.ConditionTrue
			row.ReadyTransitionTime = timestamp(&node.Status.Conditions[i].LastTransitionTime)
		}
	}
	for key := range node.Annotations {
		row.DeletionDelayed = row.DeletionDelayed || strings.HasPrefix(key, delayDeletionPrefix)
	}
	row.AttachLimits = attachLimits(csiNode, d)
	row.VolumeDrivers = volumeDrivers(csiNode, d, required)
	shared, err := shareOf(node, d)
	if err != nil {
		return nil, err
	}
	row.Taints, row.LabelSet, row.DeclaredFeatures = shared.taints, shared.labelSet, shared.declaredFeatures
	row.Allocatable, row.Capacity = shared.allocatable, shared.capacity
	return row, nil
}

// templateRow returns the row of a new node of a group.
func templateRow(node *corev1.Node, d *dictionary) (*pb.NodeTemplate, error) {
	shared, err := shareOf(node, d)
	if err != nil {
		return nil, err
	}
	limits, err := statedLimits(node)
	if err != nil {
		return nil, err
	}
	row := &pb.NodeTemplate{
		LabelSet: shared.labelSet, Taints: shared.taints, DeclaredFeatures: shared.declaredFeatures,
		Allocatable: shared.allocatable, Capacity: shared.capacity,
	}
	for _, driver := range sortedKeys(limits) {
		row.AttachLimits = append(row.AttachLimits, &pb.AttachLimit{Driver: d.string(driver), Count: limits[driver]})
	}
	return row, nil
}

// statedLimits returns the attach limits by CSI driver that a template states:
// in resources, or in the Cluster Autoscaler's annotation, which wins.
func statedLimits(node *corev1.Node) (map[string]int32, error) {
	list := node.Status.Allocatable
	if len(list) == 0 {
		list = node.Status.Capacity
	}
	found, err := amountsOf(list)
	if err != nil {
		return nil, below("status.allocatable", err)
	}
	out := map[string]int32{}
	for name, milli := range found {
		if kind, ok := strings.CutPrefix(string(name), attachable); ok {
			driver := cmp.Or(inTreeLimits[kind], strings.TrimPrefix(kind, "csi-"))
			out[driver] = int32(min(amountOf(name, milli), math.MaxInt32))
		}
	}
	for _, part := range strings.Split(node.Annotations[csiDrivers], ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		driver, text, _ := strings.Cut(part, "=")
		count, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31)
		if driver = strings.TrimSpace(driver); driver == "" || err != nil {
			return nil, badField("metadata.annotations["+csiDrivers+"]", "write DRIVER=COUNT, as ebs.csi.aws.com=25",
				"%q states no limit", part)
		}
		out[driver] = int32(count)
	}
	return out, nil
}

func shareOf(node *corev1.Node, d *dictionary) (sharedRow, error) {
	var row sharedRow
	var err error
	if row.taints, err = taints(node.Spec.Taints, d); err != nil {
		return row, below("spec", err)
	}
	row.labelSet = d.labelSet(node.Labels)
	// As the API server does: with capacity only, all of it is allocatable.
	allocatable := node.Status.Allocatable
	if allocatable == nil {
		allocatable = node.Status.Capacity
	}
	if row.allocatable, err = nodeAmounts(allocatable, d); err != nil {
		return row, below("status.allocatable", err)
	}
	if node.Status.Capacity != nil && !sameQuantities(node.Status.Capacity, allocatable) {
		if row.capacity, err = nodeAmounts(node.Status.Capacity, d); err != nil {
			return row, below("status.capacity", err)
		}
	}
	for _, name := range sortedUnique(node.Status.DeclaredFeatures) {
		if name != "" {
			row.declaredFeatures = append(row.declaredFeatures, d.string(name))
		}
	}
	return row, nil
}

// kubeletVersion matches that of a real kubelet; simulated ones say
// "kwok-v0.7.0" or "fake".
var kubeletVersion = regexp.MustCompile(`^v1\.([0-9]{1,3})\.[0-9]`)

// oldestMinor is the oldest version of Kubernetes whose allocator of devices is
// known.
const oldestMinor = 36

// minorOfKubelets returns the minor version of the newest kubelet, 36 for 1.36,
// and at least that: API servers may be three versions newer than their
// kubelets. 0 if none tells one.
func minorOfKubelets(nodes []*corev1.Node) int32 {
	var newest int32
	for _, node := range nodes {
		if found := kubeletVersion.FindStringSubmatch(node.Status.NodeInfo.KubeletVersion); found != nil {
			minor, _ := strconv.Atoi(found[1])
			newest = max(newest, int32(minor))
		}
	}
	if newest == 0 {
		return 0
	}
	return max(newest, oldestMinor)
}

func nodeAmounts(list corev1.ResourceList, d *dictionary) ([]int64, error) {
	found, err := amountsOf(list)
	if err != nil {
		return nil, err
	}
	var out []int64
	for name, milli := range found {
		index := int(d.resource(string(name)))
		for len(out) <= index {
			out = append(out, 0)
		}
		out[index] = min(amountOf(name, milli), mostOfANode)
	}
	return out, nil
}

func isSteered(node *corev1.Node) bool {
	_, is := node.Annotations[steered]
	return is
}

// resourceNames returns the names of all resources of nodes, sorted.
func resourceNames(nodes []*corev1.Node) []string {
	found := map[string]bool{}
	for _, node := range nodes {
		for _, list := range []corev1.ResourceList{node.Status.Allocatable, node.Status.Capacity} {
			for name := range list {
				found[string(name)] = true
			}
		}
	}
	return sortedKeys(found)
}

func attachLimits(csiNode *storagev1.CSINode, d *dictionary) []*pb.AttachLimit {
	if csiNode == nil {
		return nil
	}
	drivers := append([]storagev1.CSINodeDriver{}, csiNode.Spec.Drivers...)
	sort.SliceStable(drivers, func(i, j int) bool { return drivers[i].Name < drivers[j].Name })
	var out []*pb.AttachLimit
	for _, one := range drivers {
		if one.Name == "" || one.Allocatable == nil || one.Allocatable.Count == nil {
			continue
		}
		out = append(out, &pb.AttachLimit{Driver: d.string(one.Name), Count: max(*one.Allocatable.Count, 0)})
	}
	return out
}

// requiredDrivers returns the drivers that ask that no pod is scheduled on a
// node without them.
func requiredDrivers(drivers []*storagev1.CSIDriver) map[string]bool {
	out := map[string]bool{}
	for _, one := range drivers {
		if ptr.Deref(one.Spec.PreventPodSchedulingIfMissing, false) {
			out[one.Name] = true
		}
	}
	return out
}

// volumeDrivers returns the required drivers and in-tree plugins by which a node
// mounts volumes; nil if none is required.
func volumeDrivers(csiNode *storagev1.CSINode, d *dictionary, required map[string]bool) *pb.VolumeDrivers {
	if len(required) == 0 {
		return nil
	}
	names := map[string]bool{}
	if csiNode != nil {
		for _, one := range csiNode.Spec.Drivers {
			if required[one.Name] {
				names[one.Name] = true
			}
		}
	}
	for plugin, driver := range driverOf {
		if required[driver] && (names[driver] || csiNode == nil) {
			names[plugin] = true
		}
	}
	return &pb.VolumeDrivers{Names: d.strs(sortedKeys(names))}
}
