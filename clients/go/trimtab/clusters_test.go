package trimtab_test

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"trimtab.dev/clients/go/trimtab"
)

var created = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

func quantities(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}
}

func node(name string) *corev1.Node {
	amounts := quantities("4", "16Gi")
	amounts[corev1.ResourcePods] = resource.MustParse("110")
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: created, Labels: map[string]string{"kubernetes.io/hostname": name},
		},
		Status: corev1.NodeStatus{
			Allocatable: amounts, Capacity: amounts,
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: created},
			},
		},
	}
}

func pod(name, onNode string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: "uid-" + "x", CreationTimestamp: created,
			Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "uid-web", Controller: ptr.To(true)},
			},
		},
		Spec: corev1.PodSpec{
			NodeName:   onNode,
			Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: quantities("100m", "64Mi")}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// objects are those of a test's cluster, by kind.
type objects struct {
	nodes  []*corev1.Node
	pods   []*corev1.Pod
	group  *trimtab.NodeGroup
	owners []*appsv1.ReplicaSet
}

// now returns the cluster as it is now.
func (o *objects) now() *trimtab.Cluster {
	out := &trimtab.Cluster{}
	trimtab.Add(out, o.nodes...)
	trimtab.Add(out, o.pods...)
	trimtab.Add(out, o.group)
	trimtab.Add(out, o.owners...)
	return out
}

// cluster returns nodes with a few pods each, in one group.
func cluster(nodes, podsPerNode int) *objects {
	spec := trimtab.NodeGroupSpec{
		MaxSize: ptr.To(int32(nodes + 10)), Price: ptr.To(0.25), Template: &trimtab.NodeTemplate{Node: *node("template")},
	}
	out := &objects{owners: []*appsv1.ReplicaSet{{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "uid-web"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To(int32(nodes * podsPerNode)), Template: corev1.PodTemplateSpec{Spec: pod("", "").Spec},
		},
		Status: appsv1.ReplicaSetStatus{Replicas: int32(nodes * podsPerNode)},
	}}}
	for i := range nodes {
		name := fmt.Sprintf("n%04d", i)
		out.nodes = append(out.nodes, node(name))
		spec.Nodes = append(spec.Nodes, name)
		for j := range podsPerNode {
			one := pod(fmt.Sprintf("web-%04d-%02d", i, j), name)
			one.UID = "" // one is made of the name
			out.pods = append(out.pods, one)
		}
	}
	out.group = trimtab.NewNodeGroup("workers", spec)
	return out
}
