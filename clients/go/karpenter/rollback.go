package karpenter

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
)

// commandAnnotation is on the NodeClaims of a command that may be rolled back: its id.
const commandAnnotation = "trimtab.dev/command"

// rollBackTime is for how long new nodes of a failed command are looked for: they may be seen late.
const rollBackTime = time.Minute

// rollBack removes the new nodes of commands that have failed, of which one could not be created or never came: the old
// nodes stay, so nobody needs them. One that has pods by now stays, and so does one that is to get some.
func (m *Method) rollBack(ctx context.Context) {
	m.failed = slices.DeleteFunc(m.failed, func(one *startedCommand) bool { return m.parts.Clock.Since(one.failedAt) > rollBackTime })
	if len(m.failed) == 0 {
		return
	}
	claims := &v1.NodeClaimList{}
	if err := m.parts.Client.List(ctx, claims); err != nil {
		log.FromContext(ctx).Error(err, "cannot look for new nodes of a failed command of trimtab")
		return
	}
	nodes := map[string]*state.StateNode{}
	for node := range m.parts.Cluster.Nodes() {
		if node.NodeClaim != nil {
			nodes[node.NodeClaim.Name] = node
		}
	}
	isFailed := func(claim *v1.NodeClaim) bool {
		return slices.ContainsFunc(m.failed, func(one *startedCommand) bool { return one.command == claim.Annotations[commandAnnotation] })
	}
	for at := range claims.Items {
		claim := &claims.Items[at]
		if claim.DeletionTimestamp.IsZero() && isFailed(claim) && !m.isNeeded(ctx, nodes[claim.Name]) {
			m.removeNew(ctx, claim)
		}
	}
}

func (m *Method) removeNew(ctx context.Context, claim *v1.NodeClaim) {
	if err := client.IgnoreNotFound(m.parts.Client.Delete(ctx, claim)); err != nil {
		log.FromContext(ctx).Error(err, "cannot remove a new node of a failed command of trimtab", "NodeClaim", claim.Name)
		return
	}
	rolledBackTotal.Inc()
	log.FromContext(ctx).Info("removed a new node of a failed command of trimtab", "NodeClaim", claim.Name)
}

// isNeeded returns whether a new node has pods, or is to get some. nil = it is not there yet.
func (m *Method) isNeeded(ctx context.Context, node *state.StateNode) bool {
	if node == nil {
		return false
	}
	pods, err := node.CurrentlyReschedulablePods(ctx, m.parts.Client, m.parts.Clock, m.parts.Recorder)
	return err != nil || len(pods) > 0 || m.parts.Cluster.IsNodeNominated(node.ProviderID())
}
