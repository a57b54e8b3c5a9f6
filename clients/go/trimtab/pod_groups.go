package trimtab

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	pb "trimtab.dev/clients/go/trimtabv1"
)

const (
	volcanoPrefix     = "volcano:"
	kueuePrefix       = "kueue:"
	volcanoAnnotation = "scheduling.k8s.io/group-name"
	kueueLabel        = "kueue.x-k8s.io/pod-group-name"
	kueueTotal        = "kueue.x-k8s.io/pod-group-total-count"
	volcanoKind       = "PodGroup.scheduling.volcano.sh"
)

var podCount = regexp.MustCompile(`^[0-9]{1,9}$`)

// groupKey names a group of pods.
type groupKey struct {
	namespace, name string
}

// groupName returns the name of a pod's group; "" if it is in none. That of a
// group of Volcano or Kueue begins with who made it.
func groupName(pod *corev1.Pod) string {
	if name := schedulingGroup(pod); name != "" {
		return name
	}
	if name := pod.Annotations[volcanoAnnotation]; name != "" {
		return volcanoPrefix + name
	}
	if name := pod.Labels[kueueLabel]; name != "" {
		return kueuePrefix + name
	}
	return ""
}

// schedulingGroup returns a pod's group of Kubernetes' own kind.
func schedulingGroup(pod *corev1.Pod) string {
	if pod.Spec.SchedulingGroup == nil {
		return ""
	}
	return ptr.Deref(pod.Spec.SchedulingGroup.PodGroupName, "")
}

// podGroups reads groups. members : pods by group.
type podGroups struct {
	b         *builder
	members   map[groupKey][]*corev1.Pod
	groups    map[groupKey]*PodGroup
	volcano   map[groupKey]*VolcanoPodGroup
	workloads map[groupKey]*Workload
}

// addPodGroups adds the rows of the groups that exist, sorted.
func (b *builder) addPodGroups() error {
	g := &podGroups{
		b: b, members: map[groupKey][]*corev1.Pod{}, groups: map[groupKey]*PodGroup{},
		volcano: map[groupKey]*VolcanoPodGroup{}, workloads: map[groupKey]*Workload{},
	}
	var keys []groupKey
	for _, pod := range b.objects.Pods {
		if name := groupName(pod); name != "" {
			key := groupKey{namespaceOf(pod), name}
			g.members[key] = append(g.members[key], pod)
			keys = append(keys, key)
		}
	}
	for _, one := range b.objects.PodGroups {
		key := groupKey{namespaceOf(one), one.Name}
		g.groups[key] = one
		keys = append(keys, key)
	}
	for _, one := range b.objects.VolcanoPodGroups {
		g.volcano[groupKey{namespaceOf(one), one.Name}] = one
	}
	for _, one := range b.objects.Workloads {
		g.workloads[groupKey{namespaceOf(one), one.Name}] = one
	}
	slices.SortFunc(keys, func(a, b groupKey) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	for _, key := range slices.Compact(keys) {
		if err := g.add(key); err != nil {
			return err
		}
	}
	return nil
}

// add adds the row of a group that exists. A group that cannot be read carries
// its problem: one bad object does not stop the others.
func (g *podGroups) add(key groupKey) error {
	row := &pb.PodGroup{Namespace: key.namespace, Name: key.name}
	var exists bool
	var err error
	switch {
	case strings.HasPrefix(key.name, volcanoPrefix):
		exists, err = true, g.ofVolcano(row, key)
	case strings.HasPrefix(key.name, kueuePrefix):
		exists, err = true, g.ofKueue(row, key)
	default:
		exists, err = g.ofKubernetes(row, key)
	}
	var field *fieldError
	if errors.As(err, &field) {
		of := cmp.Or(row.Object, "PodGroup "+key.namespace+"/"+key.name)
		row = &pb.PodGroup{Namespace: key.namespace, Name: key.name, Object: row.Object, Problem: of + ": " + field.Error()}
	} else if err != nil || !exists {
		return err
	}
	g.b.snapshot.PodGroups = append(g.b.snapshot.PodGroups, row)
	return nil
}

func (g *podGroups) ofKubernetes(row *pb.PodGroup, key groupKey) (bool, error) {
	group := g.groups[key]
	if group == nil {
		return false, nil
	}
	row.CreateTime = timestamp(&group.CreationTimestamp)
	row.Slack = group.Annotations[slackAnnotation]
	if err := addPolicy(row, group.Spec.SchedulingPolicy); err != nil {
		return true, below("spec", err)
	}
	if err := g.addRules(row, &group.Spec.PodGroupRules); err != nil {
		return true, below("spec", err)
	}
	if !isOf136(group) {
		row.Priority = group.Spec.Priority
	}
	return true, g.addExpected(row, key, workloadOf(&group.Spec))
}

// isOf136 returns whether a group is of Kubernetes 1.36, whose scheduler does
// not look at its priority. Items of lists do not name their version; an API
// server of 1.36 that keeps priorities gives each group one of its modes.
func isOf136(group *PodGroup) bool {
	mode := group.Spec.DisruptionMode
	return group.APIVersion == "scheduling.k8s.io/v1alpha2" || mode == "Pod" || mode == "PodGroup"
}

func workloadOf(spec *PodGroupSpec) string {
	switch {
	case spec.WorkloadRef != nil:
		return spec.WorkloadRef.WorkloadName
	case spec.PodGroupTemplateRef != nil && spec.PodGroupTemplateRef.Workload != nil:
		return spec.PodGroupTemplateRef.Workload.WorkloadName
	}
	return ""
}

func (g *podGroups) ofVolcano(row *pb.PodGroup, key groupKey) error {
	name := strings.TrimPrefix(key.name, volcanoPrefix)
	row.Object = volcanoKind + "/" + key.namespace + "/" + name
	least := int32(0)
	if group := g.volcano[groupKey{key.namespace, name}]; group != nil {
		least, row.Slack = group.Spec.MinMember, group.Annotations[slackAnnotation]
	}
	if least < 0 {
		return badField("spec.minMember", "give at least 0", "%d is not a count of pods", least)
	}
	addMinimum(row, least, g.members[key])
	return nil
}

func (g *podGroups) ofKueue(row *pb.PodGroup, key groupKey) error {
	row.Object = "Pod/" + key.namespace + "/" + strings.TrimPrefix(key.name, kueuePrefix)
	var totals []string
	for _, pod := range g.members[key] {
		totals = append(totals, pod.Annotations[kueueTotal])
	}
	totals = sortedUnique(totals)
	if len(totals) > 1 || !podCount.MatchString(totals[0]) {
		return badField("metadata.annotations, "+kueueTotal, "give the same number",
			"'%s' is not one count for all pods of the group", strings.Join(totals, "', '"))
	}
	total, err := strconv.ParseInt(totals[0], 10, 32)
	if err != nil {
		return err
	}
	addMinimum(row, int32(total), g.members[key])
	expected := max(int32(total)-succeeded(g.members[key]), 0)
	row.DesiredCount = &expected
	return nil
}

// addMinimum makes a group a gang of so many pods, less those that have
// succeeded; without any, its pods are on their own.
func addMinimum(row *pb.PodGroup, least int32, members []*corev1.Pod) {
	row.MinCount = max(least-succeeded(members), 0)
	row.Policy = pb.PodGroupPolicy_BASIC
	if row.MinCount > 0 {
		row.Policy = pb.PodGroupPolicy_GANG
	}
}

func succeeded(members []*corev1.Pod) int32 {
	count := int32(0)
	for _, pod := range members {
		if pod.Status.Phase == corev1.PodSucceeded {
			count++
		}
	}
	return count
}

func addPolicy(row *pb.PodGroup, policy *PodGroupPolicy) error {
	if policy == nil || (policy.Basic == nil) == (policy.Gang == nil) {
		given := "neither"
		if policy != nil && policy.Gang != nil {
			given = "both"
		}
		return badField("schedulingPolicy", "give one of the two", "%s of `basic` and `gang` is given", given)
	}
	row.Policy = pb.PodGroupPolicy_BASIC
	if policy.Gang == nil {
		return nil
	}
	if policy.Gang.MinCount < 1 {
		return badField("schedulingPolicy.gang.minCount", "give at least 1", "%d is not a count of pods", policy.Gang.MinCount)
	}
	row.Policy, row.MinCount = pb.PodGroupPolicy_GANG, policy.Gang.MinCount
	return nil
}

// addRules adds topology and disruption mode.
func (g *podGroups) addRules(row *pb.PodGroup, rules *PodGroupRules) error {
	if rules.SchedulingConstraints != nil && len(rules.SchedulingConstraints.Topology) > 0 {
		keys := rules.SchedulingConstraints.Topology
		if len(keys) > 1 {
			return badField("schedulingConstraints.topology", "give at most 1", "there are %d", len(keys))
		}
		if keys[0].Key == "" {
			return badField("schedulingConstraints.topology[0].key", "name a label of nodes", "it is missing")
		}
		row.TopologyKey = g.b.dictionary.string(keys[0].Key)
	}
	switch rules.DisruptionMode {
	case "":
	case "PodGroup", "all":
		row.DisruptionMode = pb.PodGroupDisruptionMode_POD_GROUP
	default:
		row.DisruptionMode = pb.PodGroupDisruptionMode_POD
	}
	return nil
}

// addExpected adds how many pods a workload makes, and their template, if all
// pods of its controller are in this group.
func (g *podGroups) addExpected(row *pb.PodGroup, key groupKey, name string) error {
	workload := g.workloads[groupKey{key.namespace, name}]
	if workload == nil || workload.Spec.ControllerRef == nil || len(workload.Spec.PodGroupTemplates) != 1 {
		return nil
	}
	reference := workload.Spec.ControllerRef
	one, ok := g.b.workloads.find(reference.Kind, key.namespace, reference.Name)
	if !ok {
		return nil
	}
	row.DesiredCount = scaleOf(one)
	if one.template == nil {
		return nil
	}
	template, err := g.b.templatePod(podOfTemplate(one.template, key.namespace, key.name))
	row.PodTemplate = template
	return err
}
