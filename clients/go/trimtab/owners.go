package trimtab

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	pb "trimtab.dev/clients/go/trimtabv1"
)

const revisionAnnotation = "deployment.kubernetes.io/revision"

var revisionText = regexp.MustCompile(`^[0-9]{1,18}$`)

// workload is a controller of pods, of whichever kind.
type workload struct {
	kind, apiVersion string
	object           metav1.Object
	desired, current *int32
	selector         *metav1.LabelSelector
	template         *corev1.PodTemplateSpec
}

// key returns "kind/namespace/name".
func (w workload) key() string {
	return w.kind + "/" + keyOf(w.object)
}

func isControllerKind(kind string) bool {
	switch kind {
	case "ReplicaSet", "StatefulSet", "ReplicationController", "Deployment", "Job", "DaemonSet":
		return true
	}
	return false
}

// workloads are all controllers: by kind, in the order in which snapshots read
// them, sorted by namespace and name within a kind; and by "kind/namespace/name".
type workloads struct {
	byKind [][]workload
	byKey  map[string]workload
}

// find returns a controller of a kind whose slack counts.
func (w *workloads) find(kind, namespace, name string) (workload, bool) {
	if !isServed(kind) {
		return workload{}, false
	}
	one, ok := w.byKey[kind+"/"+namespace+"/"+name]
	return one, ok
}

// workloadsOf returns the controllers among sorted objects.
func workloadsOf(objects *Objects) *workloads {
	out := &workloads{byKey: map[string]workload{}}
	out.byKind = [][]workload{
		collect(objects.ReplicaSets, func(one *appsv1.ReplicaSet) workload {
			return workload{"ReplicaSet", "apps/v1", one, atLeastOne(one.Spec.Replicas), &one.Status.Replicas,
				one.Spec.Selector, given(&one.Spec.Template)}
		}),
		collect(objects.StatefulSets, func(one *appsv1.StatefulSet) workload {
			return workload{"StatefulSet", "apps/v1", one, atLeastOne(one.Spec.Replicas), &one.Status.Replicas,
				one.Spec.Selector, given(&one.Spec.Template)}
		}),
		collect(objects.ReplicationControllers, func(one *corev1.ReplicationController) workload {
			var selector *metav1.LabelSelector
			if one.Spec.Selector != nil {
				selector = &metav1.LabelSelector{MatchLabels: one.Spec.Selector}
			}
			return workload{"ReplicationController", "v1", one, atLeastOne(one.Spec.Replicas), &one.Status.Replicas,
				selector, one.Spec.Template}
		}),
		collect(objects.Deployments, func(one *appsv1.Deployment) workload {
			return workload{"Deployment", "apps/v1", one, atLeastOne(one.Spec.Replicas), present(one.Status.Replicas),
				one.Spec.Selector, given(&one.Spec.Template)}
		}),
		collect(objects.Jobs, func(one *batchv1.Job) workload {
			return workload{"Job", "batch/v1", one, atLeastOne(one.Spec.Parallelism), &one.Status.Active,
				one.Spec.Selector, given(&one.Spec.Template)}
		}),
		collect(objects.DaemonSets, func(one *appsv1.DaemonSet) workload {
			return workload{"DaemonSet", "apps/v1", one, &one.Status.DesiredNumberScheduled,
				&one.Status.CurrentNumberScheduled, one.Spec.Selector, given(&one.Spec.Template)}
		}),
	}
	for _, ofKind := range out.byKind {
		for _, one := range ofKind {
			out.byKey[one.key()] = one
		}
	}
	return out
}

func collect[T metav1.Object](from []T, of func(T) workload) []workload {
	out := make([]workload, len(from))
	for i, one := range from {
		out[i] = of(one)
	}
	return out
}

// atLeastOne returns replicas; missing ones are 1, the API's default.
func atLeastOne(replicas *int32) *int32 {
	return ptr.To(ptr.Deref(replicas, 1))
}

// present returns a number that objects leave out if it is 0: not known then.
func present(replicas int32) *int32 {
	if replicas == 0 {
		return nil
	}
	return &replicas
}

// given returns a template with containers; nil for an empty one.
func given(template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	if len(template.Spec.Containers) == 0 {
		return nil
	}
	return template
}

// owners returns the rows of controllers that own a pod, or may come to own one.
func (b *builder) owners(wanted map[string]bool) ([]*pb.Owner, error) {
	var rows []*pb.Owner
	for _, ofKind := range b.workloads.byKind {
		for _, one := range ofKind {
			row, err := b.ownerRow(one)
			if err != nil {
				return nil, ofObject(one.kind, keyOf(one.object), err)
			}
			mayOwn := row.Kind != "Deployment" && row.GetDesiredReplicas() > 0
			if wanted[row.Uid] || row.PodTemplate != nil || mayOwn {
				rows = append(rows, row)
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b *pb.Owner) int {
		return cmp.Or(cmp.Compare(a.Uid, b.Uid), cmp.Compare(a.Kind, b.Kind))
	})
	for i := 1; i < len(rows); i++ {
		if before, row := rows[i-1], rows[i]; before.Uid == row.Uid {
			err := badField("metadata.uid", "leave one of the two out", "%s is the uid of %s %s/%s too",
				row.Uid, before.Kind, before.Namespace, before.Name)
			return nil, ofObject(row.Kind, row.Namespace+"/"+row.Name, err)
		}
	}
	return rows, nil
}

func (b *builder) ownerRow(one workload) (*pb.Owner, error) {
	for field, count := range map[string]*int32{"spec": one.desired, "status": one.current} {
		if count != nil && *count < 0 {
			return nil, badField(field, "give a number of at least 0", "%d replicas are absurd", *count)
		}
	}
	selected, err := labelSelector(one.selector)
	if err != nil {
		return nil, below("spec.selector", err)
	}
	if selected != nil && len(selected.requirements) == 0 {
		selected = nil
	}
	row := &pb.Owner{
		Uid: uidOf(one.kind, one.object), Kind: one.kind, Name: one.object.GetName(), Namespace: namespaceOf(one.object),
		DesiredReplicas: one.desired, CurrentReplicas: one.current, ApiVersion: one.apiVersion,
		Selector: b.dictionary.selector(selected), Controller: controllerOf(one.object),
		Revision: revisionOf(one.object),
	}
	if one.kind != "DaemonSet" && one.kind != "Deployment" && one.template != nil {
		found, err := podRequests(&one.template.Spec, nil)
		if err != nil {
			return nil, below("spec.template.spec", err)
		}
		for _, amount := range found {
			row.PodRequests = append(row.PodRequests, &pb.ResourceAmount{
				Resource: b.dictionary.resource(amount.name), Amount: min(amount.amount, mostRequested),
			})
		}
	}
	if one.kind == "DaemonSet" && one.template != nil {
		pod := daemonPod(one.template, row.Namespace, row.Name)
		if row.PodTemplate, err = b.templatePod(pod); err != nil {
			return nil, below("spec.template", err)
		}
	}
	return row, nil
}

// controllerOf returns the controller of a controller as "Kind/namespace/name".
func controllerOf(object metav1.Object) string {
	above := metav1.GetControllerOfNoCopy(object)
	if above == nil || above.Kind == "" || above.Name == "" {
		return ""
	}
	return above.Kind + "/" + namespaceOf(object) + "/" + above.Name
}

func revisionOf(object metav1.Object) *int64 {
	text := object.GetAnnotations()[revisionAnnotation]
	if !revisionText.MatchString(text) {
		return nil
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}
	return &value
}
