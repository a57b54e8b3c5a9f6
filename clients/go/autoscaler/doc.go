// Package autoscaler lets a Cluster Autoscaler that is built as a library follow Trimtab's plans, without a socket of
// its own: which nodes are looked at first, which go, and which node group grows.
//
// This package knows nothing of the Cluster Autoscaler; package processors, built with the tag cluster_autoscaler, has
// the types that fit its interfaces.
package autoscaler
