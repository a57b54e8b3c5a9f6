// Package listers reads the objects of a cluster from informers of client-go.
package listers

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"trimtab.dev/clients/go/trimtab"
)

// usual are the kinds that every cluster serves, devices those of clusters that serve resource.k8s.io/v1.
var (
	usual = map[schema.GroupVersion][]string{
		{Version: "v1"}: {
			"Node", "Pod", "Namespace", "ReplicationController", "PersistentVolumeClaim", "PersistentVolume", "PodTemplate",
		},
		{Group: "apps", Version: "v1"}:              {"ReplicaSet", "StatefulSet", "Deployment", "DaemonSet"},
		{Group: "batch", Version: "v1"}:             {"Job"},
		{Group: "policy", Version: "v1"}:            {"PodDisruptionBudget"},
		{Group: "scheduling.k8s.io", Version: "v1"}: {"PriorityClass"},
		{Group: "storage.k8s.io", Version: "v1"}:    {"StorageClass", "CSINode", "CSIDriver", "VolumeAttachment"},
	}
	devices = map[schema.GroupVersion][]string{
		{Group: "resource.k8s.io", Version: "v1"}: {"DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate"},
	}
)

// Listers are those of a factory's informers, by kind.
type Listers map[schema.GroupVersionKind]cache.GenericLister

// FromFactory returns the listers of the kinds that every cluster serves. Call it before the factory starts, so that it
// starts them all, and wait for their first lists with WaitForCacheSync.
func FromFactory(factory informers.SharedInformerFactory) (Listers, error) {
	return Listers{}.with(factory, usual)
}

// WithDevices adds those of devices and claims, for clusters that serve `resource.k8s.io/v1`: elsewhere informers of it
// would never be in sync.
func (l Listers) WithDevices(factory informers.SharedInformerFactory) (Listers, error) {
	return l.with(factory, devices)
}

func (l Listers) with(factory informers.SharedInformerFactory, kinds map[schema.GroupVersion][]string) (Listers, error) {
	for version, names := range kinds {
		for _, kind := range names {
			resource, _ := meta.UnsafeGuessKindToResource(version.WithKind(kind))
			informer, err := factory.ForResource(resource)
			if err != nil {
				return nil, err
			}
			informer.Informer()
			l[version.WithKind(kind)] = informer.Lister()
		}
	}
	return l, nil
}

// Cluster returns the objects as the listers have them now. They are shared with the informers: do not change them. Node
// groups, and kinds of custom resources, are for the caller to add.
func (l Listers) Cluster() (*trimtab.Cluster, error) {
	found := &trimtab.Cluster{}
	for kind, lister := range l {
		objects, err := lister.List(labels.Everything())
		if err != nil {
			return nil, err
		}
		for _, one := range objects {
			if object, is := one.(trimtab.Object); is {
				found.Objects = append(found.Objects, object)
			}
		}
		found.Listed = append(found.Listed, kind)
	}
	return found, nil
}
