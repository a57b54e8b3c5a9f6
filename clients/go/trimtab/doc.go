// Package trimtab is a client of Trimtab's planner for programs in Go: it sends Kubernetes objects as they are, once all
// of them and then those that have changed, and returns plans. What objects mean is the planner's to say.
package trimtab
