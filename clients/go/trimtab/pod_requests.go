package trimtab

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// resourceAmount is an amount as the scheduler counts it.
type resourceAmount struct {
	name   string
	amount int64
}

// podRequests returns what the scheduler counts for a pod: the larger of
// containers with sidecars and of init containers in order, each with the
// sidecars before it; pod-level resources in place of that sum; plus overhead.
// Limits stand in for missing requests. Sorted by name, without zeros. status
// is that of a pod in the course of a resize, else nil. k8s.io/component-helpers
// adds up the same; here sums stop where those of the Python client stop, and an
// error names its field.
func podRequests(spec *corev1.PodSpec, status *corev1.PodStatus) ([]resourceAmount, error) {
	running, err := allocated(status)
	if err != nil {
		return nil, err
	}
	sums := containerSums{running: running, instead: running != nil && isResizeInfeasible(status)}
	own, err := sums.total(spec, false)
	if err != nil {
		return nil, err
	}
	if spec.Resources != nil {
		level, err := podLevel(spec)
		if err != nil {
			return nil, below("resources", err)
		}
		own = own.overlaid(level)
	}
	overhead, err := amountsOf(spec.Overhead)
	if err != nil {
		return nil, below("overhead", err)
	}
	own.add(overhead)
	return counted(own), nil
}

func counted(own amounts) []resourceAmount {
	var out []resourceAmount
	for name, milli := range own {
		if amount := amountOf(name, milli); amount > 0 && counts(name) {
			out = append(out, resourceAmount{string(name), amount})
		}
	}
	slices.SortFunc(out, func(a, b resourceAmount) int { return strings.Compare(a.name, b.name) })
	return out
}

// containerAmounts returns requests, with limits where there is no request; or
// limits.
func containerAmounts(container *corev1.Container, wantLimits bool) (amounts, error) {
	limits, err := amountsOf(container.Resources.Limits)
	if err != nil {
		return nil, below("resources.limits", err)
	}
	if wantLimits {
		return limits, nil
	}
	requests, err := amountsOf(container.Resources.Requests)
	if err != nil {
		return nil, below("resources.requests", err)
	}
	return limits.overlaid(requests), nil
}

// containerSums adds up containers. running, by container name, raises the
// requests, or replaces them if instead is set.
type containerSums struct {
	running map[string]amounts
	instead bool
}

func (s containerSums) effective(container *corev1.Container, wantLimits bool) (amounts, error) {
	own, err := containerAmounts(container, wantLimits)
	if err != nil {
		return nil, err
	}
	has, ok := s.running[container.Name]
	if !ok {
		return own, nil
	}
	if s.instead {
		own = amounts{}
	}
	own.raiseTo(has)
	return own, nil
}

func (s containerSums) total(spec *corev1.PodSpec, wantLimits bool) (amounts, error) {
	total, sidecars, peak := amounts{}, amounts{}, amounts{}
	for i := range spec.Containers {
		own, err := s.effective(&spec.Containers[i], wantLimits)
		if err != nil {
			return nil, below(fmt.Sprintf("containers[%d]", i), err)
		}
		total.add(own)
	}
	for i := range spec.InitContainers {
		if err := s.addInit(&spec.InitContainers[i], wantLimits, total, sidecars, peak); err != nil {
			return nil, below(fmt.Sprintf("initContainers[%d]", i), err)
		}
	}
	total.raiseTo(peak)
	return total, nil
}

func (s containerSums) addInit(container *corev1.Container, wantLimits bool, total, sidecars, peak amounts) error {
	if isSidecar(container) {
		own, err := s.effective(container, wantLimits)
		if err != nil {
			return err
		}
		total.add(own)
		sidecars.add(own)
		peak.raiseTo(sidecars)
		return nil
	}
	own, err := containerAmounts(container, wantLimits)
	if err != nil {
		return err
	}
	own.add(sidecars)
	peak.raiseTo(own)
	return nil
}

func isSidecar(container *corev1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// podLevel returns pod-level requests, defaulted as the API server does, of the
// resources that have a pod level.
func podLevel(spec *corev1.PodSpec) (amounts, error) {
	requests, err := amountsOf(spec.Resources.Requests)
	if err != nil {
		return nil, below("requests", err)
	}
	limits, err := amountsOf(spec.Resources.Limits)
	if err != nil {
		return nil, below("limits", err)
	}
	if err := defaultHugePages(spec, requests, limits); err != nil {
		return nil, err
	}
	if len(limits) > 0 {
		if err := defaultFromContainers(spec, requests); err != nil {
			return nil, err
		}
	}
	for name, milli := range limits {
		if _, ok := requests[name]; !ok && hasPodLevel(name) {
			requests[name] = milli
		}
	}
	for name := range requests {
		if !hasPodLevel(name) {
			delete(requests, name)
		}
	}
	return requests, nil
}

func defaultHugePages(spec *corev1.PodSpec, requests, limits amounts) error {
	if len(requests) == 0 && len(limits) == 0 {
		return nil
	}
	ofContainers, err := containerSums{}.total(spec, true)
	if err != nil {
		return err
	}
	for name, milli := range ofContainers {
		_, requested := requests[name]
		_, limited := limits[name]
		if strings.HasPrefix(string(name), "hugepages-") && !requested && !limited {
			limits[name] = milli
		}
	}
	return nil
}

func defaultFromContainers(spec *corev1.PodSpec, requests amounts) error {
	ofContainers, err := containerSums{}.total(spec, false)
	if err != nil {
		return err
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		milli, has := ofContainers[name]
		if _, ok := requests[name]; !ok && has {
			requests[name] = milli
		}
	}
	return nil
}

func hasPodLevel(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), "hugepages-")
}

// allocated returns the resources in the status, by container; nil for none.
func allocated(status *corev1.PodStatus) (map[string]amounts, error) {
	if status == nil {
		return nil, nil
	}
	var out map[string]amounts
	for _, one := range slices.Concat(status.ContainerStatuses, status.InitContainerStatuses) {
		if one.Resources == nil {
			continue
		}
		has, err := amountsOf(one.Resources.Requests)
		if err != nil {
			return nil, err
		}
		more, err := amountsOf(one.AllocatedResources)
		if err != nil {
			return nil, err
		}
		has.raiseTo(more)
		if out == nil {
			out = map[string]amounts{}
		}
		out[one.Name] = has
	}
	return out, nil
}

// isResizeInfeasible says whether the node has refused a resize: only allocated
// resources count then.
func isResizeInfeasible(status *corev1.PodStatus) bool {
	for _, one := range status.Conditions {
		if one.Type == corev1.PodResizePending {
			return one.Reason == corev1.PodReasonInfeasible
		}
	}
	return false
}

// isResized says whether a placed pod has other resources allocated than its
// spec requests.
func isResized(pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	for _, one := range pod.Status.ContainerStatuses {
		if one.Resources == nil {
			continue
		}
		asked := requestsOf(pod, one.Name)
		if !sameQuantities(one.Resources.Requests, asked) {
			return true
		}
		if len(one.AllocatedResources) > 0 && !sameQuantities(one.AllocatedResources, asked) {
			return true
		}
	}
	for _, one := range pod.Status.InitContainerStatuses {
		if one.Resources != nil && (len(one.Resources.Requests) > 0 || len(one.AllocatedResources) > 0) {
			return true
		}
	}
	return false
}

func requestsOf(pod *corev1.Pod, container string) corev1.ResourceList {
	var found corev1.ResourceList
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == container {
			found = pod.Spec.Containers[i].Resources.Requests
		}
	}
	return found
}
