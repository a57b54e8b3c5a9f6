// Package processors has what a Cluster Autoscaler of version 1.36 or 1.37 takes as processors and expander. It needs the
// Cluster Autoscaler's own module, k8s.io/autoscaler/cluster-autoscaler, which has no versions that Go can fetch: it is
// built with the tag cluster_autoscaler, in a workspace with a checkout of the Cluster Autoscaler (check.sh).
package processors
