package trimtab

import (
	"encoding/json"
	"math"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pb "trimtab.dev/clients/go/trimtabv1"
)

// mostPerHour is the largest price of a node and hour.
const mostPerHour = 1e12

// NodeGroup is a set of similar nodes whose size can change: Trimtab's own kind
// `trimtab.dev/v1` NodeGroup. Its name is the group's id.
type NodeGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NodeGroupSpec   `json:"spec,omitempty"`
	Status NodeGroupStatus `json:"status,omitempty"`
}

// NodeGroupSpec says how large a group may be, and what its nodes are.
type NodeGroupSpec struct {
	MinSize int32 `json:"minSize,omitempty"`
	// MaxSize is REQUIRED; nil is refused.
	MaxSize *int32 `json:"maxSize,omitempty"`
	// TargetSize is the size requested from the cloud; nil = the number of nodes.
	TargetSize *int32 `json:"targetSize,omitempty"`
	// A node belongs to the group that lists it in Nodes, or whose NodeSelector
	// is not empty and matches its labels. A node in two groups is an error.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	Nodes        []string          `json:"nodes,omitempty"`
	// Price of one node for one hour, in any one currency; nil = not known.
	Price *float64 `json:"price,omitempty"`
	// Template is a new node of the group: its labels, taints, capacity and
	// allocatable amounts. Without it an existing node is used.
	Template *corev1.Node `json:"template,omitempty"`
	// All nodes or none.
	ZeroOrMax bool `json:"zeroOrMax,omitempty"`
	// ResourceSlices are those that drivers publish for each new node; nil = those
	// of one of the group's nodes. In JSON they are `template.resourceSlices`.
	ResourceSlices []*resourcev1.ResourceSlice `json:"-"`

	// DaemonSetPods run on each new node; empty = the planner finds out from the
	// DaemonSets. Only in Go; the kind has no such field.
	DaemonSetPods []*corev1.Pod `json:"-"`
}

// UnmarshalJSON reads the kind's JSON, in which slices belong to the template.
func (s *NodeGroupSpec) UnmarshalJSON(data []byte) error {
	type plain NodeGroupSpec
	var more struct {
		Template *struct {
			ResourceSlices []*resourcev1.ResourceSlice `json:"resourceSlices"`
		} `json:"template"`
	}
	if err := json.Unmarshal(data, (*plain)(s)); err != nil {
		return err
	}
	if err := json.Unmarshal(data, &more); err != nil {
		return err
	}
	if more.Template != nil {
		s.ResourceSlices = more.Template.ResourceSlices
	}
	return nil
}

// NodeGroupStatus says how a group is, and what happened to it last. Health is
// "Healthy", "Unhealthy", "BackedOff" or "", not known.
type NodeGroupStatus struct {
	Health           string       `json:"health,omitempty"`
	BackoffUntil     *metav1.Time `json:"backoffUntil,omitempty"`
	LastScaleUpTime  *metav1.Time `json:"lastScaleUpTime,omitempty"`
	LastDeletionTime *metav1.Time `json:"lastDeletionTime,omitempty"`
	LastFailureTime  *metav1.Time `json:"lastFailureTime,omitempty"`
}

var healthCodes = map[string]pb.NodeGroupHealth_Code{
	"": pb.NodeGroupHealth_UNSPECIFIED, "Healthy": pb.NodeGroupHealth_HEALTHY,
	"Unhealthy": pb.NodeGroupHealth_UNHEALTHY, "BackedOff": pb.NodeGroupHealth_BACKED_OFF,
}

// membership finds the groups that name or select a node.
type membership struct {
	byName  map[string][]*NodeGroup
	byLabel map[pair][]*NodeGroup
}

func membershipOf(groups []*NodeGroup) membership {
	found := membership{map[string][]*NodeGroup{}, map[pair][]*NodeGroup{}}
	for _, group := range groups {
		for _, name := range group.Spec.Nodes {
			found.byName[name] = append(found.byName[name], group)
		}
		// Each group is looked up by one of its labels only.
		if keys := sortedKeys(group.Spec.NodeSelector); len(keys) > 0 {
			first := pair{keys[0], group.Spec.NodeSelector[keys[0]]}
			found.byLabel[first] = append(found.byLabel[first], group)
		}
	}
	return found
}

func (m membership) of(node *corev1.Node) []*NodeGroup {
	found := append([]*NodeGroup{}, m.byName[node.Name]...)
	for key, value := range node.Labels {
		for _, group := range m.byLabel[pair{key, value}] {
			if isSubset(group.Spec.NodeSelector, node.Labels) {
				found = append(found, group)
			}
		}
	}
	return found
}

// groupsOfNodes returns the group of each node that has one.
func groupsOfNodes(groups []*NodeGroup, nodes []*corev1.Node) (map[string]string, error) {
	members, out := membershipOf(groups), map[string]string{}
	for _, node := range nodes {
		for _, group := range members.of(node) {
			if other, ok := out[node.Name]; ok && other != group.Name {
				err := badField("spec", "exclude the node from nodeSelector or nodes of one of them",
					"node %s belongs to this group and to %s", node.Name, other)
				return nil, ofObject("NodeGroup", group.Name, err)
			}
			out[node.Name] = group.Name
		}
	}
	return out, nil
}

func isSubset(wanted, labels map[string]string) bool {
	for key, value := range wanted {
		if have, ok := labels[key]; !ok || have != value {
			return false
		}
	}
	return true
}

// groupRow returns the row of a group with size nodes.
func (b *builder) groupRow(group *NodeGroup, size int) (*pb.NodeGroup, error) {
	spec, status := &group.Spec, &group.Status
	target := int32(size)
	if spec.TargetSize != nil {
		target = *spec.TargetSize
	}
	if err := checkGroup(spec, target); err != nil {
		return nil, err
	}
	health, ok := healthCodes[status.Health]
	if !ok {
		return nil, badField("status.health", "use one of Healthy, Unhealthy, BackedOff", "%q is not a health value", status.Health)
	}
	row := &pb.NodeGroup{
		Id: group.Name, MinSize: spec.MinSize, MaxSize: *spec.MaxSize, TargetSize: target,
		PricePerHour: spec.Price, Health: health, BackoffUntil: timestamp(status.BackoffUntil),
		ZeroOrMax: spec.ZeroOrMax, LastScaleUpTime: timestamp(status.LastScaleUpTime),
		LastDeletionTime: timestamp(status.LastDeletionTime), LastFailureTime: timestamp(status.LastFailureTime),
	}
	if spec.Template == nil {
		return row, nil
	}
	var err error
	if row.Template, err = templateRow(spec.Template, b.dictionary); err != nil {
		return nil, below("spec.template", err)
	}
	for _, pod := range spec.DaemonSetPods {
		one, err := b.templatePod(pod)
		if err != nil {
			return nil, below("spec.daemonSetPods", err)
		}
		row.Template.DaemonsetPods = append(row.Template.DaemonsetPods, one)
	}
	return row, nil
}

func (b *builder) templatePod(pod *corev1.Pod) (*pb.TemplatePod, error) {
	_, affinity := splitPin(pod.Spec.Affinity)
	spec, err := b.specs.index(pod, affinity, mountsOf(pod), false)
	if err != nil {
		return nil, err
	}
	return &pb.TemplatePod{Namespace: namespaceOf(pod), Spec: spec, LabelSet: b.dictionary.labelSet(pod.Labels)}, nil
}

func checkGroup(spec *NodeGroupSpec, target int32) error {
	const remedy = "give a number of at least 0"
	switch {
	case spec.MaxSize == nil:
		return badField("spec.maxSize", "give the largest size of the group", "it is missing")
	case spec.MinSize < 0:
		return badField("spec.minSize", remedy, "%d is absurd", spec.MinSize)
	case *spec.MaxSize < 0:
		return badField("spec.maxSize", remedy, "%d is absurd", *spec.MaxSize)
	case target < 0:
		return badField("spec.targetSize", remedy, "%d is absurd", target)
	case spec.MinSize > *spec.MaxSize:
		return badField("spec.minSize", "give minSize <= maxSize", "%d is more than maxSize %d", spec.MinSize, *spec.MaxSize)
	case spec.Price != nil && (math.IsNaN(*spec.Price) || *spec.Price < 0 || *spec.Price > mostPerHour):
		return badField("spec.price", "give the price of a node and hour, 0 to 1e12", "%v is absurd", *spec.Price)
	}
	return nil
}
