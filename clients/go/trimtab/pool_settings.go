package trimtab

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"

	pb "trimtab.dev/clients/go/trimtabv1"
)

const (
	defaultPoolBudget = "10%"
)

var (
	disruptionReasons = []string{"Underutilized", "Empty", "Drifted"}
	poolPolicies      = []string{"WhenEmpty", "WhenEmptyOrUnderutilized", "WhenUnderutilized", "Balanced"}
	budgetShare       = regexp.MustCompile(`\A(?:(?:[0-9]|[1-9][0-9]|100)%|[0-9]{1,9})\z`)
	cronMacros        = []string{"@annually", "@yearly", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
	cronRanges        = [][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 7}}
	cronNames         = regexp.MustCompile(`(?i)jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat`)
	cronPart          = regexp.MustCompile(`\A(?:\*|\?|([0-9]+)(?:-([0-9]+))?)(?:/([0-9]+))?\z`)
	// escaped are the characters that mean something in a regular expression.
	escaped = regexp.MustCompile(`[()\[\]{}?*+\-|^$\\.&~# \t\n\r\v\f]`)
)

// drainRules say when nodes of a pool may go.
type drainRules struct {
	// afterNs is how long nothing must have changed; nil = as other nodes.
	afterNs          *int64
	onlyEmpty, never bool
}

// notNegative returns a duration of Go, such as "1h30m", in nanoseconds.
func notNegative(text string) (int64, error) {
	found, ok := goDurationNs(text)
	if !ok || found < 0 {
		return 0, badField("", `write it like "30s" or "1h30m"`, "%q is no duration", first60(text))
	}
	return found, nil
}

func first60(text string) string {
	letters := []rune(text)
	return string(letters[:min(len(letters), 60)])
}

// milliseconds returns a duration rounded to a millisecond.
func milliseconds(ns int64) *durationpb.Duration {
	rounded := int64(math.RoundToEven(float64(ns) / 1e9 * 1000))
	return &durationpb.Duration{Seconds: rounded / 1000, Nanos: int32(rounded%1000) * 1_000_000}
}

func poolNodes(pool string) *pb.Selector {
	return &pb.Selector{MatchLabels: map[string]string{poolLabel: pool}}
}

// poolLimits returns the limits on a pool's nodes, by resource.
func poolLimits(pool string, limits corev1.ResourceList) ([]*pb.ResourceLimit, error) {
	list, err := amountsOf(limits)
	if err != nil {
		return nil, err
	}
	found := []*pb.ResourceLimit{}
	for _, name := range sortedKeys(list) {
		most := amountOf(name, list[name])
		if name == "nodes" {
			most = list[name] / 1000
		}
		found = append(found, &pb.ResourceLimit{Resource: string(name), Maximum: &most, Nodes: poolNodes(pool)})
	}
	return found, nil
}

// poolBudget returns a budget for a pool's nodes; errors have the path below it.
func poolBudget(pool string, budget *NodePoolBudget) (*pb.DisruptionBudget, error) {
	nodes := ""
	if budget.Nodes != nil {
		nodes = budget.Nodes.String()
	}
	if !budgetShare.MatchString(nodes) {
		return nil, badField("nodes", `give such as "5" or "10%"`, "%q is neither a number nor a share", nodes)
	}
	for _, reason := range budget.Reasons {
		if !slices.Contains(disruptionReasons, reason) {
			return nil, badField("reasons", "use "+strings.Join(disruptionReasons, ", "), "%q is unknown", reason)
		}
	}
	found := wholeBudget(pool, nodes, budget.Reasons...)
	if (budget.Schedule == nil) != (budget.Duration == nil) {
		field := "schedule"
		if budget.Duration == nil {
			field = "duration"
		}
		return nil, badField(field, "give both schedule and duration, or neither", "it is missing")
	}
	if budget.Schedule == nil {
		return found, nil
	}
	if !isSchedule(*budget.Schedule) {
		return nil, badField("schedule", `give five fields of cron, or "@daily" and the like`, "%q is no schedule", *budget.Schedule)
	}
	ns, err := notNegative(*budget.Duration)
	if err == nil && ns == 0 {
		err = badField("", "give how long the budget holds", "%q is not above 0", *budget.Duration)
	}
	if err != nil {
		return nil, below("duration", err)
	}
	found.Schedule, found.Duration = *budget.Schedule, milliseconds(ns)
	return found, nil
}

func wholeBudget(pool, nodes string, reasons ...string) *pb.DisruptionBudget {
	return &pb.DisruptionBudget{MaxNodes: nodes, Reasons: reasons, Nodes: poolNodes(pool)}
}

// isSchedule says whether a text is five fields of cron, or a name for them.
func isSchedule(text string) bool {
	fields := strings.Fields(text)
	if slices.Contains(cronMacros, text) {
		return true
	}
	if len(fields) != len(cronRanges) {
		return false
	}
	for at, field := range fields {
		for _, part := range strings.Split(field, ",") {
			if !isCronPart(part, cronRanges[at]) {
				return false
			}
		}
	}
	return true
}

func isCronPart(part string, limits [2]int) bool {
	parts := cronPart.FindStringSubmatch(cronNames.ReplaceAllString(part, strconv.Itoa(cmp.Or(limits[0], 1))))
	if parts == nil || parts[3] == "0" {
		return false
	}
	for _, text := range parts[1:3] {
		if number, err := strconv.Atoi(text); text != "" && (err != nil || number < limits[0] || number > limits[1]) {
			return false
		}
	}
	return true
}

// drainRulesOf returns when the nodes of a pool may go; errors have the path
// below `disruption`.
func drainRulesOf(given NodePoolDisruption) (drainRules, error) {
	found := drainRules{}
	if policy := given.ConsolidationPolicy; policy != nil {
		if !slices.Contains(poolPolicies, *policy) {
			return found, badField("consolidationPolicy", "use WhenEmpty or WhenEmptyOrUnderutilized", "%q is unknown", *policy)
		}
		found.onlyEmpty = *policy == "WhenEmpty"
	}
	if given.ConsolidateAfter == nil {
		return found, nil
	}
	if *given.ConsolidateAfter == "Never" {
		found.never = true
		return found, nil
	}
	ns, err := notNegative(*given.ConsolidateAfter)
	if err != nil {
		return found, below("consolidateAfter", err)
	}
	found.afterNs = &ns
	return found, nil
}

// groupSettings returns the settings of a pool's groups; nil = the general ones.
func (r drainRules) groupSettings() *pb.NodeGroupSettings {
	found := &pb.NodeGroupSettings{}
	if r.afterNs != nil {
		found.UnneededTime, found.ConsolidateAfter = milliseconds(*r.afterNs), milliseconds(*r.afterNs)
	}
	switch {
	case r.never:
		found.Consolidation = pb.Consolidation_NEVER
	case r.onlyEmpty:
		found.Consolidation = pb.Consolidation_WHEN_EMPTY
	}
	if r.afterNs == nil && !r.onlyEmpty && !r.never {
		return nil
	}
	return found
}

// addRanks prefers pools of higher weight; nothing if all weights are equal.
func addRanks(settings *pb.PlanSettings, pools []*NodePool) {
	byWeight := map[int32][]string{}
	for _, pool := range pools {
		weight := int32(0)
		if pool.Spec != nil {
			weight = pool.Spec.Weight
		}
		byWeight[weight] = append(byWeight[weight], pool.Name)
	}
	if len(byWeight) < 2 {
		return
	}
	found := &pb.PriorityExpanderSettings{}
	weights := sortedKeys(byWeight)
	slices.Reverse(weights)
	for _, weight := range weights {
		rank := &pb.PriorityRank{Rank: weight}
		for _, name := range sortedUnique(byWeight[weight]) {
			rank.Patterns = append(rank.Patterns, "^"+escaped.ReplaceAllString(name, `\$0`)+"/")
		}
		found.Ranks = append(found.Ranks, rank)
	}
	scaleUp(settings).Expanders = []pb.Expander_Code{pb.Expander_PRIORITY, pb.Expander_PRICE}
	settings.ScaleUp.Priority = found
}

func scaleUp(settings *pb.PlanSettings) *pb.ScaleUpSettings {
	if settings.ScaleUp == nil {
		settings.ScaleUp = &pb.ScaleUpSettings{}
	}
	return settings.ScaleUp
}

// WithPoolSettings returns settings completed by what NodePools ask of plans
// (Snapshot.Settings): limits and budgets hold together, all else only where
// the settings say nothing. Neither is changed; nil = nothing.
func WithPoolSettings(settings, pools *pb.PlanSettings) *pb.PlanSettings {
	merged := &pb.PlanSettings{}
	if pools != nil {
		merged = proto.Clone(pools).(*pb.PlanSettings)
	}
	if settings == nil {
		return merged
	}
	if len(settings.GetScaleUp().GetExpanders()) > 0 && merged.ScaleUp != nil {
		merged.ScaleUp.Expanders, merged.ScaleUp.Priority = nil, nil
	}
	if settings.GetReplacement().GetConsolidateAfter() != nil {
		for _, ofPool := range merged.NodeGroups {
			ofPool.ConsolidateAfter = nil
		}
	}
	ofGroups := merged.NodeGroups
	merged.NodeGroups = nil
	proto.Merge(merged, settings)
	for name, ofPool := range ofGroups {
		if given := settings.NodeGroups[name]; given != nil {
			proto.Merge(ofPool, given)
		}
		if merged.NodeGroups == nil {
			merged.NodeGroups = map[string]*pb.NodeGroupSettings{}
		}
		merged.NodeGroups[name] = ofPool
	}
	return merged
}
