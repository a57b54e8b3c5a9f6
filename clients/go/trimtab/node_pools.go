package trimtab

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// NodePool is Karpenter's kind (`karpenter.sh/v1`), as far as plans need it:
// nodes of any offering that its requirements allow. Fields of v1beta1 that v1
// has elsewhere are read where they were.
type NodePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   *NodePoolSpec  `json:"spec,omitempty"`
	Status NodePoolStatus `json:"status,omitempty"`
}

// NodePoolStatus is `status` of a NodePool.
type NodePoolStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodePoolSpec is `spec` of a NodePool.
type NodePoolSpec struct {
	Template   *NodePoolTemplate   `json:"template,omitempty"`
	Disruption *NodePoolDisruption `json:"disruption,omitempty"`
	Limits     corev1.ResourceList `json:"limits,omitempty"`
	Weight     int32               `json:"weight,omitempty"`
	// Replicas is how many nodes the pool has, whatever pods need; nil = what
	// they need.
	Replicas *int64 `json:"replicas,omitempty"`
}

// NodePoolTemplate is what the nodes of a pool are like.
type NodePoolTemplate struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec *NodePoolTemplateSpec `json:"spec,omitempty"`
}

// NodePoolTemplateSpec is `spec` of the template.
type NodePoolTemplateSpec struct {
	Taints                 []corev1.Taint        `json:"taints,omitempty"`
	StartupTaints          []corev1.Taint        `json:"startupTaints,omitempty"`
	Requirements           []NodePoolRequirement `json:"requirements,omitempty"`
	ExpireAfter            *string               `json:"expireAfter,omitempty"`
	TerminationGracePeriod *string               `json:"terminationGracePeriod,omitempty"`
}

// NodePoolRequirement is a requirement on a label of nodes.
type NodePoolRequirement struct {
	Key      string   `json:"key,omitempty"`
	Operator string   `json:"operator,omitempty"`
	Values   []string `json:"values,omitempty"`
	// MinValues is how many different values the allowed machines must have; 0 =
	// any number.
	MinValues int32 `json:"minValues,omitempty"`
}

// NodePoolDisruption says when the nodes of a pool may be disrupted.
type NodePoolDisruption struct {
	ConsolidationPolicy *string          `json:"consolidationPolicy,omitempty"`
	ConsolidateAfter    *string          `json:"consolidateAfter,omitempty"`
	ExpireAfter         *string          `json:"expireAfter,omitempty"`
	Budgets             []NodePoolBudget `json:"budgets,omitempty"`
}

// NodePoolBudget says how many nodes of a pool may be disrupted at the same
// time.
type NodePoolBudget struct {
	Nodes    *intstr.IntOrString `json:"nodes,omitempty"`
	Reasons  []string            `json:"reasons,omitempty"`
	Schedule *string             `json:"schedule,omitempty"`
	Duration *string             `json:"duration,omitempty"`
}

// NodeClaim is Karpenter's kind: a node that it has requested, registered or
// not. Its labels say of which pool and offering it is.
type NodeClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Status NodeClaimStatus `json:"status,omitempty"`
}

// NodeClaimStatus is `status` of a NodeClaim: the node that it became, and what
// the machine has.
type NodeClaimStatus struct {
	NodeName    string              `json:"nodeName,omitempty"`
	Capacity    corev1.ResourceList `json:"capacity,omitempty"`
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
}

// nodesOfDeletedClaims returns the names of the nodes whose NodeClaims are being
// deleted.
func nodesOfDeletedClaims(claims []*NodeClaim) map[string]bool {
	found := map[string]bool{}
	for _, claim := range claims {
		if claim.DeletionTimestamp != nil {
			found[claim.Status.NodeName] = true
		}
	}
	return found
}

func (p *NodePool) template() NodePoolTemplate {
	if p.Spec == nil || p.Spec.Template == nil {
		return NodePoolTemplate{}
	}
	return *p.Spec.Template
}

func (p *NodePool) ofNodes() NodePoolTemplateSpec {
	if of := p.template().Spec; of != nil {
		return *of
	}
	return NodePoolTemplateSpec{}
}

func (p *NodePool) disruption() NodePoolDisruption {
	if p.Spec == nil || p.Spec.Disruption == nil {
		return NodePoolDisruption{}
	}
	return *p.Spec.Disruption
}
