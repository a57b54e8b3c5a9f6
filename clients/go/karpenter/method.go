package karpenter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/samber/lo"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	pscheduling "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/operator/options"
)

// consolidationType is the value of Karpenter's label `consolidation_type` for commands of a plan.
const consolidationType = "trimtab"

// Plan is what a planner has chosen: the first wave of its plan.
type Plan struct {
	// Leaving are the names of the nodes that go; none = nothing saves enough.
	Leaving []string
	// Coming has the id of the group of each new node.
	Coming []string
	// SavingPerHour is what the plan saves, in the currency of the prices.
	SavingPerHour float64
	// Limited says that a limit, and not the lack of savings, is why nothing leaves.
	Limited bool
	// Detail says more, for people.
	Detail string
}

// Planner makes plans.
type Planner interface {
	Plan(ctx context.Context, cluster *Cluster, now time.Time) (*Plan, error)
}

// Settings of the method.
type Settings struct {
	// Deadline bounds reading the cluster and waiting for its plan.
	Deadline time.Duration
	// ValidationDelay is how long a plan must stay valid before it is carried out, as Karpenter's.
	ValidationDelay time.Duration
	// HoldTime bounds how long no other consolidation begins while a command is in progress.
	HoldTime time.Duration
	// RefusalTime is how long a set of nodes that Karpenter refused is not tried again.
	RefusalTime time.Duration
	// MostLeaving bounds the nodes that leave by one command.
	MostLeaving int
	// LeastSaving is the share of what leaving nodes cost that a command must save at least.
	LeastSaving float64
	// LeastSavingPerPod is what a command must save for one hour and each pod that it moves.
	LeastSavingPerPod float64
}

// DefaultSettings returns the settings without flags.
func DefaultSettings() Settings {
	return Settings{
		Deadline: 10 * time.Second, ValidationDelay: 15 * time.Second, HoldTime: 5 * time.Minute,
		RefusalTime: 15 * time.Minute, MostLeaving: 100, LeastSaving: 0.05,
	}
}

// Parts are what the method needs of a running Karpenter.
type Parts struct {
	Karpenter
	Provisioner *provisioning.Provisioner
	Queue       *disruption.Queue
}

// consolidation is what candidates of Karpenter's own consolidation must fulfil.
type consolidation interface {
	ShouldDisrupt(context.Context, *disruption.Candidate) bool
}

// Method is a disruption method that carries out plans of a planner. It is used by one loop at a time.
type Method struct {
	parts    Parts
	planner  Planner
	settings Settings
	rules    consolidation
	observer observer
	memory   *memory
	totals   map[string]disruption.NodePoolTotals
	// settled is the state of the cluster for which the planner found nothing.
	settled time.Time
	started []*startedCommand
	// failed are those whose new nodes are removed again.
	failed []*startedCommand
}

// startedCommand is a command, until its nodes are gone or it has failed.
type startedCommand struct {
	ids   []string
	names []string
	at    time.Time
	// command is the id of the command, which its NodeClaims have as an annotation.
	command  string
	failedAt time.Time
}

// NewMethod returns a method.
func NewMethod(parts Parts, planner Planner, settings Settings) *Method {
	base := disruption.MakeConsolidation(parts.Clock, parts.Cluster, parts.Client, parts.Provisioner, parts.Cloud, parts.Recorder, parts.Queue)
	return &Method{
		parts: parts, planner: planner, settings: settings, rules: disruption.NewMultiNodeConsolidation(base),
		observer: observer{parts.Karpenter},
		memory:   newMemory(settings.MostLeaving),
	}
}

// ShouldDisrupt returns whether Karpenter's own consolidation may disrupt a node.
func (m *Method) ShouldDisrupt(ctx context.Context, candidate *disruption.Candidate) bool {
	return m.rules.ShouldDisrupt(ctx, candidate)
}

// Reason is that of Karpenter's consolidation, so that its budgets apply.
func (m *Method) Reason() v1.DisruptionReason { return v1.DisruptionReasonUnderutilized }

// Class is that of Karpenter's consolidation: pods and nodes that must not be disrupted are no candidates.
func (m *Method) Class() string { return disruption.GracefulDisruptionClass }

// ConsolidationType labels Karpenter's metrics.
func (m *Method) ConsolidationType() string { return consolidationType }

// SetNodePoolTotals takes what the policy Balanced compares with.
func (m *Method) SetNodePoolTotals(totals map[string]disruption.NodePoolTotals) { m.totals = totals }

// ComputeCommands returns a command, or none: then Karpenter's own methods are next. Whatever goes wrong here is no
// error of Karpenter's: it is counted, logged, and Karpenter goes on.
func (m *Method) ComputeCommands(ctx context.Context, budgets map[string]int, candidates ...*disruption.Candidate) (commands []disruption.Command, err error) {
	defer func() {
		if failure := recover(); failure != nil {
			m.fallBack(ctx, failed, fmt.Errorf("panic: %v", failure))
			commands, err = nil, nil
		}
	}()
	now := m.parts.Clock.Now()
	m.memory.forget(now)
	state := m.parts.Cluster.ConsolidationState()
	isBusy := m.IsBusy()
	m.rollBack(ctx)
	if isBusy || m.settled.Equal(state) {
		return nil, nil
	}
	plan, cluster, failure := m.plan(ctx, budgets, candidates)
	if failure != nil {
		m.fallBack(ctx, resultOf(failure), failure)
		return nil, ctx.Err()
	}
	if len(plan.Leaving) == 0 {
		log.FromContext(ctx).V(1).Info("trimtab found nothing to replace", "detail", plan.Detail)
		if !plan.Limited && !m.memory.restricts() {
			m.settled = state
		}
		return nil, nil
	}
	return m.carryOut(ctx, plan, cluster, candidates)
}

// carryOut returns the command of a plan, or says why there is none.
func (m *Method) carryOut(ctx context.Context, plan *Plan, cluster *Cluster, candidates []*disruption.Candidate) ([]disruption.Command, error) {
	command, err := m.verify(ctx, plan, cluster, candidates)
	var bad *disagreement
	var moved *changedError
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &bad):
		m.disagree(ctx, plan, bad)
		return nil, nil
	case errors.As(err, &moved):
		log.FromContext(ctx).Info("abandoned a plan of trimtab, the cluster has changed", "detail", moved.Error(), "nodes", plan.Leaving)
		m.fallBack(ctx, changed, err)
		return nil, nil
	case err != nil:
		m.fallBack(ctx, failed, err)
		return nil, nil
	}
	m.start(ctx, plan, command)
	return []disruption.Command{*command}, nil
}

// IsBusy returns whether a command is in progress. Until its nodes are gone, or HoldTime is over, neither this method
// nor Karpenter's own consolidation begins another.
func (m *Method) IsBusy() bool {
	isBusy, open := false, m.started[:0]
	for _, one := range m.started {
		there := m.there(one.ids)
		if m.parts.Queue.HasAny(one.ids...) || there.leaving > 0 {
			isBusy = isBusy || m.parts.Clock.Since(one.at) < m.settings.HoldTime
			open = append(open, one)
			continue
		}
		state := "completed"
		if there.count > 0 {
			state = "failed"
			one.failedAt = m.parts.Clock.Now()
			m.failed = append(m.failed, one)
			m.memory.refuse(one.names, nil, m.parts.Clock.Now().Add(m.settings.RefusalTime))
		}
		commandsTotal.WithLabelValues(state).Inc()
	}
	m.started = open
	return isBusy
}

type presence struct{ count, leaving int }

// there counts the nodes that are still there, and those of them that are leaving.
func (m *Method) there(ids []string) presence {
	wanted := map[string]bool{}
	for _, id := range ids {
		wanted[id] = true
	}
	found := presence{}
	for node := range m.parts.Cluster.Nodes() {
		if wanted[node.ProviderID()] {
			found.count++
			if node.MarkedForDeletion() || node.Deleted() {
				found.leaving++
			}
		}
	}
	return found
}

// plan asks the planner, within the deadline.
func (m *Method) plan(ctx context.Context, budgets map[string]int, candidates []*disruption.Candidate) (*Plan, *Cluster, error) {
	now := m.parts.Clock.Now()
	if m.memory.isPaused(now) {
		return nil, nil, errPaused
	}
	began := time.Now()
	defer func() { planSeconds.Observe(time.Since(began).Seconds()) }()
	limited, cancel := context.WithTimeout(ctx, m.settings.Deadline)
	defer cancel()
	cluster, err := m.observer.observe(limited, candidates, m.memory.keeps)
	if err != nil {
		return nil, nil, err
	}
	cluster.MayLeave = budgets
	cluster.MostLeaving = m.memory.size
	cluster.SpotToSpot = options.FromContext(ctx).FeatureGates.SpotToSpotConsolidation
	plan, err := m.planner.Plan(limited, cluster, now)
	if err != nil {
		m.memory.fail(now)
		return nil, nil, err
	}
	m.memory.answered()
	plansTotal.WithLabelValues(map[bool]string{true: planned, false: nothing}[len(plan.Leaving) > 0]).Inc()
	return plan, cluster, nil
}

// verify returns the command of a plan, if Karpenter's own checks and one simulation allow it.
func (m *Method) verify(ctx context.Context, plan *Plan, cluster *Cluster, candidates []*disruption.Candidate) (*disruption.Command, error) {
	chosen, bad := choose(plan, cluster.MayLeave, candidates)
	if bad != nil {
		return nil, bad
	}
	if m.memory.hasRefused(plan.Leaving) {
		return nil, &disagreement{Reason: refusedEarlier, Detail: "the same nodes were refused before"}
	}
	if m.settings.ValidationDelay > 0 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-m.parts.Clock.After(m.settings.ValidationDelay):
		}
	}
	chosen, err := m.stillThere(ctx, chosen)
	if err != nil {
		return nil, err
	}
	results, err := m.simulate(ctx, plan, cluster, chosen)
	if err != nil {
		return nil, err
	}
	command, bad := m.command(ctx, chosen, results)
	switch {
	case bad != nil && servesOthers(results, chosen):
		return nil, &changedError{"pods wait for new nodes, which the provisioner orders first: " + bad.Detail}
	case bad != nil:
		return nil, bad
	}
	// A pod that came in the meantime was not part of the simulation.
	if _, err := m.stillThere(ctx, chosen); err != nil {
		return nil, err
	}
	return command, nil
}

// choose returns the candidates of a plan, in the plan's order.
func choose(plan *Plan, budgets map[string]int, candidates []*disruption.Candidate) ([]*disruption.Candidate, *disagreement) {
	byName := map[string]*disruption.Candidate{}
	for _, candidate := range candidates {
		byName[candidate.Name()] = candidate
	}
	left := maps.Clone(budgets)
	found := []*disruption.Candidate{}
	for _, name := range plan.Leaving {
		candidate := byName[name]
		if candidate == nil {
			return nil, &disagreement{Reason: notACandidate, Detail: fmt.Sprintf("node %s may not be disrupted", name), Nodes: []string{name}}
		}
		left[candidate.NodePool.Name]--
		if left[candidate.NodePool.Name] < 0 {
			return nil, &disagreement{Reason: overBudget, Detail: fmt.Sprintf("NodePool %s allows %d nodes to leave", candidate.NodePool.Name, budgets[candidate.NodePool.Name])}
		}
		found = append(found, candidate)
	}
	return found, nil
}

// changedError is a change of the cluster for which a plan is abandoned.
type changedError struct{ text string }

func (e *changedError) Error() string { return e.text }

// stillThere returns the candidates as they are now, if all may be disrupted together.
func (m *Method) stillThere(ctx context.Context, chosen []*disruption.Candidate) ([]*disruption.Candidate, error) {
	wanted := namesOf(chosen)
	all, err := disruption.GetCandidates(ctx, m.parts.Cluster, m.parts.Client, m.parts.Recorder, m.parts.Clock, m.parts.Cloud,
		m.ShouldDisrupt, m.Class(), m.parts.Queue)
	if err != nil {
		return nil, fmt.Errorf("determining candidates, %w", err)
	}
	budgets, err := disruption.BuildDisruptionBudgetMapping(ctx, m.parts.Cluster, m.parts.Clock, m.parts.Client, m.parts.Cloud, m.parts.Recorder, m.Reason())
	if err != nil {
		return nil, fmt.Errorf("building disruption budgets, %w", err)
	}
	found := []*disruption.Candidate{}
	for _, candidate := range all {
		if !wanted[candidate.Name()] {
			continue
		}
		if m.parts.Cluster.IsNodeNominated(candidate.ProviderID()) {
			return nil, &changedError{fmt.Sprintf("node %s is to get a pod", candidate.Name())}
		}
		budgets[candidate.NodePool.Name]--
		if budgets[candidate.NodePool.Name] < 0 {
			return nil, &changedError{fmt.Sprintf("the budget of NodePool %s is used up", candidate.NodePool.Name)}
		}
		found = append(found, candidate)
	}
	if len(found) != len(chosen) {
		return nil, &changedError{fmt.Sprintf("%d of %d nodes may not be disrupted any more", len(chosen)-len(found), len(chosen))}
	}
	return found, nil
}

// command makes the command of a simulation.
func (m *Method) command(ctx context.Context, chosen []*disruption.Candidate, results pscheduling.Results) (*disruption.Command, *disagreement) {
	if bad := checkPlaces(results); bad != nil {
		return nil, bad
	}
	claims, cost := neededClaims(results, chosen), costOf(chosen)
	most := min(cost*(1-m.settings.LeastSaving), cost-m.settings.LeastSavingPerPod*float64(movedPods(results, chosen)))
	switch {
	case len(claims) > 0:
		if bad := limitPrices(ctx, claims, chosen, most); bad != nil {
			return nil, bad
		}
	case most < 0:
		return nil, &disagreement{Reason: notCheaper, Detail: fmt.Sprintf("the nodes cost %.4f an hour, which is too little for the pods that would move", cost)}
	}
	command := &disruption.Command{Candidates: chosen, Results: results, PoolDisruptionCosts: map[string]float64{}}
	command.Results.NewNodeClaims = claims
	for _, claim := range claims {
		command.Replacements = append(command.Replacements, &disruption.Replacement{NodeClaim: claim})
	}
	for _, candidate := range chosen {
		command.PoolDisruptionCosts[candidate.NodePool.Name] += candidate.RescheduleDisruptionCost
	}
	evaluator := disruption.NewBalancedEvaluator(m.totals, m.parts.Recorder)
	approved, scores := evaluator.ApproveCommand(ctx, *command)
	if len(chosen) > 1 {
		evaluator.EmitMultiNodeEvents(ctx, *command, scores, approved)
	}
	if !approved {
		return nil, &disagreement{Reason: balancedScore, Detail: fmt.Sprintf("the policy Balanced refuses: %v", scores)}
	}
	return command, nil
}

func (m *Method) start(ctx context.Context, plan *Plan, command *disruption.Command) {
	command.EmitCandidateEvents(m.parts.Recorder)
	m.memory.succeed()
	started := &startedCommand{at: m.parts.Clock.Now(), names: plan.Leaving, command: string(uuid.NewUUID())}
	for _, replacement := range command.Replacements {
		// A new map: claims may share the one of their NodePool.
		replacement.Annotations = lo.Assign(replacement.Annotations, map[string]string{commandAnnotation: started.command})
	}
	for _, candidate := range command.Candidates {
		started.ids = append(started.ids, candidate.ProviderID())
	}
	m.started = append(m.started, started)
	saving := command.EstimatedSavings()
	commandsTotal.WithLabelValues("started").Inc()
	leavingTotal.Add(float64(len(command.Candidates)))
	comingTotal.Add(float64(len(command.Replacements)))
	savedTotal.Add(max(saving, 0))
	log.FromContext(ctx).Info("replacing nodes by a plan of trimtab", "leaving", len(command.Candidates), "coming", len(command.Replacements),
		"planned-coming", plan.Coming, "saving-per-hour", saving, "planned-saving-per-hour", plan.SavingPerHour)
}

// disagree counts, logs and remembers that Karpenter does not carry out a plan.
func (m *Method) disagree(ctx context.Context, plan *Plan, bad *disagreement) {
	disagreementsTotal.WithLabelValues(bad.Reason).Inc()
	fallbacksTotal.WithLabelValues(disagreed).Inc()
	m.memory.refuse(plan.Leaving, bad.Nodes, m.parts.Clock.Now().Add(m.settings.RefusalTime))
	log.FromContext(ctx).Info("karpenter goes on alone, it disagrees with a plan of trimtab", "reason", bad.Reason, "detail", bad.Detail,
		"nodes", plan.Leaving, "planned-coming", plan.Coming, "not-again-for", m.settings.RefusalTime.String())
}

// fallBack counts and logs that Karpenter's own methods go on.
func (m *Method) fallBack(ctx context.Context, reason string, err error) {
	fallbacksTotal.WithLabelValues(reason).Inc()
	if reason == changed {
		return
	}
	plansTotal.WithLabelValues(reason).Inc()
	if reason != paused {
		log.FromContext(ctx).Error(err, "karpenter goes on alone, there is no plan of trimtab", "reason", reason,
			"failures", m.memory.failures, "asked-again-in", max(0, m.memory.until.Sub(m.parts.Clock.Now())).String())
	}
}
