package trimtab

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// NodeGroup is a set of similar nodes whose size can change: Trimtab's own kind `trimtab.dev/v1` NodeGroup. Its name is
// the group's id. Fields mean what `docs/plan.md` says.
type NodeGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NodeGroupSpec   `json:"spec,omitempty"`
	Status NodeGroupStatus `json:"status,omitzero"`
}

// NodeGroupSpec says how large a group may be, and what its nodes are.
type NodeGroupSpec struct {
	MinSize int32 `json:"minSize,omitempty"`
	// MaxSize is REQUIRED; nil is refused.
	MaxSize *int32 `json:"maxSize,omitempty"`
	// TargetSize is the size requested from the cloud; nil = the number of nodes.
	TargetSize *int32 `json:"targetSize,omitempty"`
	// A node belongs to the group that lists it in Nodes, or whose NodeSelector is not empty and matches its labels. A
	// node in two groups is an error.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	Nodes        []string          `json:"nodes,omitempty"`
	// Price of one node for one hour, in any one currency; nil = not known.
	Price *float64 `json:"price,omitempty"`
	// Template is a new node of the group; nil = like one of its nodes.
	Template *NodeTemplate `json:"template,omitempty"`
	// All nodes or none.
	ZeroOrMax bool `json:"zeroOrMax,omitempty"`
	// DaemonSetPods run on each new node; empty = those of the DaemonSets.
	DaemonSetPods []*corev1.Pod `json:"daemonSetPods,omitempty"`
}

// NodeTemplate is a new node: its labels, taints, capacity, allocatable amounts.
type NodeTemplate struct {
	corev1.Node `json:",inline"`
	// ResourceSlices are those that drivers publish for each new node; nil = those of one of the group's nodes.
	ResourceSlices []*resourcev1.ResourceSlice `json:"resourceSlices,omitempty"`
}

// NodeGroupStatus says how a group is, and what happened to it last. Health is "Healthy", "Unhealthy", "BackedOff" or
// "", not known.
type NodeGroupStatus struct {
	Health           string       `json:"health,omitempty"`
	BackoffUntil     *metav1.Time `json:"backoffUntil,omitempty"`
	LastScaleUpTime  *metav1.Time `json:"lastScaleUpTime,omitempty"`
	LastDeletionTime *metav1.Time `json:"lastDeletionTime,omitempty"`
	LastFailureTime  *metav1.Time `json:"lastFailureTime,omitempty"`
}

// NewNodeGroup returns a node group with a name.
func NewNodeGroup(name string, spec NodeGroupSpec) *NodeGroup {
	return &NodeGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: "trimtab.dev/v1", Kind: "NodeGroup"},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec,
	}
}

// DeepCopyObject is for runtime.Object.
func (g *NodeGroup) DeepCopyObject() runtime.Object {
	made := &NodeGroup{}
	data, err := json.Marshal(g)
	if err == nil {
		err = json.Unmarshal(data, made)
	}
	if err != nil {
		panic(err) // all its fields have JSON
	}
	return made
}
