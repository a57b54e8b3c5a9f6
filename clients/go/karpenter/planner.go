package karpenter

import (
	"context"
	"fmt"
	"time"

	"trimtab.dev/clients/go/trimtab"
	"trimtab.dev/clients/go/trimtabv1"
)

// Dial returns the planner at the address of the options. It connects with the first plan, so that Karpenter starts
// without a planner too; the error is for options that cannot be used.
func Dial(given *Options) (Planner, error) {
	client, err := trimtab.NewClient(given.Address, trimtab.Options{
		Security: given.Security,
		// The next round is the next attempt; one more bridges a planner that has just been replaced.
		Retry: trimtab.RetryPolicy{UnavailableCalls: 2, OverloadedCalls: 1},
	})
	if err != nil {
		return nil, err
	}
	return &remote{client, given.ClusterName, given.Settings}, nil
}

// remote is a planner that runs as a service.
type remote struct {
	client      *trimtab.Client
	clusterName string
	settings    Settings
}

func (r *remote) Plan(ctx context.Context, cluster *Cluster, now time.Time) (*Plan, error) {
	answer, err := r.client.Plan(ctx, objectsOf(cluster), requestOf(cluster, r.clusterName, r.settings, now))
	if err != nil {
		return nil, err
	}
	decision := answer.GetReplacement()
	if decision.GetResult() == trimtabv1.ReplacementResult_REPLACEMENT_ERROR {
		return nil, fmt.Errorf("the planner failed to decide, %s", decision.GetDetail())
	}
	return planOf(decision), nil
}
