package trimtab

import corev1 "k8s.io/api/core/v1"

// unmountedAttachments returns how many volumes of each driver are attached to
// each node that no pod on it mounts. They count as for the scheduler, also those
// that are being removed: of a volume that exists and is of a CSI driver, each
// volume once. Pods that have ended mount nothing.
func unmountedAttachments(objects *Objects) map[string]map[string]int32 {
	if len(objects.VolumeAttachments) == 0 {
		return nil
	}
	volumes := map[string]*corev1.PersistentVolume{}
	for _, one := range objects.PersistentVolumes {
		volumes[one.Name] = one
	}
	attached := map[string]map[disk]bool{}
	for _, one := range objects.VolumeAttachments {
		node, name := one.Spec.NodeName, one.Spec.Source.PersistentVolumeName
		if node == "" || one.Spec.Attacher == "" || name == nil {
			continue
		}
		if volume := volumes[*name]; volume != nil && volume.Spec.CSI != nil {
			if attached[node] == nil {
				attached[node] = map[disk]bool{}
			}
			attached[node][disk{one.Spec.Attacher, volume.Spec.CSI.VolumeHandle}] = true
		}
	}
	claims := byKey(objects.PersistentVolumeClaims)
	for _, pod := range objects.Pods {
		on := attached[pod.Spec.NodeName]
		if len(on) == 0 || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		own := mountsOf(pod)
		for _, one := range own.disks {
			delete(on, one)
		}
		for _, mount := range own.claims {
			if claim := claims[namespaceOf(pod)+"/"+mount.name]; claim != nil {
				if volume := volumes[claim.Spec.VolumeName]; volume != nil {
					delete(on, attachedDisk(volume))
				}
			}
		}
	}
	out := map[string]map[string]int32{}
	for node, disks := range attached {
		out[node] = map[string]int32{}
		for one := range disks {
			out[node][one.driver]++
		}
	}
	return out
}
