package trimtab

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pb "trimtab.dev/clients/go/trimtabv1"
)

const (
	// mostVariants is the most groups of one pool and offering that differ in
	// labels for which the pool allows several values.
	mostVariants = 16
	// poolRoom is how many nodes a group may get beyond those that it has, as many
	// as one plan adds by default.
	poolRoom  = 1000
	mostNamed = 3
)

var taintEffects = []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}

// member is what decides about the group of a node of a pool: its offering, and
// its labels of the pool's own.
type member struct {
	pool    string
	offer   OfferKey
	variant string
}

// variant is a choice of values for labels of a pool's own, in the order of the
// keys.
type variant struct{ keys, values []string }

func (v variant) text() string {
	parts := []string{}
	for at, key := range v.keys {
		parts = append(parts, key+"="+v.values[at])
	}
	slices.Sort(parts)
	return strings.Join(parts, "\x00")
}

func (v variant) labels() map[string]string {
	found := map[string]string{}
	for at, key := range v.keys {
		found[key] = v.values[at]
	}
	return found
}

// checkedPool is a pool whose fields were checked.
type checkedPool struct {
	*NodePool
	rules    *poolRules
	grows    bool
	variants []variant
}

// poolReader makes node groups of NodePools: one for each pool and each offering
// that its requirements allow, named "POOL/TYPE/ZONE/CAPACITY TYPE", with the
// labels and taints that Karpenter gives to such a node, and settings for what
// pools ask of plans. A pool with a field that cannot be used gets no new nodes,
// and a note names pool and field.
type poolReader struct {
	objects  *Objects
	inferred bool
	offers   []*MachineOffer
	settings *pb.PlanSettings
	notes    []string
	members  map[member][]string
	claimed  map[member]int
	ignored  map[string][]string
}

// withPools returns the objects with the groups of NodePools, what these ask of
// plans, and notes; they are sorted already.
func withPools(objects Objects) (Objects, *pb.PlanSettings, []string, error) {
	if len(objects.NodePools) == 0 {
		return objects, nil, nil, nil
	}
	present := presentOffers(objects.Nodes, objects.NodeClaims)
	reader := &poolReader{
		objects: &objects, inferred: objects.Offers == nil, offers: present, ignored: map[string][]string{},
		settings: &pb.PlanSettings{Planner: &pb.PlannerSettings{}},
	}
	if !reader.inferred {
		reader.offers = completed(objects.Offers, present, zonesOfPools(objects.NodePools))
	}
	reader.members, reader.claimed = membersOf(&objects), claimedBy(&objects)
	groups := []*NodeGroup{}
	for _, pool := range objects.NodePools {
		groups = append(groups, reader.groupsOf(pool)...)
	}
	addRanks(reader.settings, objects.NodePools)
	reader.addStartupTaints()
	reader.addNotes(groups)
	taken := byKey(objects.NodeGroups)
	all := slices.Clone(objects.NodeGroups)
	for _, group := range groups {
		if taken[keyOf(group)] == nil {
			all = append(all, group)
		}
	}
	objects.NodeGroups = all
	return objects, reader.settings, reader.notes, checkAndSort("NodeGroup", false, &objects.NodeGroups)
}

func (r *poolReader) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func (r *poolReader) groupsOf(pool *NodePool) []*NodeGroup {
	read := r.checked(pool)
	have, groups := map[string]bool{}, []*NodeGroup{}
	if read.grows {
		for _, offer := range r.allowedOffers(&read) {
			for _, one := range read.variants {
				groups = append(groups, r.group(&read, offer, one))
				have[groups[len(groups)-1].Name] = true
			}
		}
	}
	groups = append(groups, r.remaining(pool.Name, have)...)
	slices.SortFunc(groups, func(a, b *NodeGroup) int { return cmp.Compare(a.Name, b.Name) })
	r.addDisruption(pool, groups)
	return groups
}

// checked returns a pool with checked fields; one with a field that cannot be
// used does not grow.
func (r *poolReader) checked(pool *NodePool) checkedPool {
	rules, err := r.check(pool)
	if err != nil {
		r.note("NodePool %s: %s; the pool gets no new nodes", pool.Name, err)
	}
	read := checkedPool{NodePool: pool, rules: rules, grows: err == nil && pool.DeletionTimestamp == nil}
	if pool.Spec != nil && pool.Spec.Replicas != nil {
		r.note("NodePool %s: spec.replicas is %d: its size is fixed, so it does not grow", pool.Name, *pool.Spec.Replicas)
		read.grows = false
	}
	for _, condition := range pool.Status.Conditions {
		if condition.Type == "Ready" && condition.Status == metav1.ConditionFalse {
			said := ""
			if condition.Message != "" {
				said = ": " + condition.Message
			}
			r.note("NodePool %s: its condition Ready is False%s; the pool gets no new nodes", pool.Name, said)
			read.grows = false
		}
	}
	read.variants = r.variants(pool.Name, rules)
	return read
}

func (r *poolReader) check(pool *NodePool) (*poolRules, error) {
	if pool.Spec == nil || pool.Spec.Template == nil {
		return &poolRules{}, badField("spec.template", "give what kubectl prints", "it is missing or cannot be read")
	}
	rules, err := rulesOf(pool.ofNodes().Requirements)
	if err != nil {
		return rules, below("spec.template.spec.requirements", err)
	}
	for place, taint := range pool.ofNodes().Taints {
		at := fmt.Sprintf("spec.template.spec.taints[%d].", place)
		if taint.Key == "" {
			return rules, badField(at+"key", "name the taint", "it is missing")
		}
		if !slices.Contains(taintEffects, taint.Effect) {
			return rules, badField(at+"effect", "use one of NoSchedule, PreferNoSchedule, NoExecute", "%q is unknown", string(taint.Effect))
		}
	}
	limits, err := poolLimits(pool.Name, pool.Spec.Limits)
	if err != nil {
		return rules, below("spec.limits", err)
	}
	if len(limits) > 0 {
		r.settings.Planner.Limits = append(r.settings.Planner.Limits, limits...)
	}
	return rules, nil
}

// variants returns the labels that requirements on keys of the pool's own give
// to nodes: one choice for each combination.
func (r *poolReader) variants(name string, rules *poolRules) []variant {
	found, unknown := []variant{{}}, []string{}
	for _, key := range sortedKeys(rules.byKey) {
		if isOfMachines(key) {
			continue
		}
		values := rules.valuesOf(key)
		if len(values) == 0 {
			if !rules.allows(key, "", false) {
				unknown = append(unknown, key)
			}
			continue
		}
		found = product(found, key, values)
	}
	if len(unknown) > 0 {
		r.note("NodePool %s: spec.template.spec.requirements: %s may have any value, which only a pod decides; new nodes are planned without it",
			name, strings.Join(unknown, ", "))
	}
	if len(found) > mostVariants {
		r.note("NodePool %s: spec.template.spec.requirements allow more than %d combinations of %s; the first %d are planned with",
			name, mostVariants, strings.Join(found[0].keys, ", "), mostVariants)
	}
	return found[:min(len(found), mostVariants)]
}

// product returns all choices with all values of one more label; more than
// mostVariants need not be complete.
func product(before []variant, key string, values []string) []variant {
	found := []variant{}
	for _, one := range before {
		for _, value := range values {
			found = append(found, variant{append(slices.Clone(one.keys), key), append(slices.Clone(one.values), value)})
		}
	}
	return found[:min(len(found), mostVariants+1)]
}

// allowedOffers returns the offerings that a pool allows, with what new nodes may
// be planned to hold. A requirement on a label that no offering has is not
// checked.
func (r *poolReader) allowedOffers(pool *checkedPool) []plannedOffer {
	known := []string{}
	for _, key := range sortedKeys(pool.rules.byKey) {
		if !isOfMachines(key) {
			continue
		}
		if slices.ContainsFunc(r.offers, func(offer *MachineOffer) bool { _, is := offer.Labels[key]; return is }) {
			known = append(known, key)
		} else if !pool.rules.allows(key, "", false) {
			r.ignored[key] = append(r.ignored[key], pool.Name)
		}
	}
	allowed := []*MachineOffer{}
	for _, offer := range r.offers {
		if !slices.ContainsFunc(known, func(key string) bool {
			value, is := offer.Labels[key]
			return !pool.rules.allows(key, value, is)
		}) {
			allowed = append(allowed, offer)
		}
	}
	if len(r.offers) > 0 && len(allowed) == 0 {
		r.note("NodePool %s: spec.template.spec.requirements allow none of the offerings", pool.Name)
	}
	return r.diverseOffers(pool, allowed)
}

// plannedOffer is an offering with what a new node of it may be planned to hold.
type plannedOffer struct {
	*MachineOffer
	room corev1.ResourceList
}

// diverseOffers returns offerings with what minValues lets new nodes hold. Where
// only offerings in use are known, there are others that Karpenter chooses from,
// so nothing follows.
func (r *poolReader) diverseOffers(pool *checkedPool, allowed []*MachineOffer) []plannedOffer {
	required, isLacking := []MinValues{}, false
	for _, rule := range pool.rules.diverse() {
		if count := valueCount(pool.rules, rule.key, allowed); count < rule.minValues {
			isLacking = true
			effect := "so it gets no new nodes"
			if r.inferred {
				effect = "those not in use may be among the rest"
			}
			r.note("NodePool %s: spec.template.spec.requirements[%d].minValues: %d values of %s are required, there are %d; %s",
				pool.Name, rule.place, rule.minValues, rule.key, count, effect)
		}
		if isOfMachines(rule.key) && !r.inferred {
			required = append(required, MinValues{rule.key, rule.minValues})
		}
	}
	if isLacking && !r.inferred {
		return nil
	}
	found := make([]plannedOffer, len(allowed))
	for at, room := range RoomWithMinValues(required, allowed) {
		found[at] = plannedOffer{allowed[at], room}
	}
	return found
}

func valueCount(rules *poolRules, key string, allowed []*MachineOffer) int {
	if !isOfMachines(key) {
		return len(rules.valuesOf(key))
	}
	values := map[string]bool{}
	for _, offer := range allowed {
		if value, is := offer.Labels[key]; is {
			values[value] = true
		}
	}
	return len(values)
}

// taken returns the nodes of a pool, an offering and a choice, and removes them
// from those that are left.
func (r *poolReader) taken(of member) []string {
	found := r.members[of]
	delete(r.members, of)
	slices.Sort(found)
	return found
}

func (r *poolReader) group(pool *checkedPool, offer plannedOffer, one variant) *NodeGroup {
	plain := member{pool.Name, offer.OfferKey, ""}
	nodes := []string{}
	if len(one.keys) > 0 {
		nodes = r.taken(member{pool.Name, offer.OfferKey, one.text()})
	}
	if len(nodes) == 0 {
		nodes = r.taken(plain)
	}
	labels := maps.Clone(offer.Labels)
	maps.Copy(labels, one.labels())
	maps.Copy(labels, pool.template().Labels)
	labels[poolLabel] = pool.Name
	waiting, room := r.claimed[plain], offer.room
	delete(r.claimed, plain)
	if waiting > 0 { // what is on its way has all its room, whatever new nodes may be planned to hold
		room = offer.Allocatable
	}
	name := strings.Join(slices.Concat([]string{pool.Name}, offer.parts(), one.values), "/")
	most, target := int32(len(nodes)+waiting+poolRoom), int32(len(nodes)+waiting)
	template := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	template.Spec.Taints = pool.ofNodes().Taints
	template.Status.Capacity, template.Status.Allocatable = offer.Capacity, room
	return &NodeGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       NodeGroupSpec{MaxSize: &most, TargetSize: &target, Nodes: nodes, Price: offer.Price, Template: template},
	}
}

// remaining returns groups for the nodes of a pool whose offering it does not
// have; they do not grow.
func (r *poolReader) remaining(pool string, have map[string]bool) []*NodeGroup {
	prices := map[OfferKey]*float64{}
	for _, offer := range r.offers {
		prices[offer.OfferKey] = offer.Price
	}
	found := map[string]*NodeGroup{}
	for of := range r.members {
		if of.pool != pool {
			continue
		}
		name := strings.Join(slices.Concat([]string{pool}, of.offer.parts()), "/")
		if have[name] {
			name += "/not-offered"
		}
		if found[name] == nil {
			found[name] = &NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: NodeGroupSpec{Price: prices[of.offer]}}
		}
		found[name].Spec.Nodes = append(found[name].Spec.Nodes, r.taken(of)...)
	}
	for _, group := range found {
		count := int32(len(group.Spec.Nodes))
		group.Spec.MaxSize, group.Spec.TargetSize = &count, &count
		slices.Sort(group.Spec.Nodes)
	}
	return slices.Collect(maps.Values(found))
}

// addDisruption adds what a pool says about disruption. A budget that cannot be
// read counts as 0 nodes, as in Karpenter.
func (r *poolReader) addDisruption(pool *NodePool, groups []*NodeGroup) {
	given, budgets := pool.disruption(), &r.settings.Planner.DisruptionBudgets
	for place := range given.Budgets {
		budget, err := poolBudget(pool.Name, &given.Budgets[place])
		if err != nil {
			r.note("NodePool %s: %s; it counts as 0 nodes", pool.Name, below(fmt.Sprintf("spec.disruption.budgets[%d]", place), err))
			budget = wholeBudget(pool.Name, "0")
		}
		*budgets = append(*budgets, budget)
	}
	if len(given.Budgets) == 0 {
		*budgets = append(*budgets, wholeBudget(pool.Name, defaultPoolBudget))
	}
	rules, err := drainRulesOf(given)
	if err != nil {
		r.note("NodePool %s: %s; its nodes count as not to be disrupted", pool.Name, below("spec.disruption", err))
		rules = drainRules{never: true}
	}
	settings := rules.groupSettings()
	if settings == nil {
		return
	}
	for _, group := range groups {
		if r.settings.NodeGroups == nil {
			r.settings.NodeGroups = map[string]*pb.NodeGroupSettings{}
		}
		r.settings.NodeGroups[group.Name] = settings
	}
}

func (r *poolReader) addStartupTaints() {
	var keys []string
	for _, pool := range r.objects.NodePools {
		for _, taint := range pool.ofNodes().StartupTaints {
			if taint.Key != "" {
				keys = append(keys, taint.Key)
			}
		}
	}
	if len(keys) > 0 {
		scaleUp(r.settings).StartupTaints = &pb.TaintNames{Keys: sortedUnique(keys)}
	}
}

func (r *poolReader) addNotes(groups []*NodeGroup) {
	growing, source := 0, "that are given"
	for _, group := range groups {
		if group.Spec.Template != nil {
			growing++
		}
	}
	if r.inferred {
		source = "that nodes and NodeClaims have now, as no Offers are given"
	}
	r.note("%d NodePools with %d offerings %s: %d node groups that may grow", len(r.objects.NodePools), len(r.offers), source, growing)
	for _, key := range sortedKeys(r.ignored) {
		r.note("NodePool %s: spec.template.spec.requirements: no offering says its %s, so all count as allowed", few(r.ignored[key]), key)
	}
	absent := map[string]int{}
	for of, nodes := range r.members {
		absent[of.pool] += len(nodes)
	}
	for _, name := range sortedKeys(absent) {
		r.note("NodePool %s: it is not in the input, so its %d nodes are in no node group", name, absent[name])
	}
	ended := []string{}
	for _, pool := range r.objects.NodePools {
		expires := cmp.Or(textOf(pool.ofNodes().ExpireAfter), textOf(pool.disruption().ExpireAfter), "Never")
		if expires != "Never" || pool.ofNodes().TerminationGracePeriod != nil {
			ended = append(ended, pool.Name)
		}
	}
	if len(ended) > 0 {
		r.note("NodePool %s: expireAfter and terminationGracePeriod are not planned with: Karpenter replaces nodes for their age in any case", few(ended))
	}
}

func textOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func few(names []string) string {
	text := strings.Join(names[:min(len(names), mostNamed)], ", ")
	if len(names) > mostNamed {
		text += ", …"
	}
	return text
}
