package main

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Document is a cluster and pods that come one after the other, or CEL expressions and devices.
type Document struct {
	Name string `json:"name"`
	// Features that are on.
	Features structured.Features `json:"features"`

	Nodes   []*v1.Node                   `json:"nodes,omitempty"`
	Classes []*resourceapi.DeviceClass   `json:"classes,omitempty"`
	Slices  []*resourceapi.ResourceSlice `json:"slices,omitempty"`
	// Allocated: devices in use before the first pod comes.
	Allocated []resourceapi.DeviceRequestAllocationResult `json:"allocated,omitempty"`
	// Pods: their claims. Each pod is asked about on the nodes in order, up to the first with all its devices,
	// which are in use from then on.
	Pods [][]*resourceapi.ResourceClaim `json:"pods,omitempty"`

	// Steps: pods with claims of their own and shared ones come and go; each goes to the first node that has all it
	// claims. Claims are all claims of them; Kept are the names of those that PodGroups use, which keep their devices.
	Claims []*resourceapi.ResourceClaim `json:"claims,omitempty"`
	Kept   []string                     `json:"kept,omitempty"`
	Steps  []Step                       `json:"steps,omitempty"`

	// Expressions are evaluated for each of the devices, each with the driver that publishes it.
	Expressions []string `json:"expressions,omitempty"`
	Devices     []Device `json:"devices,omitempty"`
}

// Device is a device of a driver.
type Device struct {
	Driver string             `json:"driver"`
	Device resourceapi.Device `json:"device"`
}

// Answers is the answer to one document: of each pod on each node it was asked about, and of each expression.
type Answers struct {
	Name        string             `json:"name"`
	Pods        [][]Answer         `json:"pods,omitempty"`
	Steps       [][]Answer         `json:"steps,omitempty"`
	Expressions []ExpressionAnswer `json:"expressions,omitempty"`
}

// Answer of one node; all empty: no devices there.
type Answer struct {
	// Claims that get devices, in the order of the pod's.
	Claims []ClaimAnswer `json:"claims,omitempty"`
	// Error: the scheduler gives the pod up.
	Error string `json:"error,omitempty"`
	// Invalid: no devices there, and some pool is invalid.
	Invalid bool `json:"invalid,omitempty"`
	// Timeout: the search took too long.
	Timeout bool `json:"timeout,omitempty"`
	// Elsewhere: a claim of the pod of a step has devices that the node does not reach.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Placed: the pod of a step goes there.
	Placed bool `json:"placed,omitempty"`
}

// ClaimAnswer is what a claim gets.
type ClaimAnswer struct {
	// Devices as [request, driver, pool, device].
	Devices  [][4]string         `json:"devices"`
	Admin    []int               `json:"admin,omitempty"`    // of the devices, by index
	Consumed []map[string]string `json:"consumed,omitempty"` // of shares; null for others; left out if all are null
	Nodes    *v1.NodeSelector    `json:"nodes,omitempty"`
}

// ExpressionAnswer is about one expression: the compiler's error, or a letter for each device: t, f, e (an error).
type ExpressionAnswer struct {
	Error   string   `json:"error,omitempty"`
	Results string   `json:"results,omitempty"`
	Errors  []string `json:"errors,omitempty"`
	Costs   []uint64 `json:"costs,omitempty"`
}
