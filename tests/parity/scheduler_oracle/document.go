package main

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Document is one question, and the form in which it is recorded.
type Document struct {
	Name string `json:"name"`
	// Mode says what is asked:
	//   matrix     each pending pod against each node, nothing placed in between;
	//   simulate   pending pods in order, each placed on the first node of nodeOrder that it fits;
	//   verify     placements in order, each checked, then placed whatever the answer;
	//   selfcheck  each running pod taken out, asked about on each node, and put back;
	//   normalize  the document as an API server would have stored it.
	Mode string `json:"mode"`

	// FeatureGates: gates of Kubernetes that differ from their default, for this document.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`

	NodeOrder  []string    `json:"nodeOrder,omitempty"`
	Placements []Placement `json:"placements,omitempty"`
	// Admit: for whom matchLabelKeys is merged, as the API server does on create:
	// "" for none (the objects were stored already), "pending" or "all".
	Admit string `json:"admit,omitempty"`
	// Validate: report what the API server would refuse.
	Validate bool `json:"validate,omitempty"`

	Nodes   []v1.Node `json:"nodes"`
	Pods    []v1.Pod  `json:"pods,omitempty"`
	Pending []v1.Pod  `json:"pending,omitempty"`

	Namespaces        []v1.Namespace               `json:"namespaces,omitempty"`
	PVCs              []v1.PersistentVolumeClaim   `json:"pvcs,omitempty"`
	PVs               []v1.PersistentVolume        `json:"pvs,omitempty"`
	StorageClasses    []storagev1.StorageClass     `json:"storageClasses,omitempty"`
	CSINodes          []storagev1.CSINode          `json:"csiNodes,omitempty"`
	CSIDrivers        []storagev1.CSIDriver        `json:"csiDrivers,omitempty"`
	VolumeAttachments []storagev1.VolumeAttachment `json:"volumeAttachments,omitempty"`
}

// Placement puts a pending pod ("namespace/name") on a node.
type Placement struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
}

// Answers is the answer to one document.
type Answers struct {
	Name string `json:"name"`
	// Invalid: "node/NAME" or "pod/NS/NAME" to the API server's validation errors.
	Invalid map[string][]string `json:"invalid,omitempty"`
	Answers []Answer            `json:"answers"`
}

// Answer is about one pod, in the order asked.
type Answer struct {
	Pod string `json:"pod"`
	// Node: simulate: where the pod went, "" for nowhere; verify: where it was put;
	// selfcheck: where it was recorded. Absent in a matrix.
	Node *string `json:"node,omitempty"`
	// Failing: plugin -> its message -> the nodes it refuses. A node that was asked about
	// and stands under no plugin fits. Messages of status Error begin with "error: ".
	Failing map[string]map[string][]string `json:"failing,omitempty"`
}
