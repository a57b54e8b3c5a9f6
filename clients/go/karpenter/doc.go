// Package karpenter lets a Trimtab planner choose which nodes Karpenter replaces, several by several.
//
// Method is one more disruption method of Karpenter's: it asks the planner for a set of nodes that leave, verifies the
// set with one simulation of Karpenter's own scheduler, and hands over one command, which Karpenter's queue carries
// out as any other. It decides nothing that Karpenter would not allow: candidates, budgets, prices of what may be
// launched, minimum values and the rules for spot nodes are Karpenter's. If the planner is away, slow, or wrong, it
// finds nothing, and Karpenter's own methods go on.
package karpenter
