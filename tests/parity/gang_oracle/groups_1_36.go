//go:build !kubernetes_1_37

package main

import (
	scheduling "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/scheduler"
)

var gates = map[string]bool{"GenericWorkload": true, "GangScheduling": true, "SchedulerAsyncAPICalls": false}

func podGroup(name string, unit Unit) runtime.Object {
	group := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	if unit.Basic {
		group.Spec.SchedulingPolicy.Basic = &scheduling.BasicSchedulingPolicy{}
	} else {
		group.Spec.SchedulingPolicy.Gang = &scheduling.GangSchedulingPolicy{MinCount: int32(unit.Min)}
	}
	group.Spec.Priority = unit.groupPriority()
	return group
}

func informerFactory(client kubernetes.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0)
}
