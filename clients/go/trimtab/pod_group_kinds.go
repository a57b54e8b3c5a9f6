package trimtab

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodGroup is a group of pods of `scheduling.k8s.io`. Its JSON form takes those
// of v1alpha2 (Kubernetes 1.36), v1alpha3 and v1beta1 (1.37).
type PodGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PodGroupSpec   `json:"spec,omitempty"`
	Status PodGroupStatus `json:"status,omitempty"`
}

// PodGroupStatus names the claims that were made for a group.
type PodGroupStatus struct {
	ResourceClaimStatuses []corev1.PodResourceClaimStatus `json:"resourceClaimStatuses,omitempty"`
}

// PodGroupSpec says how the pods of a group are scheduled, and of which Workload
// it is: PodGroupTemplateRef in 1.36, WorkloadRef in 1.37.
type PodGroupSpec struct {
	PodGroupTemplateRef *PodGroupTemplateReference `json:"podGroupTemplateRef,omitempty"`
	WorkloadRef         *WorkloadReference         `json:"workloadRef,omitempty"`
	// ResourceClaims are shared by the pods that have the same entries.
	ResourceClaims []corev1.PodResourceClaim `json:"resourceClaims,omitempty"`
	PodGroupRules  `json:",inline"`
}

// PodGroupRules are what groups and their templates in a Workload have in common.
type PodGroupRules struct {
	SchedulingPolicy      *PodGroupPolicy        `json:"schedulingPolicy,omitempty"`
	SchedulingConstraints *PodGroupConstraints   `json:"schedulingConstraints,omitempty"`
	DisruptionMode        PodGroupDisruptionMode `json:"disruptionMode,omitempty"`
	Priority              *int32                 `json:"priority,omitempty"`
}

// PodGroupPolicy has one field: the pods are on their own, or a gang.
type PodGroupPolicy struct {
	Basic *struct{}   `json:"basic,omitempty"`
	Gang  *GangPolicy `json:"gang,omitempty"`
}

// GangPolicy asks for at least so many pods at the same time, or none.
type GangPolicy struct {
	MinCount int32 `json:"minCount,omitempty"`
}

// PodGroupConstraints say where the pods of a group can be.
type PodGroupConstraints struct {
	Topology []PodGroupTopology `json:"topology,omitempty"`
}

// PodGroupTopology is a label of nodes of which all pods have the same value.
type PodGroupTopology struct {
	Key string `json:"key"`
}

// PodGroupDisruptionMode is what the disruption of one pod means: "Pod" or
// "PodGroup" in 1.36, "single" or "all" in 1.37, where it is an object.
type PodGroupDisruptionMode string

// UnmarshalJSON reads either form.
func (m *PodGroupDisruptionMode) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*m = PodGroupDisruptionMode(text)
		return nil
	}
	var object struct {
		All *struct{} `json:"all"`
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	*m = "single"
	if object.All != nil {
		*m = "all"
	}
	return nil
}

// PodGroupTemplateReference says where a group is from, in 1.36.
type PodGroupTemplateReference struct {
	Workload *WorkloadReference `json:"workload,omitempty"`
}

// WorkloadReference names a Workload in the same namespace.
type WorkloadReference struct {
	WorkloadName string `json:"workloadName,omitempty"`
}

// Workload is the object of `scheduling.k8s.io` from which groups are made.
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec WorkloadSpec `json:"spec,omitempty"`
}

// WorkloadSpec names the controller of a workload's pods.
type WorkloadSpec struct {
	ControllerRef     *ScalableObjectReference `json:"controllerRef,omitempty"`
	PodGroupTemplates []PodGroupTemplate       `json:"podGroupTemplates,omitempty"`
}

// PodGroupTemplate is a group that a workload makes.
type PodGroupTemplate struct {
	Name          string `json:"name"`
	PodGroupRules `json:",inline"`
}

// VolcanoPodGroup is a group of `scheduling.volcano.sh`.
type VolcanoPodGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec VolcanoPodGroupSpec `json:"spec,omitempty"`
}

// VolcanoPodGroupSpec says how many pods run at least.
type VolcanoPodGroupSpec struct {
	MinMember int32 `json:"minMember,omitempty"`
}
