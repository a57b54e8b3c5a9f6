package trimtab

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Objects are the objects of a cluster. Build reads them and changes none, so
// they may come from informers. A kind that the caller does not have may be
// empty; what that means is said where it is not obvious.
type Objects struct {
	Nodes      []*corev1.Node
	Pods       []*corev1.Pod
	NodeGroups []*NodeGroup
	// Each NodePool of Karpenter is a node group for each offering that it
	// allows; nodes that a NodeGroup names or selects stay in that one. nil
	// Offers means that only those are known which nodes and NodeClaims have now.
	NodePools  []*NodePool
	NodeClaims []*NodeClaim
	Offers     []MachineOffer
	// Without Namespaces, selectors of namespaces by label match none.
	Namespaces           []*corev1.Namespace
	PodDisruptionBudgets []*policyv1.PodDisruptionBudget
	PriorityClasses      []*schedulingv1.PriorityClass

	// Controllers of pods. A pod whose controller is missing here is not moved:
	// its controller counts as gone.
	ReplicaSets            []*appsv1.ReplicaSet
	StatefulSets           []*appsv1.StatefulSet
	ReplicationControllers []*corev1.ReplicationController
	Deployments            []*appsv1.Deployment
	Jobs                   []*batchv1.Job
	DaemonSets             []*appsv1.DaemonSet

	// Claims and volumes. nil PersistentVolumeClaims means that claims are not
	// known, and every claim counts as usable on every node; an empty slice means
	// that there are none.
	PersistentVolumeClaims []*corev1.PersistentVolumeClaim
	PersistentVolumes      []*corev1.PersistentVolume
	StorageClasses         []*storagev1.StorageClass
	CSINodes               []*storagev1.CSINode
	CSIDrivers             []*storagev1.CSIDriver
	// Attachments of volumes that no pod on the node mounts take room of its
	// attach limits, as for the scheduler.
	VolumeAttachments []*storagev1.VolumeAttachment

	// Devices that drivers publish, and claims of them. nil ResourceClaims and
	// ResourceClaimTemplates mean that claims are not known; no node fits a pod
	// with a claim or template that is not given.
	DeviceClasses          []*resourcev1.DeviceClass
	ResourceSlices         []*resourcev1.ResourceSlice
	DeviceTaintRules       []*resourcev1beta2.DeviceTaintRule
	ResourceClaimTemplates []*resourcev1.ResourceClaimTemplate
	ResourceClaims         []*resourcev1.ResourceClaim

	// Groups of pods that are scheduled together. Pods name their group
	// themselves; a pod that names a PodGroup which is not given waits.
	PodGroups        []*PodGroup
	Workloads        []*Workload
	VolcanoPodGroups []*VolcanoPodGroup

	// Requests for room, with their PodTemplates below.
	ProvisioningRequests []*ProvisioningRequest

	// What asks for slack, besides the annotation `trimtab.dev/slack`.
	CapacityBuffers []*CapacityBuffer
	PodTemplates    []*corev1.PodTemplate

	// NumberAnnotations are keys of annotations of pods that hold numbers, as
	// settings of pod deletion costs name them.
	NumberAnnotations []string
}

// sortedObjects returns objects sorted by namespace and name.
func sortedObjects[T metav1.Object](from []T) []T {
	compare := func(a, b T) int {
		return cmp.Or(cmp.Compare(namespaceOf(a), namespaceOf(b)), cmp.Compare(a.GetName(), b.GetName()))
	}
	if slices.IsSortedFunc(from, compare) {
		return from
	}
	out := slices.Clone(from)
	slices.SortStableFunc(out, compare)
	return out
}

// byKey returns objects by "namespace/name".
func byKey[T metav1.Object](from []T) map[string]T {
	out := make(map[string]T, len(from))
	for _, one := range from {
		out[keyOf(one)] = one
	}
	return out
}

// checkAndSort puts a sorted copy in the place of objects of a kind. Names are
// checked as the API server does; two of the same name are an error.
func checkAndSort[T metav1.Object](kind string, isNamespaced bool, objects *[]T) error {
	sorted := sortedObjects(*objects)
	*objects = sorted
	for i, one := range sorted {
		name := cmp.Or(one.GetName(), "(without name)")
		if isNamespaced {
			name = namespaceOf(one) + "/" + name
		}
		if err := nameError(kind, isNamespaced, one); err != nil {
			return ofObject(kind, name, err)
		}
		if i > 0 && sorted[i-1].GetName() == one.GetName() &&
			(!isNamespaced || namespaceOf(sorted[i-1]) == namespaceOf(one)) {
			return ofObject(kind, name, badField("", "leave one of the two out", "it is given twice"))
		}
	}
	return nil
}

func nameError(kind string, isNamespaced bool, object metav1.Object) error {
	const remedy = "use lower-case letters, digits, '-' and '.', a letter or digit first and last"
	name := object.GetName()
	if name == "" {
		return badField("metadata.name", "give every object a name", "it is missing")
	}
	if kind != "NodeGroup" && len(validation.IsDNS1123Subdomain(name)) > 0 {
		return badField("metadata.name", remedy, "%.100q is not a name that Kubernetes allows", name)
	}
	if isNamespaced && len(validation.IsDNS1123Label(namespaceOf(object))) > 0 {
		return badField("metadata.namespace", remedy, "%.100q is not a name that Kubernetes allows", object.GetNamespace())
	}
	return nil
}
