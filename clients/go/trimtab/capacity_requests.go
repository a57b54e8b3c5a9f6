package trimtab

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pb "trimtab.dev/clients/go/trimtabv1"
)

const (
	consumedRequest    = "autoscaling.x-k8s.io/consume-provisioning-request"
	oldConsumedRequest = "cluster-autoscaler.kubernetes.io/consume-provisioning-request"
	mostPodsOfASet     = 100_000
	mostPodSets        = 32
)

var secondsText = regexp.MustCompile(`^[0-9]+$`)

// ProvisioningRequest is the part of `autoscaling.x-k8s.io` ProvisioningRequest
// that says for which pods room is asked. Its JSON form is that of the API.
type ProvisioningRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ProvisioningRequestSpec   `json:"spec,omitempty"`
	Status ProvisioningRequestStatus `json:"status,omitempty"`
}

// ProvisioningRequestSpec names the pods and the class of a request.
type ProvisioningRequestSpec struct {
	PodSets               []ProvisioningPodSet `json:"podSets,omitempty"`
	ProvisioningClassName string               `json:"provisioningClassName,omitempty"`
	Parameters            map[string]string    `json:"parameters,omitempty"`
}

// ProvisioningPodSet is a number of equal pods.
type ProvisioningPodSet struct {
	PodTemplateRef PodTemplateReference `json:"podTemplateRef,omitempty"`
	Count          int32                `json:"count,omitempty"`
}

// ProvisioningRequestStatus has the conditions of a request.
type ProvisioningRequestStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// requestReader reads ProvisioningRequests; their specs and labels go into one
// dictionary.
type requestReader struct {
	templates  map[string]*corev1.PodTemplate
	dictionary *dictionary
	specs      *specTable
}

// capacityRequests returns the ProvisioningRequests, by namespace and name; nil
// if there are none. One that cannot be used carries its problem.
func capacityRequests(objects *Objects, ranks priorities, claims *claimObjects) *pb.CapacityRequests {
	if len(objects.ProvisioningRequests) == 0 {
		return nil
	}
	d := newDictionary(nil)
	reader := &requestReader{byKey(objects.PodTemplates), d, newSpecTable(d, ranks, claims)}
	out := &pb.CapacityRequests{}
	for _, one := range objects.ProvisioningRequests {
		out.Requests = append(out.Requests, reader.row(one))
	}
	out.Dictionary = d.ofPods()
	return out
}

func (r *requestReader) row(one *ProvisioningRequest) *pb.CapacityRequest {
	row := &pb.CapacityRequest{
		Namespace: namespaceOf(one), Name: one.Name, Uid: string(one.UID),
		ClassName: cmp.Or(one.Spec.ProvisioningClassName, "-"),
	}
	if created := unixS(&one.CreationTimestamp); created != 0 {
		row.Created = &created
	}
	addConditions(row, one.Status.Conditions)
	var problems []string
	if err := addParameters(row, one.Spec.Parameters); err != nil {
		problems = append(problems, err.Error())
	}
	sets, err := r.podSets(one)
	if err != nil {
		problems = append(problems, err.Error())
	}
	if len(problems) > 0 {
		row.Problem = "ProvisioningRequest " + keyOf(one) + ": " + strings.Join(problems, "; ") +
			"; until then, no room is sought for it"
		return row
	}
	row.PodSets = sets
	return row
}

func (r *requestReader) podSets(one *ProvisioningRequest) ([]*pb.CapacityPodSet, error) {
	count := len(one.Spec.PodSets)
	if count < 1 || count > mostPodSets {
		return nil, badField("spec.podSets", "give 1 to 32", "there are %d sets", count)
	}
	out := make([]*pb.CapacityPodSet, count)
	for i, set := range one.Spec.PodSets {
		row, err := r.podSet(set, namespaceOf(one))
		if err != nil {
			return nil, below("spec.podSets["+strconv.Itoa(i)+"]", err)
		}
		out[i] = row
	}
	return out, nil
}

func (r *requestReader) podSet(set ProvisioningPodSet, namespace string) (*pb.CapacityPodSet, error) {
	const where = "podTemplateRef.name"
	if set.Count < 1 || set.Count > mostPodsOfASet {
		return nil, badField("count", "give 1 to 100000", "%d is not a number of pods", set.Count)
	}
	key := namespace + "/" + set.PodTemplateRef.Name
	template := r.templates[key]
	if template == nil {
		return nil, badField(where, "create it", "there is no PodTemplate %s", key)
	}
	if given(&template.Template) == nil {
		return nil, badField(where, "give it one", "PodTemplate %s has no template", key)
	}
	pod := podOfTemplate(&template.Template, namespace, "requested")
	_, affinity := splitPin(pod.Spec.Affinity)
	spec, err := r.specs.index(pod, affinity, mountsOf(pod), false)
	if err != nil {
		return nil, badField(where, "correct it", "PodTemplate %s cannot be read: template.%s", key, err)
	}
	return &pb.CapacityPodSet{Spec: spec, LabelSet: r.dictionary.labelSet(pod.Labels), Count: set.Count}, nil
}

// addConditions notes which conditions are true. One without a time counts as
// old, but as there.
func addConditions(row *pb.CapacityRequest, conditions []metav1.Condition) {
	for i, one := range conditions {
		if one.Status != metav1.ConditionTrue {
			continue
		}
		switch one.Type {
		case "Provisioned":
			since := max(unixS(&conditions[i].LastTransitionTime), 1)
			row.Provisioned = &since
		case "Failed":
			row.Failed = true
		case "BookingExpired":
			row.BookingExpired = true
		case "CapacityRevoked":
			row.CapacityRevoked = true
		}
	}
}

// addParameters reads the parameters that are known; all others are for other
// controllers.
func addParameters(row *pb.CapacityRequest, parameters map[string]string) error {
	row.NoRetry = parameters["noRetry"] == "true"
	row.ProcessorInstance = parameters["processorInstance"]
	text, ok := parameters["ValidUntilSeconds"]
	if !ok {
		return nil
	}
	seconds, err := strconv.ParseInt(strings.TrimLeft(text, "0"), 10, 32)
	if !secondsText.MatchString(text) || err != nil || seconds < 1 {
		return badField("spec.parameters.ValidUntilSeconds", "give 1 to 2147483647", "'%s' is not a number of seconds", text)
	}
	row.ValidUntilS = &seconds
	return nil
}
