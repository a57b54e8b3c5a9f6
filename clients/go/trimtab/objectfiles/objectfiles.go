// Package objectfiles reads Kubernetes objects as `kubectl get -o json` prints
// them. Programs that watch a cluster have typed objects and do not need it.
package objectfiles

import (
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"

	"trimtab.dev/clients/go/trimtab"
)

// head is the beginning of an object or of a list.
type head struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Items      []json.RawMessage `json:"items"`
}

// Add reads an object, or a list of objects, into objects. Objects of kinds that
// snapshots are not made of are counted in the result by "apiVersion kind".
func Add(data []byte, objects *trimtab.Objects) (skipped map[string]int, err error) {
	skipped = map[string]int{}
	return skipped, add(data, objects, skipped)
}

func add(data []byte, objects *trimtab.Objects, skipped map[string]int) error {
	var one head
	if err := json.Unmarshal(data, &one); err != nil {
		return fmt.Errorf("not Kubernetes objects: %w", err)
	}
	if one.Kind == "" {
		return fmt.Errorf("not Kubernetes objects: an object has no `kind`")
	}
	if one.Kind == "List" {
		for _, item := range one.Items {
			if err := add(item, objects, skipped); err != nil {
				return err
			}
		}
		return nil
	}
	read, ok := readers[groupOf(one.APIVersion)+" "+one.Kind]
	if !ok {
		skipped[one.APIVersion+" "+one.Kind]++
		return nil
	}
	if err := read(data, objects); err != nil {
		return fmt.Errorf("%s: %w", one.Kind, err)
	}
	return nil
}

func groupOf(apiVersion string) string {
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return ""
	}
	return group
}

type reader func([]byte, *trimtab.Objects) error

var readers = map[string]reader{
	" Node":                  into(func(o *trimtab.Objects) *[]*corev1.Node { return &o.Nodes }),
	" Pod":                   into(func(o *trimtab.Objects) *[]*corev1.Pod { return &o.Pods }),
	" Namespace":             into(func(o *trimtab.Objects) *[]*corev1.Namespace { return &o.Namespaces }),
	" PodTemplate":           into(func(o *trimtab.Objects) *[]*corev1.PodTemplate { return &o.PodTemplates }),
	" PersistentVolume":      into(func(o *trimtab.Objects) *[]*corev1.PersistentVolume { return &o.PersistentVolumes }),
	" PersistentVolumeClaim": into(func(o *trimtab.Objects) *[]*corev1.PersistentVolumeClaim { return &o.PersistentVolumeClaims }),
	" ReplicationController": into(func(o *trimtab.Objects) *[]*corev1.ReplicationController { return &o.ReplicationControllers }),

	"apps ReplicaSet":  into(func(o *trimtab.Objects) *[]*appsv1.ReplicaSet { return &o.ReplicaSets }),
	"apps StatefulSet": into(func(o *trimtab.Objects) *[]*appsv1.StatefulSet { return &o.StatefulSets }),
	"apps Deployment":  into(func(o *trimtab.Objects) *[]*appsv1.Deployment { return &o.Deployments }),
	"apps DaemonSet":   into(func(o *trimtab.Objects) *[]*appsv1.DaemonSet { return &o.DaemonSets }),
	"batch Job":        into(func(o *trimtab.Objects) *[]*batchv1.Job { return &o.Jobs }),

	"policy PodDisruptionBudget": into(func(o *trimtab.Objects) *[]*policyv1.PodDisruptionBudget {
		return &o.PodDisruptionBudgets
	}),
	"scheduling.k8s.io PriorityClass": into(func(o *trimtab.Objects) *[]*schedulingv1.PriorityClass { return &o.PriorityClasses }),
	"storage.k8s.io StorageClass":     into(func(o *trimtab.Objects) *[]*storagev1.StorageClass { return &o.StorageClasses }),
	"storage.k8s.io CSINode":          into(func(o *trimtab.Objects) *[]*storagev1.CSINode { return &o.CSINodes }),
	"storage.k8s.io CSIDriver":        into(func(o *trimtab.Objects) *[]*storagev1.CSIDriver { return &o.CSIDrivers }),
	"storage.k8s.io VolumeAttachment": into(func(o *trimtab.Objects) *[]*storagev1.VolumeAttachment { return &o.VolumeAttachments }),

	"resource.k8s.io DeviceClass":     into(func(o *trimtab.Objects) *[]*resourcev1.DeviceClass { return &o.DeviceClasses }),
	"resource.k8s.io ResourceSlice":   into(func(o *trimtab.Objects) *[]*resourcev1.ResourceSlice { return &o.ResourceSlices }),
	"resource.k8s.io ResourceClaim":   into(func(o *trimtab.Objects) *[]*resourcev1.ResourceClaim { return &o.ResourceClaims }),
	"resource.k8s.io DeviceTaintRule": into(func(o *trimtab.Objects) *[]*resourcev1beta2.DeviceTaintRule { return &o.DeviceTaintRules }),
	"resource.k8s.io ResourceClaimTemplate": into(func(o *trimtab.Objects) *[]*resourcev1.ResourceClaimTemplate {
		return &o.ResourceClaimTemplates
	}),

	"autoscaling.x-k8s.io CapacityBuffer": into(func(o *trimtab.Objects) *[]*trimtab.CapacityBuffer { return &o.CapacityBuffers }),
	"autoscaling.x-k8s.io ProvisioningRequest": into(func(o *trimtab.Objects) *[]*trimtab.ProvisioningRequest {
		return &o.ProvisioningRequests
	}),
	"scheduling.k8s.io PodGroup":     into(func(o *trimtab.Objects) *[]*trimtab.PodGroup { return &o.PodGroups }),
	"scheduling.k8s.io Workload":     into(func(o *trimtab.Objects) *[]*trimtab.Workload { return &o.Workloads }),
	"scheduling.volcano.sh PodGroup": into(func(o *trimtab.Objects) *[]*trimtab.VolcanoPodGroup { return &o.VolcanoPodGroups }),
	"karpenter.sh NodePool":          into(func(o *trimtab.Objects) *[]*trimtab.NodePool { return &o.NodePools }),
	"karpenter.sh NodeClaim":         into(func(o *trimtab.Objects) *[]*trimtab.NodeClaim { return &o.NodeClaims }),
	"trimtab.dev NodeGroup":          into(func(o *trimtab.Objects) *[]*trimtab.NodeGroup { return &o.NodeGroups }),
}

// into returns a reader of objects of one kind.
func into[T any](list func(*trimtab.Objects) *[]*T) reader {
	return func(data []byte, objects *trimtab.Objects) error {
		one := new(T)
		if err := json.Unmarshal(data, one); err != nil {
			return err
		}
		*list(objects) = append(*list(objects), one)
		return nil
	}
}
