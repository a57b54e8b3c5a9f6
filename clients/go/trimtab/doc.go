// Package trimtab is a client of Trimtab's planner for programs in Go.
//
// Build turns Kubernetes objects, as informers and listers hold them, into a
// snapshot: the same message, byte for byte, that Trimtab's own Python client
// makes of the same objects. A Client sends snapshots to a planner, whole or as
// the difference to the last one, and returns plans.
//
// Build changes none of its objects, uses no clock and no environment, and
// gives equal bytes for equal objects, whatever their order.
//
// It reads what Objects names. Kinds that have no field there (NodePool and
// NodeClaim of Karpenter, and all of resource.k8s.io) are not read; no node fits
// a pod that claims devices, and the plan says why.
package trimtab
