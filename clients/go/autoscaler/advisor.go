package autoscaler

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"trimtab.dev/clients/go/trimtab"
	"trimtab.dev/clients/go/trimtabv1"
)

// Settings of an Advisor; the zero value has the defaults.
type Settings struct {
	// Cluster names the cluster in the planner's logs and caches.
	Cluster string
	// Deadline bounds a plan; 0 = 5 s. The Cluster Autoscaler waits for it in its loop.
	Deadline time.Duration
	// Validity is how long a plan counts; 0 = 2 min. A loop uses the plan that it began with.
	Validity time.Duration
	// Plan has settings of the planner: rules of the cluster, such as whether local storage keeps nodes. Timers, cool-downs
	// and limits on the number of nodes are the Cluster Autoscaler's own and are set here.
	Plan *trimtabv1.PlanSettings
	// Failed is told why there is no plan, after each attempt; nil = nobody is.
	Failed func(error)
	// Now is the time; nil = time.Now.
	Now func() time.Time
}

// Advisor asks the planner, and remembers its last answer for the rest of a loop.
type Advisor struct {
	client   *trimtab.Client
	cluster  func() (*trimtab.Cluster, error)
	settings Settings

	mutex    sync.Mutex
	removals *Removals
	at       time.Time
}

// NewAdvisor returns an advisor. cluster returns what the cluster has now, without node groups, such as
// listers.Listers.Cluster.
func NewAdvisor(client *trimtab.Client, cluster func() (*trimtab.Cluster, error), settings Settings) *Advisor {
	if settings.Deadline == 0 {
		settings.Deadline = 5 * time.Second
	}
	if settings.Validity == 0 {
		settings.Validity = 2 * time.Minute
	}
	if settings.Now == nil {
		settings.Now = time.Now
	}
	return &Advisor{client: client, cluster: cluster, settings: settings}
}

// Removals is a plan of nodes to remove.
type Removals struct {
	rank map[string]int
	now  map[string]bool
}

// Rank returns the place of a node in the order in which nodes are looked at: those of the first wave, then those of
// later waves, then all others, which share one place.
func (r *Removals) Rank(node string) int {
	if rank, planned := r.rank[node]; planned {
		return rank
	}
	return len(r.rank)
}

// GoesNow returns whether a node is in the wave that disruption budgets allow now.
func (r *Removals) GoesNow(node string) bool { return r.now[node] }

// Len returns how many nodes go, in all waves.
func (r *Removals) Len() int { return len(r.rank) }

// PlanRemovals asks which nodes go, all of them together; the answer counts for the rest of the loop. Without an
// answer it returns nil: the Cluster Autoscaler then does what it does by itself.
func (a *Advisor) PlanRemovals(ctx context.Context, groups []*trimtab.NodeGroup) *Removals {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.removals = nil
	answer := a.ask(ctx, groups, trimtabv1.Decision_SCALE_DOWN)
	if answer == nil {
		return nil
	}
	a.removals, a.at = removalsOf(answer), a.settings.Now()
	return a.removals
}

// Removals returns the last plan; nil = there is none, or it is too old.
func (a *Advisor) Removals() *Removals {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.removals == nil || a.settings.Now().Sub(a.at) > a.settings.Validity {
		return nil
	}
	return a.removals
}

// PlanGrowth asks which of the given node groups grow for the pods that wait, and returns the new nodes of each. nil =
// no answer.
func (a *Advisor) PlanGrowth(ctx context.Context, groups []*trimtab.NodeGroup) map[string]int {
	answer := a.ask(ctx, groups, trimtabv1.Decision_SCALE_UP)
	if answer == nil {
		return nil
	}
	found := map[string]int{}
	for _, split := range answer.GetScaleUp().GetSplits() {
		found[split.GetNodeGroup()] = int(split.GetNewSize() - split.GetCurrentSize())
	}
	return found
}

// ask returns the planner's answer, or nil after telling why there is none.
func (a *Advisor) ask(ctx context.Context, groups []*trimtab.NodeGroup, decision trimtabv1.Decision_Code) *trimtabv1.PlanResponse {
	ctx, cancel := context.WithTimeout(ctx, a.settings.Deadline)
	defer cancel()
	cluster, err := a.cluster()
	if err != nil {
		return a.fail(err)
	}
	trimtab.Add(cluster, groups...)
	answer, err := a.client.Plan(ctx, cluster, &trimtabv1.PlanRequest{
		Cluster: a.settings.Cluster, Now: timestamppb.New(a.settings.Now()), Settings: a.planSettings(),
		Decisions: []trimtabv1.Decision_Code{decision},
	})
	if err != nil {
		return a.fail(err)
	}
	return answer
}

func (a *Advisor) fail(err error) *trimtabv1.PlanResponse {
	if a.settings.Failed != nil {
		a.settings.Failed(err)
	}
	return nil
}

// planSettings leaves timers, cool-downs and limits to the Cluster Autoscaler, which has them anyway.
func (a *Advisor) planSettings() *trimtabv1.PlanSettings {
	found := &trimtabv1.PlanSettings{}
	if a.settings.Plan != nil {
		found = proto.Clone(a.settings.Plan).(*trimtabv1.PlanSettings)
	}
	if found.ScaleDown == nil {
		found.ScaleDown = &trimtabv1.ScaleDownSettings{}
	}
	down := found.ScaleDown
	down.UnneededTime, down.UnreadyTime = durationpb.New(0), durationpb.New(0)
	down.DelayAfterAdd, down.DelayAfterDelete, down.DelayAfterFailure = durationpb.New(0), durationpb.New(0), durationpb.New(0)
	down.MaxScaleDownParallelism, down.MaxDrainParallelism = proto.Int32(1_000_000), proto.Int32(1_000_000)
	return found
}

func removalsOf(answer *trimtabv1.PlanResponse) *Removals {
	decision, waves := answer.GetScaleDown(), map[string]int32{}
	for _, verdict := range answer.GetNodes() {
		waves[verdict.GetNode()] = verdict.GetWave()
	}
	found := &Removals{rank: map[string]int{}, now: map[string]bool{}}
	for _, name := range slices.Concat(decision.GetDeleteEmpty(), decision.GetDrain()) {
		found.now[name] = true
	}
	stays := func(node *trimtabv1.UnneededNode) int {
		if found.now[node.GetNode()] {
			return 0
		}
		return 1
	}
	nodes := slices.Clone(decision.GetUnneeded())
	slices.SortStableFunc(nodes, func(x, y *trimtabv1.UnneededNode) int {
		return cmp.Or(stays(x)-stays(y), cmp.Compare(waves[x.GetNode()], waves[y.GetNode()]))
	})
	for place, node := range nodes {
		found.rank[node.GetNode()] = place
	}
	return found
}
