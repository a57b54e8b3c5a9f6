package trimtab

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	pb "trimtab.dev/clients/go/trimtabv1"
)

const (
	safeToEvict           = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	enableDSEviction      = "cluster-autoscaler.kubernetes.io/enable-ds-eviction"
	podScaleUpDelay       = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
	topologySpreadTimeout = "zalando.org/topology-spread-timeout"
	slackIgnore           = "trimtab.dev/slack-ignore"

	defaultGraceS = 30
	secondNs      = 1_000_000_000
)

var (
	// specAnnotations are those that a row of a spec depends on.
	specAnnotations = []string{safeToEvict, enableDSEviction, podScaleUpDelay, topologySpreadTimeout, slackIgnore,
		consumedRequest, oldConsumedRequest}

	safeToEvictValues = map[string]pb.SafeToEvict_Code{
		"true": pb.SafeToEvict_TRUE, "false": pb.SafeToEvict_FALSE, "on-completion": pb.SafeToEvict_ON_COMPLETION,
	}
	restartPolicies = map[corev1.RestartPolicy]pb.RestartPolicy_Code{
		"":                            pb.RestartPolicy_ALWAYS,
		corev1.RestartPolicyAlways:    pb.RestartPolicy_ALWAYS,
		corev1.RestartPolicyOnFailure: pb.RestartPolicy_ON_FAILURE,
		corev1.RestartPolicyNever:     pb.RestartPolicy_NEVER,
	}
)

// priorities are those of PriorityClasses, for pods that have none filled in.
type priorities struct {
	byClass map[string]int32
	none    int32
}

// specTable maps pods to rows of distinct pod specs. A row is expensive and pods
// are many, so pods are first compared by their encoded fields.
type specTable struct {
	dictionary *dictionary
	priorities priorities
	claims     *claimObjects
	known      map[string]int32
	notes      []string
}

func newSpecTable(d *dictionary, of priorities, claims *claimObjects) *specTable {
	return &specTable{dictionary: d, priorities: of, claims: claims, known: map[string]int32{}}
}

// index returns the index of a pod's spec row. isSuccessor : of a pod like it,
// for which no claims of devices have been made yet.
func (t *specTable) index(pod *corev1.Pod, affinity *corev1.Affinity, own mounts, isSuccessor bool) (int32, error) {
	claims := t.claims.of(pod, isSuccessor)
	key, err := specKey(pod, affinity, own, claims)
	if err != nil {
		return 0, err
	}
	if index, ok := t.known[key]; ok {
		return index, nil
	}
	row, err := t.row(pod, affinity, own)
	if err != nil {
		return 0, err
	}
	row.Claims, row.ExtendedDeviceRequests = claims, extendedDeviceRequests(&pod.Spec, t.claims.resources)
	index, err := t.dictionary.podSpec(row)
	if err != nil {
		return 0, err
	}
	t.known[key] = index
	return index, nil
}

// specKey returns a text that pods have in common only if their spec rows are
// equal. Fields that no row depends on are left out, or hardly two pods would
// have the same; a field that is new in Kubernetes stays in.
func specKey(pod *corev1.Pod, affinity *corev1.Affinity, own mounts, claims []*pb.PodClaim) (string, error) {
	spec := pod.Spec
	spec.Affinity = affinity
	spec.NodeName, spec.Hostname, spec.Subdomain, spec.Volumes = "", "", "", nil
	spec.ServiceAccountName, spec.DeprecatedServiceAccount, spec.ImagePullSecrets = "", "", nil
	spec.SecurityContext, spec.HostAliases, spec.DNSConfig, spec.SchedulingGates = nil, nil, nil, nil
	spec.EphemeralContainers, spec.SchedulingGroup, spec.ResourceClaims = nil, nil, nil
	spec.Containers = withoutPrograms(spec.Containers)
	spec.InitContainers = withoutPrograms(spec.InitContainers)
	data, err := spec.Marshal()
	if err != nil {
		return "", err
	}
	for _, name := range specAnnotations {
		value, ok := pod.Annotations[name]
		data = fmt.Appendf(data, "\n%t%q", ok, value)
	}
	for _, one := range claims {
		more, err := deterministic.Marshal(one)
		if err != nil {
			return "", err
		}
		data = fmt.Appendf(data, "\n%q", more)
	}
	if own.localStorage || len(own.exclusiveDisks)+len(own.readOnlyDisks) > 0 {
		data = fmt.Appendf(data, "\n%t%q%q", own.localStorage, own.exclusiveDisks, own.readOnlyDisks)
	}
	if isResized(pod) {
		for _, one := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
			part := corev1.ContainerStatus{Name: one.Name, Resources: one.Resources, AllocatedResources: one.AllocatedResources}
			more, err := part.Marshal()
			if err != nil {
				return "", err
			}
			data = fmt.Appendf(data, "\n%q", more)
		}
		data = fmt.Appendf(data, "\n%t", isResizeInfeasible(&pod.Status))
	}
	return string(data), nil
}

// withoutPrograms returns containers without what they run and mount.
func withoutPrograms(from []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(from))
	for i := range from {
		out[i] = corev1.Container{
			Name: from[i].Name, Ports: from[i].Ports, Resources: from[i].Resources,
			RestartPolicy: from[i].RestartPolicy, RestartPolicyRules: from[i].RestartPolicyRules,
		}
	}
	return out
}

func (t *specTable) row(pod *corev1.Pod, affinity *corev1.Affinity, own mounts) (*pb.PodSpec, error) {
	row, err := t.placementRow(pod, affinity, own)
	if err != nil {
		return nil, below("spec", err)
	}
	t.addAnnotations(row, pod.Annotations)
	return row, nil
}

// placementRow fills what comes from the spec. The order in which strings get
// their numbers is that of this function.
func (t *specTable) placementRow(pod *corev1.Pod, affinity *corev1.Affinity, own mounts) (*pb.PodSpec, error) {
	d, spec := t.dictionary, &pod.Spec
	if len(spec.Containers) == 0 {
		return nil, badField("containers", "give the whole pod", "there is none")
	}
	row := &pb.PodSpec{LocalStorage: own.localStorage}
	var err error
	if row.Requests, err = t.requests(pod); err != nil {
		return nil, err
	}
	for _, key := range sortedKeys(spec.NodeSelector) {
		one := &pb.LabelPair{}
		one.Key = d.string(key)
		one.Value = d.string(spec.NodeSelector[key])
		row.NodeSelector = append(row.NodeSelector, one)
	}
	if row.Tolerations, err = tolerations(spec.Tolerations, d); err != nil {
		return nil, err
	}
	if row.HostPorts, err = hostPorts(spec, d); err != nil {
		return nil, err
	}
	if row.TopologySpread, err = spreadConstraints(spec.TopologySpreadConstraints, d); err != nil {
		return nil, err
	}
	row.Priority = t.priority(spec)
	var known bool
	if row.RestartPolicy, known = restartPolicies[spec.RestartPolicy]; !known {
		return nil, badField("restartPolicy", "use one of Always, OnFailure, Never", "%q is unknown", spec.RestartPolicy)
	}
	row.NeverPreempts = spec.PreemptionPolicy != nil && *spec.PreemptionPolicy == corev1.PreemptNever
	row.ExclusiveDisks = d.strs(own.exclusiveDisks)
	row.ReadOnlyDisks = d.strs(own.readOnlyDisks)
	row.NodeFeatures = d.strs(nodeFeatures(spec))
	if err := t.addAffinity(row, affinity); err != nil {
		return nil, below("affinity", err)
	}
	if spec.SchedulerName != corev1.DefaultSchedulerName {
		row.SchedulerName = d.string(spec.SchedulerName)
	}
	return row, addGrace(row, spec.TerminationGracePeriodSeconds)
}

func (t *specTable) requests(pod *corev1.Pod) ([]*pb.ResourceAmount, error) {
	var status *corev1.PodStatus
	if isResized(pod) {
		status = &pod.Status
	}
	found, err := podRequests(&pod.Spec, status)
	if err != nil {
		return nil, err
	}
	var rows []*pb.ResourceAmount
	for _, one := range found {
		if one.amount > mostRequested {
			t.notes = append(t.notes, fmt.Sprintf(
				"Pod %s and those like it request %d of %s; that counts as %d, more than any node has",
				keyOf(pod), one.amount, one.name, mostRequested))
		}
		rows = append(rows, &pb.ResourceAmount{
			Resource: t.dictionary.resource(one.name), Amount: min(one.amount, mostRequested),
		})
	}
	return rows, nil
}

func (t *specTable) addAffinity(row *pb.PodSpec, affinity *corev1.Affinity) error {
	if affinity == nil {
		return nil
	}
	var err error
	if affinity.NodeAffinity != nil && affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		required, err := nodeSelectorTerms(affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		if err != nil {
			return below("nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution", err)
		}
		row.NodeAffinity = t.dictionary.nodeSelector(required)
	}
	if near := affinity.PodAffinity; near != nil {
		row.PodAffinity, err = podAffinityTerms(near.RequiredDuringSchedulingIgnoredDuringExecution, t.dictionary)
		if err != nil {
			return below("podAffinity", err)
		}
	}
	if away := affinity.PodAntiAffinity; away != nil {
		row.PodAntiAffinity, err = podAffinityTerms(away.RequiredDuringSchedulingIgnoredDuringExecution, t.dictionary)
		if err != nil {
			return below("podAntiAffinity", err)
		}
		row.PreferredPodAntiAffinity, err = preferredTerms(
			away.PreferredDuringSchedulingIgnoredDuringExecution, t.dictionary)
		if err != nil {
			return below("podAntiAffinity", err)
		}
	}
	return nil
}

func (t *specTable) addAnnotations(row *pb.PodSpec, annotations map[string]string) {
	row.SafeToEvict = safeToEvictValues[annotations[safeToEvict]]
	_, row.RequestsByVpa = annotations["vpaUpdates"]
	row.IgnoredBySlack = annotations[slackIgnore] == "true"
	row.CapacityRequest = t.dictionary.string(cmp.Or(annotations[consumedRequest], annotations[oldConsumedRequest]))
	if value := annotations[enableDSEviction]; value == "true" || value == "false" {
		row.EnableDsEviction = ptr.To(value == "true")
	}
	if ns, ok := t.duration(annotations, topologySpreadTimeout); ok {
		row.TopologySpreadTimeoutS = ptr.To(ns / secondNs)
	}
	if ns, ok := t.duration(annotations, podScaleUpDelay); ok {
		row.ScaleUpDelayS = ptr.To(ceilSeconds(ns))
	}
}

// duration returns the nanoseconds of an annotation, 0 if they are negative; an
// invalid one is noted and ignored.
func (t *specTable) duration(annotations map[string]string, name string) (int64, bool) {
	text, ok := annotations[name]
	if !ok {
		return 0, false
	}
	ns, ok := goDurationNs(text)
	if !ok {
		t.notes = append(t.notes, fmt.Sprintf("annotation %s is ignored: %q is not a duration", name, text))
		return 0, false
	}
	return max(ns, 0), true
}

func (t *specTable) priority(spec *corev1.PodSpec) int32 {
	if spec.Priority != nil {
		return *spec.Priority
	}
	if spec.PriorityClassName != "" {
		return t.priorities.byClass[spec.PriorityClassName]
	}
	return t.priorities.none
}

// nodeFeatures returns the features that a node must declare for a pod, sorted.
func nodeFeatures(spec *corev1.PodSpec) []string {
	var names []string
	if restartsAll(spec.Containers) || restartsAll(spec.InitContainers) {
		names = append(names, "RestartAllContainersOnContainerExits")
	}
	if spec.HostNetwork && spec.HostUsers != nil && !*spec.HostUsers {
		names = append(names, "UserNamespacesHostNetworkSupport")
	}
	return names
}

func restartsAll(containers []corev1.Container) bool {
	return slices.ContainsFunc(containers, func(container corev1.Container) bool {
		return slices.ContainsFunc(container.RestartPolicyRules, func(rule corev1.ContainerRestartRule) bool {
			return rule.Action == "RestartAllContainers"
		})
	})
}

func addGrace(row *pb.PodSpec, grace *int64) error {
	if grace == nil || *grace == defaultGraceS {
		return nil
	}
	if *grace < 0 {
		return badField("terminationGracePeriodSeconds", "give at least 0", "%d is negative", *grace)
	}
	row.TerminationGracePeriodS = ptr.To(*grace)
	return nil
}
