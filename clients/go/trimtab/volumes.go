package trimtab

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	pb "trimtab.dev/clients/go/trimtabv1"
)

const (
	bindCompleted   = "pv.kubernetes.io/bind-completed"
	selectedNode    = "volume.kubernetes.io/selected-node"
	classAnnotation = corev1.BetaStorageClassAnnotation
	noProvisioner   = "kubernetes.io/no-provisioner"
)

// uncountedPlugins are migrated in-tree plugins that the scheduler does not
// count.
var uncountedPlugins = []string{
	"kubernetes.io/azure-file", "kubernetes.io/portworx-volume", "kubernetes.io/vsphere-volume",
}

// storage has the claims, by "namespace/name", volumes and classes of a cluster,
// and the drivers without which no pod is scheduled. nil = no claim is known.
type storage struct {
	claims    map[string]*corev1.PersistentVolumeClaim
	volumes   map[string]*corev1.PersistentVolume
	names     []string
	classes   map[string]*storagev1.StorageClass
	migration *migration
	required  map[string]bool
}

// diskRow returns the row of an inline disk: nothing but an attachment.
func (s *storage) diskRow(one disk, d *dictionary) *pb.Volume {
	row := &pb.Volume{Id: one.driver + "^" + one.handle}
	row.Driver = d.string(one.driver)
	row.Handle = d.string(one.handle)
	row.RequiredDriver = d.string(s.driverRequirement(one.driver, pluginOfDriver(one.driver)))
	return row
}

// driverRequirement returns what a node must list for a volume: the driver, or
// the in-tree plugin that it replaces; "" for nothing.
func (s *storage) driverRequirement(driver, plugin string) string {
	if s == nil || !s.required[driver] {
		return ""
	}
	return cmp.Or(plugin, driver)
}

// claimRow returns the row of a claim as a pod mounts it. Binding is resolved in
// the order in which the scheduler's plugins would stop.
func (s *storage) claimRow(mount mountedClaim, pod *corev1.Pod, d *dictionary) (*pb.Volume, error) {
	key := namespaceOf(pod) + "/" + mount.name
	claim := s.claims[key]
	if claim == nil {
		waiting := ""
		if mount.ephemeral {
			waiting = "; it is made for the pod by a controller"
		}
		return missingVolume(key, "claim "+key+" does not exist"+waiting), nil
	}
	if mount.ephemeral && controllerUID(claim) != uidOf("Pod", pod) {
		return missingVolume(key+" (of another owner)", "claim "+key+" exists, but is not of this pod"), nil
	}
	if mount.ephemeral && pod.Spec.NodeName != "" && waits(s.classes[classOf(claim)]) {
		// A pod in its place has a claim of its own, for which a volume is made anew.
		return s.unboundRow(key, madeAnew(claim), d)
	}
	row, err := s.boundOrNot(key, mount, claim, d)
	if err != nil {
		return nil, err
	}
	if claim.Status.Phase == corev1.ClaimLost {
		row.State, row.Detail = pb.VolumeState_MISSING, "claim "+key+" has lost its volume"
	} else if claim.DeletionTimestamp != nil {
		row.State, row.Detail = pb.VolumeState_MISSING, "claim "+key+" is being deleted"
	}
	row.ReadWriteOncePod = !mount.ephemeral && slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod)
	return row, nil
}

func (s *storage) boundOrNot(
	key string, mount mountedClaim, claim *corev1.PersistentVolumeClaim, d *dictionary,
) (*pb.Volume, error) {
	if claim.Spec.VolumeName != "" {
		return s.boundRow(key, mount, claim, d)
	}
	return s.unboundRow(key, claim, d)
}

func missingVolume(id, detail string) *pb.Volume {
	return &pb.Volume{Id: id, State: pb.VolumeState_MISSING, Detail: detail}
}

func controllerUID(object metav1.Object) string {
	if reference := metav1.GetControllerOfNoCopy(object); reference != nil {
		return string(reference.UID)
	}
	return ""
}

// boundRow returns the row of a claim that names its volume.
func (s *storage) boundRow(
	key string, mount mountedClaim, claim *corev1.PersistentVolumeClaim, d *dictionary,
) (*pb.Volume, error) {
	name := claim.Spec.VolumeName
	volume := s.volumes[name]
	if volume == nil {
		row := missingVolume(key, "volume "+name+" of claim "+key+" does not exist")
		s.countByClass(row, claim, d)
		return row, nil
	}
	of := attachedDisk(volume)
	if of.driver == "" || of.handle == "" {
		of = disk{}
	}
	row := &pb.Volume{Id: key}
	row.Driver = d.string(of.driver)
	row.Handle = d.string(of.handle)
	row.RequiredDriver = d.string(s.driverRequirement(of.driver, pluginOf(&volume.Spec)))
	if _, ok := claim.Annotations[bindCompleted]; !ok {
		row.State = pb.VolumeState_UNBOUND_IMMEDIATE
		row.Detail = "claim " + key + " is not fully bound to volume " + name
		return row, nil
	}
	row.State = pb.VolumeState_BOUND
	where, err := s.boundTerms(volume)
	if err != nil {
		return nil, err
	}
	row.NodeAffinity = d.nodeSelector(where)
	if mount.ephemeral {
		return row, nil
	}
	for _, one := range zoneLabels(volume.Labels) {
		label := &pb.LabelPair{}
		label.Key = d.string(one.key)
		label.Value = d.string(one.value)
		row.ZoneLabels = append(row.ZoneLabels, label)
	}
	return row, nil
}

// unboundRow returns the row of a claim that names no volume.
func (s *storage) unboundRow(key string, claim *corev1.PersistentVolumeClaim, d *dictionary) (*pb.Volume, error) {
	name := classOf(claim)
	class := s.classes[name]
	if name != "" && class == nil {
		return missingVolume(key, "storage class "+name+" of claim "+key+" does not exist"), nil
	}
	row := &pb.Volume{Id: key}
	s.countByClass(row, claim, d)
	if !waits(class) {
		row.State, row.Detail = pb.VolumeState_UNBOUND_IMMEDIATE, "claim "+key+" is not bound yet"
		return row, nil
	}
	row.State = pb.VolumeState_WAIT_FOR_FIRST_CONSUMER
	where, err := s.waitingTerms(claim, class)
	if err != nil || where == nil {
		return row, err
	}
	row.NodeAffinity = d.nodeSelector(where)
	if len(where.alternatives) == 0 {
		row.Detail = "no volume of class " + name + " is available for claim " + key + ", and none can be made"
	}
	return row, nil
}

func waits(class *storagev1.StorageClass) bool {
	return class != nil && ptr.Deref(class.VolumeBindingMode, "") == storagev1.VolumeBindingWaitForFirstConsumer
}

// madeAnew returns a claim as it is made for the pod in another one's place.
func madeAnew(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	out := claim.DeepCopy()
	delete(out.Annotations, selectedNode)
	out.UID, out.DeletionTimestamp, out.Spec.VolumeName = "new", nil, ""
	return out
}

func classOf(claim *corev1.PersistentVolumeClaim) string {
	if annotated, ok := claim.Annotations[classAnnotation]; ok {
		return annotated
	}
	return ptr.Deref(claim.Spec.StorageClassName, "")
}

// countByClass counts a claim without a volume against the driver that its class
// would provision with.
func (s *storage) countByClass(row *pb.Volume, claim *corev1.PersistentVolumeClaim, d *dictionary) {
	provisioner := ""
	if class := s.classes[classOf(claim)]; class != nil {
		provisioner = class.Provisioner
	}
	if slices.Contains(uncountedPlugins, provisioner) {
		return
	}
	driver := cmp.Or(driverOf[provisioner], provisioner)
	row.Driver = d.string(driver)
	row.RequiredDriver = d.string(s.driverRequirement(driver, provisioner))
}

// attachedDisk returns the driver and handle that count against attach limits.
func attachedDisk(volume *corev1.PersistentVolume) disk {
	spec := &volume.Spec
	switch {
	case spec.CSI != nil:
		return disk{spec.CSI.Driver, spec.CSI.VolumeHandle}
	case spec.AWSElasticBlockStore != nil:
		return disk{driverOf[pluginEBS], ebsHandle(spec.AWSElasticBlockStore.VolumeID)}
	case spec.GCEPersistentDisk != nil:
		zone := cmp.Or(volume.Labels[zoneLabel], volume.Labels[oldZoneLabel])
		return disk{driverOf[pluginGCE], gceHandle(spec.GCEPersistentDisk.PDName, zone)}
	case spec.AzureDisk != nil:
		return disk{driverOf[pluginAzureDisk], spec.AzureDisk.DataDiskURI}
	case spec.Cinder != nil:
		return disk{driverOf[pluginCinder], spec.Cinder.VolumeID}
	}
	return disk{}
}

// boundTerms returns the node affinity of a bound volume, on each node in the
// form of the driver that mounts it there.
func (s *storage) boundTerms(volume *corev1.PersistentVolume) (*terms, error) {
	own, err := ownTerms(volume)
	if err != nil {
		return nil, err
	}
	plugin := pluginOf(&volume.Spec)
	if plugin == "" {
		return reachable(own), nil
	}
	translated := translatedTerms(plugin, own, volume)
	return s.migration.terms(plugin, reachable(own), reachable(translated)), nil
}

func ownTerms(volume *corev1.PersistentVolume) (*terms, error) {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return nil, nil
	}
	out, err := nodeSelectorTerms(volume.Spec.NodeAffinity.Required)
	if err != nil {
		return nil, below(fmt.Sprintf("PersistentVolume %s.spec.nodeAffinity.required", volume.Name), err)
	}
	return out, nil
}

// reachable returns terms as the scheduler checks those of volumes: only against
// labels; requirements on fields hold.
func reachable(from *terms) *terms {
	if from == nil {
		return nil
	}
	out := &terms{}
	for _, one := range from.alternatives {
		if len(one.labels) > 0 {
			out.alternatives = append(out.alternatives, term{labels: one.labels})
		} else if len(one.fields) > 0 {
			return nil
		}
	}
	return out
}

// zoneLabels returns zone and region labels, their "__"-separated values
// trimmed; a set with an empty member is ignored.
func zoneLabels(labels map[string]string) []pair {
	var out []pair
	for _, label := range []string{oldZoneLabel, oldRegionLabel, zoneLabel, regionLabel} {
		zones := strings.Split(labels[label], severalZones)
		for i := range zones {
			zones[i] = strings.TrimSpace(zones[i])
		}
		if !slices.Contains(zones, "") {
			out = append(out, pair{label, strings.Join(sortedUnique(zones), severalZones)})
		}
	}
	return out
}

// waitingTerms returns where a waiting claim can be bound: at the selected node,
// or with available volumes, or where volumes can be made.
func (s *storage) waitingTerms(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) (*terms, error) {
	made, err := topologyTerms(class.AllowedTopologies)
	if err != nil {
		return nil, below("StorageClass "+classOf(claim)+".allowedTopologies", err)
	}
	if class.Provisioner == "" || class.Provisioner == noProvisioner {
		made = &terms{}
	}
	if node, ok := claim.Annotations[selectedNode]; ok {
		return atNode(node, made), nil
	}
	out := &terms{}
	for _, name := range s.names {
		is, err := isAvailable(s.volumes[name], claim)
		if err != nil {
			return nil, err
		}
		if !is {
			continue
		}
		own, err := ownTerms(s.volumes[name])
		if err != nil {
			return nil, err
		}
		place := reachable(own)
		if place == nil {
			return nil, nil
		}
		out.alternatives = append(out.alternatives, place.alternatives...)
	}
	if made == nil {
		return nil, nil
	}
	out.alternatives = append(out.alternatives, made.alternatives...)
	return out, nil
}

func atNode(name string, made *terms) *terms {
	here := []requirement{{nodeNameField, opIn, []string{name}}}
	if made == nil {
		return &terms{[]term{{fields: here}}}
	}
	out := &terms{}
	for _, one := range made.alternatives {
		if len(one.labels) > 0 {
			out.alternatives = append(out.alternatives, term{one.labels, here})
		}
	}
	return out
}

// isAvailable says whether the scheduler could bind a claim to a volume, if the
// node can reach it.
func isAvailable(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (bool, error) {
	mine := volume.Spec.ClaimRef != nil && isKeptFor(volume.Spec.ClaimRef, claim)
	if volume.Spec.ClaimRef != nil && !mine {
		return false, nil
	}
	has, wants := volume.Spec.Capacity[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if volume.DeletionTimestamp != nil || has.Cmp(wants) < 0 {
		return false, nil
	}
	if modeOf(volume.Spec.VolumeMode) != modeOf(claim.Spec.VolumeMode) {
		return false, nil
	}
	if ptr.Deref(volume.Spec.VolumeAttributesClassName, "") != ptr.Deref(claim.Spec.VolumeAttributesClassName, "") {
		return false, nil
	}
	if mine {
		return true, nil
	}
	return isFree(volume, claim)
}

func modeOf(mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	return cmp.Or(ptr.Deref(mode, ""), corev1.PersistentVolumeFilesystem)
}

func isFree(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (bool, error) {
	if volume.Status.Phase != corev1.VolumeAvailable {
		return false, nil
	}
	if claim.Spec.Selector != nil {
		wanted, err := labelSelector(claim.Spec.Selector)
		if err != nil {
			return false, below("PersistentVolumeClaim "+claim.Name+".spec.selector", err)
		}
		if !wanted.matches(volume.Labels) {
			return false, nil
		}
	}
	class, ok := volume.Annotations[classAnnotation]
	if !ok {
		class = volume.Spec.StorageClassName
	}
	if class != classOf(claim) {
		return false, nil
	}
	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains(volume.Spec.AccessModes, mode) {
			return false, nil
		}
	}
	return true, nil
}

func isKeptFor(reference *corev1.ObjectReference, claim *corev1.PersistentVolumeClaim) bool {
	if reference.Namespace != namespaceOf(claim) || reference.Name != claim.Name {
		return false
	}
	return reference.UID == "" || reference.UID == claim.UID
}
