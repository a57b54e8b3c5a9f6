package main

import (
	"context"
	"fmt"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// store answers reads from memory, as the cache of a running Karpenter does: by name, and pods by the index of
// their nodes. Objects are copied on reading unless the caller declines it, as there. It takes no writes: Karpenter
// only decides here, and the loop carries its commands out.
type store struct {
	client.Client
	nodes   map[string]*corev1.Node
	claims  map[string]*v1.NodeClaim
	pools   []*v1.NodePool
	pods    map[string]*corev1.Pod
	byNode  map[string]map[string]*corev1.Pod
	pdbs    []*policyv1.PodDisruptionBudget
	daemons []*appsv1.DaemonSet
}

func newStore(pools ...*v1.NodePool) *store {
	return &store{
		nodes: map[string]*corev1.Node{}, claims: map[string]*v1.NodeClaim{}, pools: pools,
		pods: map[string]*corev1.Pod{}, byNode: map[string]map[string]*corev1.Pod{},
	}
}

func (s *store) place(pod *corev1.Pod, node string) {
	key := pod.Namespace + "/" + pod.Name
	delete(s.byNode[pod.Spec.NodeName], key)
	pod.Spec.NodeName = node
	if s.byNode[node] == nil {
		s.byNode[node] = map[string]*corev1.Pod{}
	}
	s.byNode[node][key] = pod
	s.pods[key] = pod
}

func (s *store) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch object := into.(type) {
	case *corev1.Node:
		if found, known := s.nodes[key.Name]; known {
			found.DeepCopyInto(object)
			return nil
		}
	case *v1.NodeClaim:
		if found, known := s.claims[key.Name]; known {
			found.DeepCopyInto(object)
			return nil
		}
	case *v1.NodePool:
		for _, one := range s.pools {
			if key.Name == one.Name {
				one.DeepCopyInto(object)
				return nil
			}
		}
	case *corev1.Pod:
		if found, known := s.pods[key.String()]; known {
			found.DeepCopyInto(object)
			return nil
		}
	case *corev1.Namespace:
		object.Name = key.Name
		return nil
	}
	return errors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", into)}, key.Name)
}

func (s *store) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	asked := client.ListOptions{}
	asked.ApplyOptions(options)
	share := asked.UnsafeDisableDeepCopy != nil && *asked.UnsafeDisableDeepCopy
	switch list := into.(type) {
	case *corev1.PodList:
		list.Items = s.listPods(asked, share)
	case *corev1.NodeList:
		list.Items = items(s.nodes, share, func(one *corev1.Node) *corev1.Node { return one.DeepCopy() })
	case *v1.NodeClaimList:
		list.Items = items(s.claims, share, func(one *v1.NodeClaim) *v1.NodeClaim { return one.DeepCopy() })
	case *v1.NodePoolList:
		list.Items = nil
		for _, one := range s.pools {
			list.Items = append(list.Items, *one.DeepCopy())
		}
	case *policyv1.PodDisruptionBudgetList:
		list.Items = nil
		for _, one := range s.pdbs {
			list.Items = append(list.Items, *one.DeepCopy())
		}
	case *appsv1.DaemonSetList:
		list.Items = nil
		for _, one := range s.daemons {
			list.Items = append(list.Items, *one.DeepCopy())
		}
	case *corev1.NamespaceList:
		list.Items = []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "default"}}}
	default:
		return meta.SetList(into, nil)
	}
	return nil
}

func (s *store) listPods(asked client.ListOptions, share bool) []corev1.Pod {
	from := s.pods
	if asked.FieldSelector != nil {
		node, known := asked.FieldSelector.RequiresExactMatch("spec.nodeName")
		if !known {
			panic("pods are indexed by spec.nodeName alone: " + asked.FieldSelector.String())
		}
		from = s.byNode[node]
	}
	found := make([]corev1.Pod, 0, len(from))
	for _, pod := range from {
		if asked.Namespace != "" && asked.Namespace != pod.Namespace {
			continue
		}
		if asked.LabelSelector != nil && !asked.LabelSelector.Matches(labelsOf(pod)) {
			continue
		}
		if share {
			found = append(found, *pod)
		} else {
			found = append(found, *pod.DeepCopy())
		}
	}
	return found
}

func items[T any](from map[string]*T, share bool, copied func(*T) *T) []T {
	found := make([]T, 0, len(from))
	for _, one := range from {
		if !share {
			one = copied(one)
		}
		found = append(found, reflect.ValueOf(one).Elem().Interface().(T))
	}
	return found
}
