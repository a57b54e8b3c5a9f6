package trimtab

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"regexp"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pb "trimtab.dev/clients/go/trimtabv1"
)

const (
	flagReady            = 1
	flagMirror           = 2
	flagDaemon           = 4
	flagGated            = 8
	flagOtherKind        = 16
	flagUnschedulable    = 32
	flagOtherStatefulSet = 64

	daemonAnnotation = "cluster-autoscaler.kubernetes.io/daemonset-pod"
	mirrorAnnotation = "kubernetes.io/config.mirror"
	doNotDisrupt     = "karpenter.sh/do-not-disrupt"
	longestNumber    = 64
	longestUID       = 255
)

var (
	phases = map[corev1.PodPhase]pb.PodPhase_Code{
		corev1.PodPending: pb.PodPhase_PENDING, corev1.PodRunning: pb.PodPhase_RUNNING,
		corev1.PodSucceeded: pb.PodPhase_SUCCEEDED, corev1.PodFailed: pb.PodPhase_FAILED,
	}
	// disruptionCosts are read from every pod.
	disruptionCosts = []string{"karpenter.sh/disruption-cost", "node-autoscaling.kubernetes.io/disruption-cost"}
	costText        = regexp.MustCompile(`^-?[0-9]+$`)
)

// annotatedNumber is a number in an annotation; NaN is one that is no number.
type annotatedNumber struct {
	key   string
	value float64
}

// keyOf returns "namespace/name" of an object.
func keyOf(object metav1.Object) string {
	return namespaceOf(object) + "/" + object.GetName()
}

func namespaceOf(object metav1.Object) string {
	if namespace := object.GetNamespace(); namespace != "" {
		return namespace
	}
	return metav1.NamespaceDefault
}

func uidOf(kind string, object metav1.Object) string {
	if uid := object.GetUID(); uid != "" {
		return string(uid)
	}
	return madeUID(kind, namespaceOf(object), object.GetName())
}

// madeUID returns a stable stand-in for a uid that is missing.
func madeUID(kind, namespace, name string) string {
	sum := sha256.Sum256([]byte(kind + "/" + namespace + "/" + name))
	return hex.EncodeToString(sum[:])[:32]
}

func ownerUID(reference *metav1.OwnerReference, namespace string) string {
	switch {
	case reference == nil:
		return ""
	case reference.UID != "":
		return string(reference.UID)
	}
	return madeUID(reference.Kind, namespace, reference.Name)
}

func podFlags(pod *corev1.Pod, controller *metav1.OwnerReference) byte {
	var flags byte
	set := func(is bool, flag byte) {
		if is {
			flags |= flag
		}
	}
	set(isReady(pod), flagReady)
	set(isUnschedulable(pod), flagUnschedulable)
	_, mirrors := pod.Annotations[mirrorAnnotation]
	set(mirrors || (controller != nil && controller.Kind == "Node"), flagMirror)
	set(pod.Annotations[daemonAnnotation] == "true" || (controller != nil && controller.Kind == "DaemonSet"), flagDaemon)
	set(len(pod.Spec.SchedulingGates) > 0, flagGated)
	if controller != nil {
		set(!isControllerKind(controller.Kind) && controller.Kind != "Node", flagOtherKind)
		set(isOtherStatefulSet(controller), flagOtherStatefulSet)
	}
	return flags
}

func isOtherStatefulSet(controller *metav1.OwnerReference) bool {
	group, _, _ := strings.Cut(controller.APIVersion, "/")
	return controller.Kind == "StatefulSet" && controller.APIVersion != "" && group != "apps"
}

func isReady(pod *corev1.Pod) bool {
	for _, one := range pod.Status.Conditions {
		if one.Type == corev1.PodReady {
			return one.Status == corev1.ConditionTrue
		}
	}
	return false
}

func isUnschedulable(pod *corev1.Pod) bool {
	for _, one := range pod.Status.Conditions {
		if one.Type == corev1.PodScheduled {
			return one.Status == corev1.ConditionFalse && one.Reason == corev1.PodReasonUnschedulable
		}
	}
	return false
}

// deletionCost returns an annotation that is a 32-bit integer as the ReplicaSet
// controller reads it, else 0.
func deletionCost(text string) int32 {
	if !costText.MatchString(text) || (text[0] == '0' && text != "0") || len(text) > 100 {
		return 0
	}
	value, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return int32(value)
}

// numbersOf returns the numbers in the annotations of a pod about disruption,
// and in those that the caller names, sorted by key.
func numbersOf(pod *corev1.Pod, keys []string) []annotatedNumber {
	if len(pod.Annotations) == 0 {
		return nil
	}
	var out []annotatedNumber
	for _, key := range sortedUnique(append(append([]string{}, keys...), disruptionCosts...)) {
		if text, ok := pod.Annotations[key]; ok && key != doNotDisrupt {
			out = append(out, annotatedNumber{key, numberOf(text)})
		}
	}
	start := pod.Status.StartTime
	if start == nil || start.IsZero() {
		start = &pod.CreationTimestamp
	}
	if until, ok := undisruptedUntil(pod.Annotations[doNotDisrupt], unixS(start)); ok {
		out = append(out, annotatedNumber{doNotDisrupt, until})
		sort.Slice(out, func(i, j int) bool { return out[i].key < out[j].key })
	}
	return out
}

// numberOf returns the decimal number that a text is, NaN for anything else.
func numberOf(text string) float64 {
	if len(text) > longestNumber || strings.ContainsAny(text, "_xXpP") {
		return math.NaN()
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(value, 0) {
		return math.NaN()
	}
	return value
}

// undisruptedUntil returns until when an annotation protects a pod, Unix seconds
// rounded up, NaN = always; false = it does not.
func undisruptedUntil(text string, startS int64) (float64, bool) {
	if text == "true" {
		return math.NaN(), true
	}
	ns, ok := goDurationNs(text)
	if !ok || ns <= 0 {
		return 0, false
	}
	return float64(usableS(startS + ceilSeconds(ns))), true
}
