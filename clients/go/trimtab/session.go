package trimtab

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	pb "trimtab.dev/clients/go/trimtabv1"
)

// chunkBytes of objects are in one message.
const chunkBytes = 1 << 20

// Object is an object of any kind: of k8s.io/api, Unstructured, or of a program's own types that name version and kind.
type Object interface {
	metav1.Object
	runtime.Object
}

// Cluster is a cluster as it is now. The client changes none of its objects, so they may come from informers; the
// program must not change them afterwards.
type Cluster struct {
	// Objects are all that the planner is to know of, in any order. Kinds that it does not read are left out. One with a
	// resourceVersion counts as unchanged while uid and version are the same; others are compared. A program that changes
	// a copy of an object removes the version from it.
	Objects []Object
	// Listed are kinds whose objects are all here, even if there are none: "there is no claim" differs from not knowing.
	Listed []schema.GroupVersionKind
	// Status is what the actuator says; nil = there is none.
	Status *pb.ActuatorStatus
}

// Add adds objects of one type to a cluster.
func Add[T Object](cluster *Cluster, objects ...T) {
	cluster.Objects = slices.Grow(cluster.Objects, len(objects))
	for _, one := range objects {
		cluster.Objects = append(cluster.Objects, one)
	}
}

// objectKey is what an object is known by.
type objectKey struct{ kind, namespace, name string }

func (a objectKey) compare(b objectKey) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

// sentObject is an object of a request. data : its JSON, where it has no version.
type sentObject struct {
	object  Object
	of      schema.GroupVersionKind
	read    *fields
	version string
	data    []byte
}

// session is what a planner has confirmed. numbers : keys of annotations that were sent.
type session struct {
	base    string
	objects map[objectKey]*sentObject
	listed  []schema.GroupVersionKind
	numbers []string
}

// changes are what a request sends, and the session after it.
type changes struct {
	next    session
	base    string
	put     []*sentObject
	deleted []*pb.ObjectKey
	lists   []schema.GroupVersionKind
}

// changesTo returns what has changed since the last confirmed request, and all of a cluster without one.
func (s *session) changesTo(cluster *Cluster, settings *pb.PlanSettings) (*changes, error) {
	numbers, known := numbersOf(settings), *s
	if known.base == "" || !slices.Equal(numbers, known.numbers) {
		known = session{}
	}
	next := session{objects: make(map[objectKey]*sentObject, len(cluster.Objects)), listed: cluster.Listed, numbers: numbers}
	found := &changes{next: next, base: known.base}
	podFields := knownContract().kinds["/Pod"].fields.withAnnotations(numbers)
	for _, object := range cluster.Objects {
		key, made, err := sentOf(object, podFields)
		before := known.objects[key]
		switch {
		case err != nil:
			return nil, err
		case made == nil:
			continue
		case next.objects[key] != nil:
			return nil, fmt.Errorf("%s %s/%s is given twice", key.kind, key.namespace, key.name)
		case before == nil || before.version != made.version || !bytes.Equal(before.data, made.data):
			found.put = append(found.put, made)
		}
		next.objects[key] = made
	}
	found.addDeleted(known.objects)
	for _, of := range cluster.Listed {
		if !slices.Contains(known.listed, of) {
			found.lists = append(found.lists, of)
		}
	}
	return found, nil
}

func (c *changes) addDeleted(known map[objectKey]*sentObject) {
	gone := []objectKey{}
	for key := range known {
		if c.next.objects[key] == nil {
			gone = append(gone, key)
		}
	}
	slices.SortFunc(gone, objectKey.compare)
	for _, key := range gone {
		version, kind := known[key].of.ToAPIVersionAndKind()
		c.deleted = append(c.deleted, &pb.ObjectKey{ApiVersion: version, Kind: kind, Namespace: key.namespace, Name: key.name})
	}
}

// sentOf returns an object as it is sent; nil = planners do not read its kind.
func sentOf(object Object, podFields *fields) (objectKey, *sentObject, error) {
	of, err := kindOf(object)
	read := knownContract().kinds[of.Group+"/"+of.Kind]
	if err != nil || read == nil {
		return objectKey{}, nil, err
	}
	key := objectKey{kind: read.name, name: object.GetName()}
	if read.isNamespaced {
		key.namespace = cmp.Or(object.GetNamespace(), metav1.NamespaceDefault)
	}
	made := &sentObject{object: object, of: of, read: read.fields}
	if read.name == "Pod" {
		made.read = podFields
	}
	if version := object.GetResourceVersion(); version != "" {
		made.version = string(object.GetUID()) + "/" + version
	} else {
		made.data, err = made.json()
	}
	return key, made, err
}

// kindOf returns version and kind of an object. Those of k8s.io/api that informers hold do not name theirs.
func kindOf(object Object) (schema.GroupVersionKind, error) {
	if of := object.GetObjectKind().GroupVersionKind(); of.Kind != "" {
		return of, nil
	}
	found, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("an object has no apiVersion and kind: %w", err)
	}
	return found[0], nil
}

// json returns the object without what planners do not read.
func (s *sentObject) json() ([]byte, error) {
	if s.data != nil {
		return s.data, nil
	}
	text, err := json.Marshal(s.object)
	if err != nil {
		return nil, fmt.Errorf("%s %s/%s: %w", s.of.Kind, s.object.GetNamespace(), s.object.GetName(), err)
	}
	head := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q`, s.of.GroupVersion(), s.of.Kind)
	out, _ := appendRead(head, text, s.read)
	if len(out) == len(head)+len("{}") {
		return append(head, '}'), nil
	}
	out[len(head)] = ','
	return out, nil
}

// send streams the objects in parts of about chunkBytes.
func (c *changes) send(stream func(*pb.PlanRequestPart) error) error {
	part, size := &pb.ObjectsPart{}, 0
	flush := func() error {
		full := &pb.PlanRequestPart{Part: &pb.PlanRequestPart_Objects{Objects: part}}
		part, size = &pb.ObjectsPart{}, 0
		return stream(full)
	}
	put := func(data []byte) (err error) {
		if size > 0 && size+len(data) > chunkBytes {
			err = flush()
		}
		part.Put, size = append(part.Put, data), size+len(data)
		return err
	}
	for _, of := range c.lists {
		if err := put(fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"items":[]}`, of.GroupVersion(), of.Kind+"List")); err != nil {
			return err
		}
	}
	for _, one := range c.put {
		data, err := one.json()
		if err := errors.Join(err, put(data)); err != nil {
			return err
		}
	}
	for at, one := range c.deleted {
		part.Delete, size = append(part.Delete, one), size+proto.Size(one)
		if size > chunkBytes && at < len(c.deleted)-1 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}
