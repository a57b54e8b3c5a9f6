package trimtab

import (
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const safeToEvictLocalVolumes = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"

// mountedClaim is a claim that a pod mounts; an ephemeral one was made for it.
type mountedClaim struct {
	name      string
	ephemeral bool
}

// disk is a disk of an in-tree type, with its CSI driver.
type disk struct {
	driver, handle string
}

// mounts are the effects of a pod's volumes on scheduling and draining.
type mounts struct {
	localStorage   bool
	exclusiveDisks []string
	readOnlyDisks  []string
	claims         []mountedClaim
	disks          []disk
}

// mountsOf returns the effects of the volumes of a pod. Config maps, secrets and
// projected volumes have none.
func mountsOf(pod *corev1.Pod) mounts {
	var out mounts
	var exclusive, readOnly []string
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.PersistentVolumeClaim != nil {
			out.claims = append(out.claims, mountedClaim{volume.PersistentVolumeClaim.ClaimName, false})
		} else if volume.Ephemeral != nil {
			out.claims = append(out.claims, mountedClaim{pod.Name + "-" + volume.Name, true})
		} else if one := inlineDisk(volume); one.handle != "" {
			out.disks = append(out.disks, one)
		}
		names, isReadOnly := restrictedDisks(volume)
		if isReadOnly {
			readOnly = append(readOnly, names...)
		} else {
			exclusive = append(exclusive, names...)
		}
		out.localStorage = out.localStorage || isLocal(volume) && !isExcused(pod, volume.Name)
	}
	out.exclusiveDisks = sortedUnique(exclusive)
	for _, name := range sortedUnique(readOnly) {
		if !slices.Contains(out.exclusiveDisks, name) {
			out.readOnlyDisks = append(out.readOnlyDisks, name)
		}
	}
	sort.Strings(out.readOnlyDisks)
	return out
}

func isExcused(pod *corev1.Pod, volume string) bool {
	return slices.Contains(strings.Split(pod.Annotations[safeToEvictLocalVolumes], ","), volume)
}

func isLocal(volume *corev1.Volume) bool {
	return volume.HostPath != nil || (volume.EmptyDir != nil && volume.EmptyDir.Medium != corev1.StorageMediumMemory)
}

// restrictedDisks returns names that no other pod on the node may mount, and
// whether read-only mounts are compatible.
func restrictedDisks(volume *corev1.Volume) ([]string, bool) {
	switch {
	case volume.GCEPersistentDisk != nil:
		return []string{"gce-pd/" + volume.GCEPersistentDisk.PDName}, volume.GCEPersistentDisk.ReadOnly
	case volume.AWSElasticBlockStore != nil:
		return []string{"aws-ebs/" + volume.AWSElasticBlockStore.VolumeID}, false
	case volume.ISCSI != nil:
		return []string{"iscsi/" + volume.ISCSI.IQN}, volume.ISCSI.ReadOnly
	case volume.RBD != nil:
		pool := volume.RBD.RBDPool
		if pool == "" {
			pool = "rbd"
		}
		var names []string
		for _, monitor := range volume.RBD.CephMonitors {
			names = append(names, "rbd/"+monitor+"/"+pool+"/"+volume.RBD.RBDImage)
		}
		return names, volume.RBD.ReadOnly
	}
	return nil, false
}

// inlineDisk returns an inline in-tree disk as the CSI volume that it is
// migrated to.
func inlineDisk(volume *corev1.Volume) disk {
	switch {
	case volume.AWSElasticBlockStore != nil:
		return disk{driverOf[pluginEBS], ebsHandle(volume.AWSElasticBlockStore.VolumeID)}
	case volume.GCEPersistentDisk != nil:
		return disk{driverOf[pluginGCE], gceHandle(volume.GCEPersistentDisk.PDName, "")}
	case volume.AzureDisk != nil:
		return disk{driverOf[pluginAzureDisk], volume.AzureDisk.DataDiskURI}
	case volume.Cinder != nil:
		return disk{driverOf[pluginCinder], volume.Cinder.VolumeID}
	}
	return disk{}
}

// ebsHandle returns the handle of an Amazon disk: "aws://zone/vol-1" and
// "vol-1" are the same.
func ebsHandle(volumeID string) string {
	if !strings.HasPrefix(volumeID, "aws://") {
		return volumeID
	}
	trimmed := strings.TrimRight(volumeID, "/")
	return trimmed[strings.LastIndex(trimmed, "/")+1:]
}

// gceHandle returns the handle of a Google disk in a zone; "" = zone unknown.
func gceHandle(name, zone string) string {
	if zone == "" {
		zone = "UNSPECIFIED"
	}
	return "projects/UNSPECIFIED/zones/" + zone + "/disks/" + name
}
