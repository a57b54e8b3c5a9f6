package main

import (
	scheduling "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

var gates = map[string]bool{"GenericWorkload": true, "GangScheduling": true, "SchedulerAsyncAPICalls": false}

func podGroup(name string, unit Unit) runtime.Object {
	group := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	group.Spec.SchedulingPolicy.Gang = &scheduling.GangSchedulingPolicy{MinCount: int32(unit.Min)}
	group.Spec.Priority = &unit.Priority
	return group
}
