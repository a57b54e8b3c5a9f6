package trimtab_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"trimtab.dev/clients/go/trimtab"
)

// specChanges are changes of a pod that scheduling or draining can tell.
var specChanges = map[string]func(*corev1.Pod){
	"requests": func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = quantities("200m", "64Mi") },
	"limits": func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = quantities("1", "1Gi")
		delete(p.Spec.Containers[0].Resources.Requests, "cpu")
	},
	"init container": func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: corev1.ResourceRequirements{Requests: quantities("3", "1Gi")}}}
	},
	"pod resources": func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Requests: quantities("2", "2Gi")} },
	"overhead":      func(p *corev1.Pod) { p.Spec.Overhead = quantities("10m", "1Mi") },
	"host port":     func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} },
	"node selector": func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} },
	"toleration":    func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: "Exists"}} },
	"affinity": func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone"}},
		}}
	},
	"spread": func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule},
		}
	},
	"priority":       func(p *corev1.Pod) { p.Spec.Priority = ptr.To(int32(7)) },
	"priority class": func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" },
	"scheduler":      func(p *corev1.Pod) { p.Spec.SchedulerName = "other" },
	"restart policy": func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever },
	"grace":          func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(5)) },
	"claim": func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("c")}}
	},
	"host users": func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.HostUsers = true, ptr.To(false) },
	"restart rules": func(p *corev1.Pod) {
		p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: "RestartAllContainers"}}
	},
	"local storage": func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	},
	"exclusive disk": func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{IQN: "i"}}}}
	},
	"read-only disk": func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{IQN: "i", ReadOnly: true}}}}
	},
	"allocated resources": func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Resources: &corev1.ResourceRequirements{Requests: quantities("2", "1Gi")}}}
	},
	"safe to evict":   annotate("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
	"daemon eviction": annotate("cluster-autoscaler.kubernetes.io/enable-ds-eviction", "true"),
	"scale-up delay":  annotate("cluster-autoscaler.kubernetes.io/pod-scale-up-delay", "10s"),
	"spread timeout":  annotate("zalando.org/topology-spread-timeout", "10s"),
	"slack":           annotate("trimtab.dev/slack-ignore", "true"),
	"request":         annotate("autoscaling.x-k8s.io/consume-provisioning-request", "r"),
}

func annotate(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
}

func TestPodsThatSchedulingCanTellApartHaveDifferentSpecs(t *testing.T) {
	for name, change := range specChanges {
		t.Run(name, func(t *testing.T) {
			first, second := pod("a", "n1"), pod("b", "n1")
			change(second)
			if specs := specsOf(t, first, second); specs[0] == specs[1] {
				t.Error("both have the same spec")
			}
		})
	}
}

func TestPodsThatDifferInTheRestShareASpec(t *testing.T) {
	first, second := pod("a", "n1"), pod("b", "n2")
	second.Labels, second.Spec.NodeName = nil, ""
	second.Spec.Containers[0].Image, second.Spec.Containers[0].Env = "i", []corev1.EnvVar{{Name: "A"}}
	second.Spec.ServiceAccountName, second.Spec.Hostname = "s", "h"
	second.Spec.Volumes = []corev1.Volume{{Name: "v"}}
	if specs := specsOf(t, first, second); specs[0] != specs[1] {
		t.Error("they have different specs")
	}
}

func specsOf(t *testing.T, pods ...*corev1.Pod) []uint32 {
	t.Helper()
	table := build(t, trimtab.Objects{Pods: pods}).Pods
	var out []uint32
	for i := range pods {
		out = append(out, binary.LittleEndian.Uint32(table.Spec[4*i:]))
	}
	return out
}

func TestAnObjectThatKubernetesWouldRefuseIsNamedWithItsField(t *testing.T) {
	for where, change := range map[string]func(*trimtab.Objects){
		"Pod default/web-0000-00: spec.containers:":            func(o *trimtab.Objects) { o.Pods[0].Spec.Containers = nil },
		"Pod default/web-0000-00: spec.tolerations[0].effect:": func(o *trimtab.Objects) { o.Pods[0].Spec.Tolerations = []corev1.Toleration{{Effect: "x"}} },
		"Pod default/web-0000-00: spec.restartPolicy:":         func(o *trimtab.Objects) { o.Pods[0].Spec.RestartPolicy = "x" },
		"Pod default/web-0000-00: spec.containers[0].resources.requests.cpu:": func(o *trimtab.Objects) {
			o.Pods[0].Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("-1")
		},
		"Pod default/web-0000-00: spec.containers[0].ports[0].protocol:": func(o *trimtab.Objects) {
			o.Pods[0].Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 1, Protocol: "x"}}
		},
		"Pod default/web-0000-01: it is given twice": func(o *trimtab.Objects) { o.Pods[0] = o.Pods[1] },
		"Pod default/A: metadata.name:":              func(o *trimtab.Objects) { o.Pods[0].Name = "A" },
		"Node n0000: spec.taints[0].key:":            func(o *trimtab.Objects) { o.Nodes[0].Spec.Taints = []corev1.Taint{{}} },
		"Node (without name)":                        func(o *trimtab.Objects) { o.Nodes[0].Name = "" },
		"NodeGroup workers: spec.maxSize:":           func(o *trimtab.Objects) { o.NodeGroups[0].Spec.MaxSize = nil },
		"NodeGroup workers: spec.price:":             func(o *trimtab.Objects) { o.NodeGroups[0].Spec.Price = ptr.To(-1.0) },
		"NodeGroup workers: status.health:":          func(o *trimtab.Objects) { o.NodeGroups[0].Status.Health = "x" },
		"ReplicaSet default/web: spec.selector.matchExpressions[0].operator:": func(o *trimtab.Objects) {
			o.ReplicaSets[0].Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Gt"}}}
		},
		"PodDisruptionBudget default/b: spec.unhealthyPodEvictionPolicy:": func(o *trimtab.Objects) {
			policy := policyv1.UnhealthyPodEvictionPolicyType("x")
			o.PodDisruptionBudgets = []*policyv1.PodDisruptionBudget{{
				ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{UnhealthyPodEvictionPolicy: &policy},
			}}
		},
		"NodeGroup workers: spec: node n0000 belongs to this group and to other": func(o *trimtab.Objects) {
			o.NodeGroups = append(o.NodeGroups, &trimtab.NodeGroup{
				ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: trimtab.NodeGroupSpec{MaxSize: ptr.To(int32(1)), Nodes: []string{"n0000"}},
			})
		},
	} {
		t.Run(where, func(t *testing.T) {
			objects := cluster(2, 2)
			change(&objects)
			_, err := trimtab.Build(objects)
			var own *trimtab.ObjectError
			if !errors.As(err, &own) || !strings.HasPrefix(err.Error(), where) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestBuildChangesNoneOfItsObjectsAndNeedsNoOrder(t *testing.T) {
	objects := cluster(3, 3)
	objects.Pods[0], objects.Pods[8] = objects.Pods[8], objects.Pods[0]
	before := make([]*corev1.Pod, len(objects.Pods))
	for i, one := range objects.Pods {
		before[i] = one.DeepCopy()
	}
	shuffled := build(t, objects)
	for i, one := range objects.Pods {
		if !equality.Semantic.DeepEqual(one, before[i]) {
			t.Errorf("pod %d has changed", i)
		}
	}
	delta, err := trimtab.Delta(build(t, cluster(3, 3)), shuffled)
	if err != nil || delta == nil || delta.Changed.Pods.Count != 0 {
		t.Errorf("the order matters: %v, %v", delta, err)
	}
}
