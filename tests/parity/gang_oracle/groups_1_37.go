//go:build kubernetes_1_37

package main

import (
	scheduling "k8s.io/api/scheduling/v1beta1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/scheduler"
)

var gates = map[string]bool{"GenericWorkload": true, "SchedulerAsyncAPICalls": false}

// Pod groups in the version of the API that this scheduler reads.
type (
	podGroupObject = scheduling.PodGroup
	basicPolicy    = scheduling.BasicSchedulingPolicy
	gangPolicy     = scheduling.GangSchedulingPolicy
)

func informerFactory(client kubernetes.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0, nil)
}
