package trimtab

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	pb "trimtab.dev/clients/go/trimtabv1"
)

const (
	slackAnnotation  = "trimtab.dev/slack"
	slackTogether    = "trimtab.dev/slack-together"
	slackTopologyKey = "trimtab.dev/slack-topology-key"
	activeCapacity   = "buffer.x-k8s.io/active-capacity"
	mostOfALimit     = int64(1) << 53
)

// slackKinds have pods and replicas; kinds that own others come first.
var slackKinds = []string{"Deployment", "StatefulSet", "Job", "ReplicaSet", "ReplicationController"}

// CapacityBuffer is the part of `autoscaling.x-k8s.io` CapacityBuffer that asks
// for room. Its JSON form is that of the API.
type CapacityBuffer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec CapacityBufferSpec `json:"spec,omitempty"`
}

// CapacityBufferSpec says how much room, and for which pods.
type CapacityBufferSpec struct {
	ProvisioningStrategy *string                  `json:"provisioningStrategy,omitempty"`
	PodTemplateRef       *PodTemplateReference    `json:"podTemplateRef,omitempty"`
	ScalableRef          *ScalableObjectReference `json:"scalableRef,omitempty"`
	Replicas             *int32                   `json:"replicas,omitempty"`
	Percentage           *int32                   `json:"percentage,omitempty"`
	Limits               corev1.ResourceList      `json:"limits,omitempty"`
}

// PodTemplateReference names a PodTemplate in the same namespace.
type PodTemplateReference struct {
	Name string `json:"name"`
}

// ScalableObjectReference names a controller in the same namespace.
type ScalableObjectReference struct {
	APIGroup string `json:"apiGroup,omitempty"`
	Kind     string `json:"kind"`
	Name     string `json:"name"`
}

// slackReader reads the requests of one collection of objects; their specs and
// labels go into a dictionary of their own.
type slackReader struct {
	objects    *Objects
	dictionary *dictionary
	specs      *specTable
	workloads  *workloads
	templates  map[string]*corev1.PodTemplate
	requests   map[string]*pb.SlackRequest
}

// slackRequests returns the requests of all objects, sorted; nil if there are
// none. A request that cannot be used carries its problem.
func slackRequests(objects *Objects, of *workloads, ranks priorities, claims *claimObjects) *pb.SlackRequests {
	d := newDictionary(nil)
	reader := &slackReader{
		objects: objects, dictionary: d, specs: newSpecTable(d, ranks, claims),
		workloads: of, templates: byKey(objects.PodTemplates), requests: map[string]*pb.SlackRequest{},
	}
	byKind := map[string][]workload{}
	for _, ofKind := range of.byKind {
		if len(ofKind) > 0 {
			byKind[ofKind[0].kind] = ofKind
		}
	}
	reader.addBuffers()
	for _, kind := range slackKinds {
		for _, one := range byKind[kind] {
			reader.addWorkload(one)
		}
	}
	reader.addPods()
	if len(reader.requests) == 0 {
		return nil
	}
	out := &pb.SlackRequests{}
	for _, key := range sortedKeys(reader.requests) {
		out.Requests = append(out.Requests, reader.requests[key])
	}
	out.Dictionary = d.ofPods()
	return out
}

// keep adds a request unless its object has made one already.
func (r *slackReader) keep(row *pb.SlackRequest) {
	if r.requests[row.Object] == nil {
		r.requests[row.Object] = row
	}
}

// isServed says whether a kind is one whose slack counts.
func isServed(kind string) bool {
	return slices.Contains(slackKinds, kind)
}

func (r *slackReader) addWorkload(one workload) {
	amount, ok := one.object.GetAnnotations()[slackAnnotation]
	if !ok || r.isOwned(one) {
		return
	}
	row := &pb.SlackRequest{Object: one.key(), Amount: amount}
	row.Scale = scaleOf(one)
	if err := r.addGang(row, one.object); err != nil {
		r.keep(&pb.SlackRequest{Object: row.Object, Problem: err.Error()})
		return
	}
	r.keep(r.withTemplate(row, one.template, namespaceOf(one.object)))
}

// addGang adds whether an object asks for room for all its pods or none, and in
// which domains.
func (r *slackReader) addGang(row *pb.SlackRequest, object metav1.Object) error {
	annotations := object.GetAnnotations()
	together, ok := annotations[slackTogether]
	if ok && together != "true" && together != "false" {
		return badField("metadata.annotations, "+slackTogether, `use "true"`, "'%s' is not a boolean", together)
	}
	key := annotations[slackTopologyKey]
	if key != "" && together != "true" {
		return badField("metadata.annotations, "+slackTopologyKey, `set that to "true"`, "it needs %s", slackTogether)
	}
	row.IsGang = together == "true"
	row.TopologyKey = r.dictionary.string(key)
	return nil
}

func scaleOf(one workload) *int32 {
	if one.desired == nil || *one.desired < 0 {
		return nil
	}
	return one.desired
}

// isOwned says whether another known workload owns this one, whose request then
// counts for both: Deployments copy their annotations to their ReplicaSets.
func (r *slackReader) isOwned(one workload) bool {
	owner := metav1.GetControllerOfNoCopy(one.object)
	if owner == nil {
		return false
	}
	_, ok := r.workloads.find(owner.Kind, namespaceOf(one.object), owner.Name)
	return ok
}

// addPods adds the requests of annotated pods; those of one workload make one
// request, for the workload.
func (r *slackReader) addPods() {
	seen := map[string]bool{}
	for _, pod := range r.objects.Pods {
		amount, ok := pod.Annotations[slackAnnotation]
		if !ok {
			continue
		}
		key, above, isKnown := r.topmost(pod)
		if isKnown {
			_, ok = above.object.GetAnnotations()[slackAnnotation]
			seen[key] = seen[key] || ok
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		row := &pb.SlackRequest{Object: key, Amount: amount}
		if isKnown {
			row.Scale = scaleOf(above)
		} else if metav1.GetControllerOfNoCopy(pod) == nil {
			row.Scale = ptr.To(int32(1))
		}
		r.keep(r.withPod(row, pod, namespaceOf(pod)))
	}
}

// topmost returns the key of the topmost known controller of a pod, or of the
// pod itself, and the controller, if it is known.
func (r *slackReader) topmost(pod *corev1.Pod) (string, workload, bool) {
	namespace := namespaceOf(pod)
	key := "Pod/" + namespace + "/" + pod.Name
	var above workload
	isKnown := false
	owner := metav1.GetControllerOfNoCopy(pod)
	for owner != nil {
		key = owner.Kind + "/" + namespace + "/" + owner.Name
		above, isKnown = r.workloads.find(owner.Kind, namespace, owner.Name)
		owner = nil
		if isKnown {
			owner = metav1.GetControllerOfNoCopy(above.object)
		}
	}
	return key, above, isKnown
}

func (r *slackReader) addBuffers() {
	for _, one := range r.objects.CapacityBuffers {
		row := &pb.SlackRequest{Object: "CapacityBuffer/" + keyOf(one)}
		whole, err := r.buffer(row, one)
		if err != nil {
			whole = &pb.SlackRequest{Object: row.Object, Problem: err.Error()}
		}
		r.keep(whole)
	}
}

func (r *slackReader) buffer(row *pb.SlackRequest, buffer *CapacityBuffer) (*pb.SlackRequest, error) {
	spec, namespace := &buffer.Spec, namespaceOf(buffer)
	if strategy := cmp.Or(ptr.Deref(spec.ProvisioningStrategy, ""), activeCapacity); strategy != activeCapacity {
		return nil, badField("spec.provisioningStrategy", "use "+activeCapacity, "'%s' is not served", strategy)
	}
	for _, one := range []struct {
		field string
		count *int32
	}{{"replicas", spec.Replicas}, {"percentage", spec.Percentage}} {
		if one.count != nil && *one.count < 0 {
			return nil, badField("spec."+one.field, "give a number of at least 0", "%d is not a count", *one.count)
		}
	}
	row.Replicas, row.Percentage = spec.Replicas, spec.Percentage
	if err := r.addLimits(row, spec.Limits); err != nil {
		return nil, err
	}
	if err := r.addGang(row, buffer); err != nil {
		return nil, err
	}
	if (spec.PodTemplateRef == nil) == (spec.ScalableRef == nil) {
		return nil, badField("spec", "give one of the two", "it needs either podTemplateRef or scalableRef")
	}
	if spec.ScalableRef != nil {
		return r.scaled(row, spec.ScalableRef, namespace)
	}
	key := namespace + "/" + spec.PodTemplateRef.Name
	if one := r.templates[key]; one != nil {
		return r.withTemplate(row, &one.Template, namespace), nil
	}
	return nil, badField("spec.podTemplateRef", "create it", "there is no PodTemplate %s", key)
}

// addLimits adds a buffer's limits, rounded down: they are not to be exceeded.
func (r *slackReader) addLimits(row *pb.SlackRequest, limits corev1.ResourceList) error {
	found, err := amountsOf(limits)
	if err != nil {
		return err
	}
	for _, name := range sortedKeys(found) {
		milli := found[name]
		if name != corev1.ResourceCPU {
			milli /= 1000
		}
		row.Limits = append(row.Limits, &pb.ResourceAmount{
			Resource: r.dictionary.resource(string(name)), Amount: min(milli, mostOfALimit),
		})
	}
	return nil
}

func (r *slackReader) scaled(row *pb.SlackRequest, reference *ScalableObjectReference, namespace string) (*pb.SlackRequest, error) {
	if !isServed(reference.Kind) {
		return nil, badField("spec.scalableRef.kind",
			"use one of Deployment, StatefulSet, Job, ReplicaSet, ReplicationController", "'%s' is not served", reference.Kind)
	}
	one, ok := r.workloads.find(reference.Kind, namespace, reference.Name)
	if !ok {
		return nil, badField("spec.scalableRef", "create it", "there is no %s %s/%s", reference.Kind, namespace, reference.Name)
	}
	row.Scale = scaleOf(one)
	return r.withTemplate(row, one.template, namespace), nil
}

// withTemplate completes a request with the pod of a template.
func (r *slackReader) withTemplate(row *pb.SlackRequest, template *corev1.PodTemplateSpec, namespace string) *pb.SlackRequest {
	if template == nil {
		return &pb.SlackRequest{Object: row.Object, Problem: "it has no pod template"}
	}
	return r.withPod(row, podOfTemplate(template, namespace, "placeholder"), namespace)
}

func (r *slackReader) withPod(row *pb.SlackRequest, pod *corev1.Pod, namespace string) *pb.SlackRequest {
	_, affinity := splitPin(pod.Spec.Affinity)
	spec, err := r.specs.index(pod, affinity, mountsOf(pod), true)
	if err != nil {
		return &pb.SlackRequest{Object: row.Object, Problem: fmt.Sprintf("its pods cannot be read: %s", err)}
	}
	row.Spec = spec
	row.Namespace = namespace
	row.LabelSet = r.dictionary.labelSet(pod.Labels)
	return row
}
