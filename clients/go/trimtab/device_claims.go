package trimtab

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Flags of claims, and of the devices that they were given.
const (
	claimAllocated     = 1
	claimDeleted       = 2
	claimBindingFailed = 4
	resultAdminAccess  = 1
	resultShare        = 2
)

// mostResults bounds the devices of a claim (AllocationResultsMaxSize of resource/v1).
const mostResults = 32

// podClaimName is the annotation of a claim that was made from a template: its
// name within the pod.
const podClaimName = "resource.kubernetes.io/pod-claim-name"

// resultRow is a device that a claim was given.
type resultRow struct {
	driver, pool, device, request string
	flags                         byte
	capacities                    []pair
}

// claimRow is a claim before strings become indices. spec : key of its spec;
// node : the only node of its allocation; selector : key of any other selector.
type claimRow struct {
	namespace, name, spec, pod, podClaim string
	flags                                byte
	node, selector                       string
	results                              []resultRow
	consumers                            []string
}

// claimReader reads claims, and keeps distinct specs and selectors by key.
type claimReader struct {
	specs     map[string]*resourcev1.ResourceClaimSpec
	specKeys  []string
	selectors map[string]*corev1.NodeSelector
}

func (r *claimReader) row(one *resourcev1.ResourceClaim) (claimRow, error) {
	key, err := claimSpecKey(&one.Spec)
	if err != nil {
		return claimRow{}, err
	}
	if _, isKnown := r.specs[key]; !isKnown {
		r.specs[key] = &one.Spec
		r.specKeys = append(r.specKeys, key)
	}
	row := claimRow{namespace: namespaceOf(one), name: one.Name, spec: key}
	if owner := claimOwner(one); owner != nil && owner.Kind == "Pod" {
		row.pod, row.podClaim = owner.Name, one.Annotations[podClaimName]
	}
	if one.DeletionTimestamp != nil {
		row.flags |= claimDeleted
	}
	if hasFailed(&one.Status) {
		row.flags |= claimBindingFailed
	}
	for _, user := range one.Status.ReservedFor {
		name := ""
		if user.Resource == "pods" && user.APIGroup == "" {
			name = user.Name
		}
		row.consumers = append(row.consumers, name)
	}
	return row, r.addAllocation(&row, one.Status.Allocation)
}

func (r *claimReader) addAllocation(row *claimRow, from *resourcev1.AllocationResult) error {
	if from == nil {
		return nil
	}
	row.flags |= claimAllocated
	for _, one := range from.Devices.Results[:min(len(from.Devices.Results), mostResults)] {
		result := resultRow{driver: one.Driver, pool: one.Pool, device: one.Device, request: one.Request}
		if ptr.Deref(one.AdminAccess, false) {
			result.flags |= resultAdminAccess
		}
		if ptr.Deref(one.ShareID, "") != "" {
			result.flags |= resultShare
		}
		for _, name := range sortedKeys(one.ConsumedCapacity) {
			amount := one.ConsumedCapacity[name]
			result.capacities = append(result.capacities, pair{string(name), amount.String()})
		}
		row.results = append(row.results, result)
	}
	if from.NodeSelector == nil {
		return nil
	}
	if row.node = onlyNode(from.NodeSelector); row.node != "" {
		return nil
	}
	var err error
	row.selector, err = selectorKey(from.NodeSelector, r.selectors)
	return err
}

// onlyNode returns the node of a selector that is for this one; "" = another one.
func onlyNode(selector *corev1.NodeSelector) string {
	terms := selector.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) > 0 || len(terms[0].MatchFields) != 1 {
		return ""
	}
	field := terms[0].MatchFields[0]
	if field.Key != nodeNameField || field.Operator != corev1.NodeSelectorOpIn || len(field.Values) != 1 {
		return ""
	}
	return field.Values[0]
}

// selectorKey returns the key of a node selector, which is never "", and keeps
// the selector by it.
func selectorKey(selector *corev1.NodeSelector, known map[string]*corev1.NodeSelector) (string, error) {
	data, err := selector.Marshal()
	if err != nil {
		return "", err
	}
	key := "s" + string(data)
	known[key] = selector
	return key, nil
}

// claimSpecKey returns the same text for specs that ask for the same.
func claimSpecKey(spec *resourcev1.ResourceClaimSpec) (string, error) {
	plain := *spec
	plain.Devices.Config = nil
	plain.Devices.Requests = slices.Clone(spec.Devices.Requests)
	for at := range plain.Devices.Requests {
		one := &plain.Devices.Requests[at]
		if one.Exactly != nil {
			exact := *one.Exactly
			exact.AllocationMode, exact.Count = withModeDefaults(exact.AllocationMode, exact.Count)
			exact.Tolerations = withoutSeconds(exact.Tolerations)
			one.Exactly = &exact
		}
		one.FirstAvailable = slices.Clone(one.FirstAvailable)
		for other := range one.FirstAvailable {
			kind := &one.FirstAvailable[other]
			kind.AllocationMode, kind.Count = withModeDefaults(kind.AllocationMode, kind.Count)
			kind.Tolerations = withoutSeconds(kind.Tolerations)
		}
	}
	data, err := plain.Marshal()
	return string(data), err
}

func withModeDefaults(mode resourcev1.DeviceAllocationMode, count int64) (resourcev1.DeviceAllocationMode, int64) {
	if mode == "" {
		mode = resourcev1.DeviceAllocationModeExactCount
	}
	if mode == resourcev1.DeviceAllocationModeExactCount && count == 0 {
		count = 1
	}
	return mode, count
}

func withoutSeconds(from []resourcev1.DeviceToleration) []resourcev1.DeviceToleration {
	out := slices.Clone(from)
	for at := range out {
		out[at].TolerationSeconds = nil
	}
	return out
}

// claimOwner returns the pod, or the group of pods, for which a claim was made.
func claimOwner(claim *resourcev1.ResourceClaim) *metav1.OwnerReference {
	for at := range claim.OwnerReferences {
		owner := &claim.OwnerReferences[at]
		if ptr.Deref(owner.Controller, false) && (owner.Kind == "Pod" || owner.Kind == "PodGroup") {
			return owner
		}
	}
	return nil
}

// tooManyDevices returns that a claim has more devices than the API allows; ""
// if it has not. The API server refuses such claims, files may have them.
func tooManyDevices(claim *resourcev1.ResourceClaim) string {
	if claim.Status.Allocation == nil || len(claim.Status.Allocation.Devices.Results) <= mostResults {
		return ""
	}
	return fmt.Sprintf("status.allocation.devices.results: there are %d; the API allows at most %d",
		len(claim.Status.Allocation.Devices.Results), mostResults)
}

// hasFailed says whether a binding failure condition of a claim's device holds.
func hasFailed(status *resourcev1.ResourceClaimStatus) bool {
	if len(status.Devices) == 0 || status.Allocation == nil {
		return false
	}
	type place struct{ driver, pool, device, share string }
	failures := map[place][]string{}
	for _, one := range status.Allocation.Devices.Results {
		failures[place{one.Driver, one.Pool, one.Device, string(ptr.Deref(one.ShareID, ""))}] = one.BindingFailureConditions
	}
	for _, one := range status.Devices {
		bad := failures[place{one.Driver, one.Pool, one.Device, ptr.Deref(one.ShareID, "")}]
		for _, condition := range one.Conditions {
			if condition.Status == metav1.ConditionTrue && slices.Contains(bad, condition.Type) {
				return true
			}
		}
	}
	return false
}

// claimObjects are what claims of pods are resolved to. areKnown : the caller has
// claims and templates, and what is missing does not exist.
type claimObjects struct {
	claims    map[string]*resourcev1.ResourceClaim
	templates map[string]*resourcev1.ResourceClaimTemplate
	groups    map[string]*PodGroup
	resources map[string]bool
	areKnown  bool
}

func claimObjectsOf(objects *Objects) *claimObjects {
	out := &claimObjects{
		claims: byKey(objects.ResourceClaims), templates: byKey(objects.ResourceClaimTemplates),
		groups: byKey(objects.PodGroups), resources: providedResources(objects.DeviceClasses),
		areKnown: objects.ResourceClaims != nil || objects.ResourceClaimTemplates != nil,
	}
	maps.DeleteFunc(out.groups, func(_ string, one *PodGroup) bool { return len(one.Spec.ResourceClaims) == 0 })
	return out
}
