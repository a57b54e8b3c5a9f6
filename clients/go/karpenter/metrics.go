package karpenter

import (
	"github.com/prometheus/client_golang/prometheus"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Results of asking the planner, values of the label `result` of trimtab_karpenter_plans_total.
const (
	planned   = "planned"
	nothing   = "nothing"
	away      = "unavailable"
	slow      = "deadline"
	denied    = "credentials"
	failed    = "failed"
	paused    = "paused"
	changed   = "changed"
	disagreed = "disagreement"
)

var (
	plansTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "trimtab_karpenter_plans_total",
		Help: "Plans asked for, by result: planned, nothing (no saving), and what makes Karpenter go on alone: unavailable, " +
			"deadline, credentials, failed, paused (not asked after failures).",
	}, []string{"result"})
	planSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "trimtab_karpenter_plan_duration_seconds", Help: "Time of reading the cluster and waiting for its plan.",
		Buckets: prometheus.ExponentialBuckets(0.05, 2, 10),
	})
	disagreementsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "trimtab_karpenter_disagreements_total", Help: "Plans that Karpenter did not carry out, by reason.",
	}, []string{"reason"})
	fallbacksTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "trimtab_karpenter_fallbacks_total",
		Help: "Rounds in which Karpenter's own consolidation went on because there was no plan, by reason.",
	}, []string{"reason"})
	commandsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "trimtab_karpenter_commands_total", Help: "Commands handed over, by state: started, completed, failed.",
	}, []string{"state"})
	leavingTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "trimtab_karpenter_replaced_nodes_total", Help: "Nodes that leave by commands handed over.",
	})
	comingTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "trimtab_karpenter_new_nodes_total", Help: "New nodes of commands handed over.",
	})
	rolledBackTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "trimtab_karpenter_rolled_back_nodes_total", Help: "New nodes that were removed because their command failed.",
	})
	savedTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "trimtab_karpenter_savings_total", Help: "What commands handed over save for one hour at least, in the currency of the prices.",
	})
	refusedSets = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "trimtab_karpenter_refused_sets", Help: "Sets of nodes that are not tried again for a while.",
	})
)

func init() {
	crmetrics.Registry.MustRegister(plansTotal, planSeconds, disagreementsTotal, fallbacksTotal, commandsTotal, leavingTotal, comingTotal, rolledBackTotal, savedTotal, refusedSets)
}
