// Package listers reads the objects of a snapshot from informers of client-go.
package listers

import (
	"cmp"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"

	"trimtab.dev/clients/go/trimtab"
)

// Listers are those of the kinds that snapshots are made of. nil = the kind is
// left out, which means what trimtab.Objects says.
type Listers struct {
	Nodes                  corelisters.NodeLister
	Pods                   corelisters.PodLister
	Namespaces             corelisters.NamespaceLister
	PodDisruptionBudgets   policylisters.PodDisruptionBudgetLister
	PriorityClasses        schedulinglisters.PriorityClassLister
	ReplicaSets            appslisters.ReplicaSetLister
	StatefulSets           appslisters.StatefulSetLister
	ReplicationControllers corelisters.ReplicationControllerLister
	Deployments            appslisters.DeploymentLister
	Jobs                   batchlisters.JobLister
	DaemonSets             appslisters.DaemonSetLister
	PersistentVolumeClaims corelisters.PersistentVolumeClaimLister
	PersistentVolumes      corelisters.PersistentVolumeLister
	StorageClasses         storagelisters.StorageClassLister
	CSINodes               storagelisters.CSINodeLister
	CSIDrivers             storagelisters.CSIDriverLister
	VolumeAttachments      storagelisters.VolumeAttachmentLister
	PodTemplates           corelisters.PodTemplateLister

	// Of devices; FromFactory leaves them out, WithDevices adds them.
	DeviceClasses          resourcelisters.DeviceClassLister
	ResourceSlices         resourcelisters.ResourceSliceLister
	ResourceClaimTemplates resourcelisters.ResourceClaimTemplateLister
	ResourceClaims         resourcelisters.ResourceClaimLister
}

// FromFactory returns the listers of a factory's informers. Call it before the
// factory starts, so that it starts them all, and wait for their first lists
// with WaitForCacheSync.
func FromFactory(factory informers.SharedInformerFactory) Listers {
	core, apps, storage := factory.Core().V1(), factory.Apps().V1(), factory.Storage().V1()
	return Listers{
		Nodes:                  core.Nodes().Lister(),
		Pods:                   core.Pods().Lister(),
		Namespaces:             core.Namespaces().Lister(),
		PodDisruptionBudgets:   factory.Policy().V1().PodDisruptionBudgets().Lister(),
		PriorityClasses:        factory.Scheduling().V1().PriorityClasses().Lister(),
		ReplicaSets:            apps.ReplicaSets().Lister(),
		StatefulSets:           apps.StatefulSets().Lister(),
		ReplicationControllers: core.ReplicationControllers().Lister(),
		Deployments:            apps.Deployments().Lister(),
		Jobs:                   factory.Batch().V1().Jobs().Lister(),
		DaemonSets:             apps.DaemonSets().Lister(),
		PersistentVolumeClaims: core.PersistentVolumeClaims().Lister(),
		PersistentVolumes:      core.PersistentVolumes().Lister(),
		StorageClasses:         storage.StorageClasses().Lister(),
		CSINodes:               storage.CSINodes().Lister(),
		CSIDrivers:             storage.CSIDrivers().Lister(),
		VolumeAttachments:      storage.VolumeAttachments().Lister(),
		PodTemplates:           core.PodTemplates().Lister(),
	}
}

// WithDevices adds the listers of devices and claims, for clusters that serve
// `resource.k8s.io/v1`: elsewhere informers of it would never be in sync. Rules
// that taint devices, which are of another version, are for the caller to add.
func (l Listers) WithDevices(factory informers.SharedInformerFactory) Listers {
	resources := factory.Resource().V1()
	l.DeviceClasses, l.ResourceSlices = resources.DeviceClasses().Lister(), resources.ResourceSlices().Lister()
	l.ResourceClaimTemplates, l.ResourceClaims = resources.ResourceClaimTemplates().Lister(), resources.ResourceClaims().Lister()
	return l
}

// Objects returns the objects as the listers have them now. They are shared with
// the informers: do not change them. Node groups are for the caller to add.
func (l Listers) Objects() (trimtab.Objects, error) {
	var out trimtab.Objects
	err := cmp.Or(
		list(l.Nodes, &out.Nodes), list(l.Pods, &out.Pods), list(l.Namespaces, &out.Namespaces),
		list(l.PodDisruptionBudgets, &out.PodDisruptionBudgets), list(l.PriorityClasses, &out.PriorityClasses),
		list(l.ReplicaSets, &out.ReplicaSets), list(l.StatefulSets, &out.StatefulSets),
		list(l.ReplicationControllers, &out.ReplicationControllers), list(l.Deployments, &out.Deployments),
		list(l.Jobs, &out.Jobs), list(l.DaemonSets, &out.DaemonSets),
		list(l.PersistentVolumeClaims, &out.PersistentVolumeClaims), list(l.PersistentVolumes, &out.PersistentVolumes),
		list(l.StorageClasses, &out.StorageClasses), list(l.CSINodes, &out.CSINodes),
		list(l.CSIDrivers, &out.CSIDrivers), list(l.VolumeAttachments, &out.VolumeAttachments),
		list(l.PodTemplates, &out.PodTemplates),
		list(l.DeviceClasses, &out.DeviceClasses), list(l.ResourceSlices, &out.ResourceSlices),
		list(l.ResourceClaimTemplates, &out.ResourceClaimTemplates), list(l.ResourceClaims, &out.ResourceClaims),
	)
	return out, err
}

// lister is what all listers have in common.
type lister[T any] interface {
	comparable
	List(labels.Selector) ([]T, error)
}

// list puts what a lister has into a slice, which is not nil then.
func list[T any, L lister[T]](from L, into *[]T) error {
	var none L
	if from == none {
		return nil
	}
	found, err := from.List(labels.Everything())
	*into = append([]T{}, found...)
	return err
}
