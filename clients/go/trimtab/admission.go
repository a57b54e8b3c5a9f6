package trimtab

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// daemonTolerations are those that the DaemonSet controller adds.
var daemonTolerations = []corev1.Toleration{
	{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: "node.kubernetes.io/disk-pressure", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: "node.kubernetes.io/memory-pressure", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: "node.kubernetes.io/pid-pressure", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: "node.kubernetes.io/unschedulable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
}

var networkToleration = corev1.Toleration{
	Key: "node.kubernetes.io/network-unavailable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
}

// daemonPod returns the pod that a DaemonSet makes for any node, pinned to none.
func daemonPod(template *corev1.PodTemplateSpec, namespace, name string) *corev1.Pod {
	pod := podOfTemplate(template, namespace, name)
	added := append([]corev1.Toleration{}, pod.Spec.Tolerations...)
	added = append(added, daemonTolerations...)
	if pod.Spec.HostNetwork {
		added = append(added, networkToleration)
	}
	pod.Spec.Tolerations = added
	return pod
}

// podOfTemplate returns the pending pod that the API server creates from a
// template: match label keys become requirements of the selectors beside them.
func podOfTemplate(template *corev1.PodTemplateSpec, namespace, name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = namespace, name
	pod.Status.Phase = corev1.PodPending
	for i := range pod.Spec.TopologySpreadConstraints {
		one := &pod.Spec.TopologySpreadConstraints[i]
		addKeys(one.LabelSelector, one.MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels)
	}
	affinity := pod.Spec.Affinity
	if affinity == nil {
		return pod
	}
	if near := affinity.PodAffinity; near != nil {
		for i := range near.RequiredDuringSchedulingIgnoredDuringExecution {
			admitTerm(&near.RequiredDuringSchedulingIgnoredDuringExecution[i], pod.Labels)
		}
	}
	if away := affinity.PodAntiAffinity; away != nil {
		for i := range away.RequiredDuringSchedulingIgnoredDuringExecution {
			admitTerm(&away.RequiredDuringSchedulingIgnoredDuringExecution[i], pod.Labels)
		}
		for i := range away.PreferredDuringSchedulingIgnoredDuringExecution {
			admitTerm(&away.PreferredDuringSchedulingIgnoredDuringExecution[i].PodAffinityTerm, pod.Labels)
		}
	}
	return pod
}

func admitTerm(term *corev1.PodAffinityTerm, labels map[string]string) {
	addKeys(term.LabelSelector, term.MatchLabelKeys, metav1.LabelSelectorOpIn, labels)
	addKeys(term.LabelSelector, term.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, labels)
}

// addKeys adds a requirement for each key that the pod has; a missing selector
// matches nothing and stays missing.
func addKeys(selector *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator, labels map[string]string) {
	if selector == nil {
		return
	}
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			selector.MatchExpressions = append(selector.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
		}
	}
}
