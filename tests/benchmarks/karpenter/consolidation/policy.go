package main

// With -policy the program speaks Trimtab's protocol for external policies (docs/simulate.md): Karpenter's
// provisioner decides which nodes come, its methods Emptiness, MultiNode and SingleNode which go. Every node group is an
// instance type with one offering; groups with the same taints and labels of their own share a NodePool.

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/samber/lo"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/dynamicresources/deviceallocation"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/state/virtualpods"
	"sigs.k8s.io/karpenter/pkg/test"
	"sigs.k8s.io/karpenter/pkg/utils/resources"
)

const (
	noZone   = "no-zone"
	leaving  = "ToBeDeletedByClusterAutoscaler"
	inFlight = "upcoming-"
)

type question struct {
	Protocol  int               `json:"protocol"`
	Now       time.Time         `json:"now"`
	Decisions []string          `json:"decisions"`
	Items     []json.RawMessage `json:"items"`
}

type answer struct {
	ScaleUp   *growth  `json:"scaleUp,omitempty"`
	ScaleDown *removal `json:"scaleDown,omitempty"`
	Error     string   `json:"error,omitempty"`
}

type growth struct {
	Groups  map[string]int `json:"groups"`
	Pending []string       `json:"pending"`
}

type removal struct {
	Unneeded  []string `json:"unneeded"`
	Removable []string `json:"removable"`
}

// nodeGroup is Trimtab's object of this kind.
type nodeGroup struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		MinSize      int               `json:"minSize"`
		MaxSize      int               `json:"maxSize"`
		TargetSize   int               `json:"targetSize"`
		Price        *float64          `json:"price"`
		Nodes        []string          `json:"nodes"`
		NodeSelector map[string]string `json:"nodeSelector"`
		Template     struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
			Spec     corev1.NodeSpec   `json:"spec"`
			Status   corev1.NodeStatus `json:"status"`
		} `json:"template"`
	} `json:"spec"`
}

func (g *nodeGroup) labels() map[string]string { return g.Spec.Template.Metadata.Labels }

func (g *nodeGroup) zone() string {
	return lo.CoalesceOrEmpty(g.labels()[corev1.LabelTopologyZone], noZone)
}

func (g *nodeGroup) capacityType() string {
	return lo.CoalesceOrEmpty(g.labels()[v1.CapacityTypeLabelKey], v1.CapacityTypeOnDemand)
}

func (g *nodeGroup) has(node *corev1.Node) bool {
	if lo.Contains(g.Spec.Nodes, node.Name) {
		return true
	}
	return len(g.Spec.NodeSelector) > 0 && lo.EveryBy(lo.Keys(g.Spec.NodeSelector), func(key string) bool {
		return node.Labels[key] == g.Spec.NodeSelector[key]
	})
}

// ownLabels are those that are no property of an instance type or offering.
func (g *nodeGroup) ownLabels() map[string]string {
	return lo.OmitBy(g.labels(), func(key, _ string) bool {
		return v1.WellKnownLabels.Has(key) || v1.RestrictedLabels.Has(key) || key == corev1.LabelHostname
	})
}

// profile is what groups of one NodePool have in common.
func (g *nodeGroup) profile() string {
	return string(lo.Must(json.Marshal([]any{g.ownLabels(), g.Spec.Template.Spec.Taints})))
}

func (g *nodeGroup) instanceType() *cloudprovider.InstanceType {
	status := g.Spec.Template.Status
	capacity := status.Capacity
	if len(capacity) == 0 {
		capacity = status.Allocatable
	}
	allocatable := status.Allocatable
	if len(allocatable) == 0 {
		allocatable = capacity
	}
	found := fake.NewInstanceType(g.Metadata.Name, fake.WithResources(capacity.DeepCopy()),
		fake.WithOperatingSystems(lo.CoalesceOrEmpty(g.labels()[corev1.LabelOSStable], "linux")),
		fake.WithArchitecture(lo.CoalesceOrEmpty(g.labels()[corev1.LabelArchStable], "amd64")),
		fake.WithOfferings(cloudprovider.Offering{
			Available: g.Spec.TargetSize < g.Spec.MaxSize, Price: lo.FromPtr(g.Spec.Price),
			Requirements: scheduling.NewLabelRequirements(map[string]string{
				v1.CapacityTypeLabelKey: g.capacityType(), corev1.LabelTopologyZone: g.zone(),
			}),
		}))
	found.Overhead = &cloudprovider.InstanceTypeOverhead{KubeReserved: resources.Subtract(capacity, allocatable)}
	return found
}

// round is Karpenter with the cluster of one question.
type round struct {
	*loop
	groups map[string]*nodeGroup
	poolOf map[string]string
}

func decide(line []byte) (out *answer) {
	defer func() {
		if failure := recover(); failure != nil {
			out = &answer{Error: fmt.Sprint(failure)}
		}
	}()
	asked := &question{}
	lo.Must0(json.Unmarshal(line, asked))
	if asked.Protocol != 1 {
		return &answer{Error: fmt.Sprintf("protocol %d is not known, 1 is", asked.Protocol)}
	}
	out = &answer{}
	this := newRound(asked)
	if lo.Contains(asked.Decisions, "scale-up") {
		out.ScaleUp = this.grow()
	}
	if lo.Contains(asked.Decisions, "scale-down") {
		out.ScaleDown = this.shrink()
	}
	return out
}

func newRound(asked *question) *round {
	ctx := log.IntoContext(options.ToContext(context.Background(), test.Options()), logging.NopLogger)
	this := &round{
		loop:   &loop{ctx: ctx, clock: clocktesting.NewFakeClock(asked.Now), document: &document{}, store: newStore()},
		groups: map[string]*nodeGroup{}, poolOf: map[string]string{},
	}
	for at, raw := range asked.Items {
		if err := this.read(raw); err != nil {
			panic(fmt.Sprintf("items[%d]: %v", at, err))
		}
	}
	this.cloud = fake.NewCloudProvider()
	this.cloud.Reset()
	this.recorder = test.NewEventRecorder()
	this.pools()
	this.cluster = state.NewCluster(this.clock, this.store, this.cloud)
	this.prov = provisioning.NewProvisioner(this.store, this.recorder, this.cloud, this.cluster, this.clock,
		deviceallocation.NewController(this.store), virtualpods.NewVirtualPodCache(this.store))
	this.queue = disruption.NewQueue(this.store, this.recorder, this.cluster, this.clock, this.prov)
	for _, set := range this.store.daemons {
		lo.Must0(this.cluster.UpdateDaemonSet(ctx, set))
	}
	for _, name := range sorted(this.store.nodes) {
		this.adopt(this.store.nodes[name])
	}
	this.expect()
	for _, key := range sorted(this.store.pods) {
		if pod := this.store.pods[key]; pod.Spec.NodeName == "" || this.store.nodes[pod.Spec.NodeName] != nil {
			lo.Must0(this.cluster.UpdatePod(ctx, pod))
		}
	}
	this.cluster.SetSynced(true)
	return this
}

func (r *round) read(raw json.RawMessage) error {
	kind := metav1.TypeMeta{}
	if err := json.Unmarshal(raw, &kind); err != nil {
		return err
	}
	switch kind.Kind {
	case "Node":
		one := &corev1.Node{}
		defer func() { r.store.nodes[one.Name] = one }()
		return json.Unmarshal(raw, one)
	case "Pod":
		one := &corev1.Pod{}
		if err := json.Unmarshal(raw, one); err != nil {
			return err
		}
		node := one.Spec.NodeName
		r.store.place(one, node)
	case "PodDisruptionBudget":
		one := &policyv1.PodDisruptionBudget{}
		r.store.pdbs = append(r.store.pdbs, one)
		return json.Unmarshal(raw, one)
	case "DaemonSet":
		one := &appsv1.DaemonSet{}
		r.store.daemons = append(r.store.daemons, one)
		return json.Unmarshal(raw, one)
	case "NodeGroup":
		one := &nodeGroup{}
		if err := json.Unmarshal(raw, one); err != nil {
			return err
		}
		r.groups[one.Metadata.Name] = one
	}
	return nil
}

// pools makes a NodePool for each profile of node groups.
func (r *round) pools() {
	profiles := map[string]string{}
	for _, name := range sorted(r.groups) {
		group := r.groups[name]
		pool, known := profiles[group.profile()]
		if !known {
			pool = fmt.Sprintf("pool-%d", len(profiles))
			profiles[group.profile()] = pool
			made := nodePool()
			made.Name = pool
			made.Spec.Template.Labels = group.ownLabels()
			made.Spec.Template.Spec.Taints = group.Spec.Template.Spec.Taints
			made.Spec.Template.Spec.Requirements = []v1.NodeSelectorRequirementWithMinValues{}
			r.store.pools = append(r.store.pools, made)
		}
		r.poolOf[name] = pool
		r.cloud.InstanceTypesForNodePool[pool] = append(r.cloud.InstanceTypesForNodePool[pool], group.instanceType())
	}
}

// adopt makes a node one of Karpenter's, with a claim, if it belongs to a group.
func (r *round) adopt(node *corev1.Node) {
	node.Spec.ProviderID = "trimtab://" + node.Name
	for _, name := range sorted(r.groups) {
		group := r.groups[name]
		if !group.has(node) {
			continue
		}
		node.Labels = lo.Assign(node.Labels, map[string]string{
			v1.NodePoolLabelKey: r.poolOf[name], corev1.LabelInstanceTypeStable: name, v1.CapacityTypeLabelKey: group.capacityType(),
			corev1.LabelTopologyZone: group.zone(), v1.NodeInitializedLabelKey: "true", v1.NodeRegisteredLabelKey: "true",
		})
		claim := r.claim(name, node.Name, node.Labels, true)
		r.cluster.UpdateNodeClaim(claim)
		if lo.ContainsBy(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == leaving }) {
			defer r.cluster.MarkForDeletion(node.Spec.ProviderID)
		}
		break
	}
	lo.Must0(r.cluster.UpdateNode(r.ctx, node))
}

// expect makes a claim for every node that a group has ordered and that is not there yet.
func (r *round) expect() {
	for _, name := range sorted(r.groups) {
		group := r.groups[name]
		there := lo.CountBy(lo.Values(r.store.nodes), group.has)
		for number := there; number < group.Spec.TargetSize; number++ {
			labels := lo.Assign(group.ownLabels(), map[string]string{
				v1.NodePoolLabelKey: r.poolOf[name], corev1.LabelInstanceTypeStable: name,
				v1.CapacityTypeLabelKey: group.capacityType(), corev1.LabelTopologyZone: group.zone(),
			})
			r.cluster.UpdateNodeClaim(r.claim(name, fmt.Sprintf("%s%s-%d", inFlight, name, number), labels, false))
		}
	}
}

func (r *round) claim(group, node string, labels map[string]string, isThere bool) *v1.NodeClaim {
	of := r.groups[group].instanceType()
	claim := test.NodeClaim(v1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim-" + node, Labels: labels, CreationTimestamp: metav1.NewTime(r.clock.Now().Add(-time.Hour))},
		Spec:       v1.NodeClaimSpec{Taints: r.groups[group].Spec.Template.Spec.Taints},
		Status:     v1.NodeClaimStatus{ProviderID: "trimtab://" + node, Capacity: of.Capacity, Allocatable: of.Allocatable()},
	})
	claim.Namespace = ""
	claim.StatusConditions().SetTrue(v1.ConditionTypeLaunched)
	if isThere {
		claim.Status.NodeName = node
		for _, condition := range []string{v1.ConditionTypeRegistered, v1.ConditionTypeInitialized, v1.ConditionTypeConsolidatable} {
			claim.StatusConditions().SetTrue(condition)
		}
	}
	r.store.claims[claim.Name] = claim
	return claim
}

func (r *round) grow() *growth {
	found := &growth{Groups: map[string]int{}, Pending: []string{}}
	results := lo.Must(r.prov.Schedule(r.ctx))
	for pod := range results.PodErrors {
		found.Pending = append(found.Pending, pod.Namespace+"/"+pod.Name)
	}
	sort.Strings(found.Pending)
	for _, claim := range results.NewNodeClaims {
		group, price := "", math.Inf(1)
		for _, instanceType := range claim.InstanceTypeOptions {
			of := r.groups[instanceType.Name]
			for _, offering := range instanceType.Offerings.Launchable().Compatible(claim.Requirements) {
				if offering.Price < price && of.Spec.TargetSize+found.Groups[instanceType.Name] < of.Spec.MaxSize {
					group, price = instanceType.Name, offering.Price
				}
			}
		}
		if group != "" {
			found.Groups[group]++
		}
	}
	return found
}

// shrink answers with the nodes of the first command that only deletes; the protocol has no replacement.
func (r *round) shrink() *removal {
	found := &removal{Unneeded: []string{}, Removable: []string{}}
	base := disruption.MakeConsolidation(r.clock, r.cluster, r.store, r.prov, r.cloud, r.recorder, r.queue)
	for _, method := range []disruption.Method{
		disruption.NewEmptiness(base, disruption.WithValidator(accepted{})),
		disruption.NewMultiNodeConsolidation(base, disruption.WithValidator(accepted{})),
		disruption.NewSingleNodeConsolidation(base, disruption.WithValidator(accepted{})),
	} {
		candidates := lo.Must(disruption.GetCandidates(r.ctx, r.cluster, r.store, r.recorder, r.clock, r.cloud,
			method.ShouldDisrupt, method.Class(), r.queue))
		candidates = lo.Filter(candidates, func(one *disruption.Candidate, _ int) bool { return r.aboveMinimum(one.Node) })
		if len(candidates) == 0 {
			continue
		}
		budgets := lo.Must(disruption.BuildDisruptionBudgetMapping(r.ctx, r.cluster, r.clock, r.store, r.cloud, r.recorder, method.Reason()))
		for _, given := range lo.Must(method.ComputeCommands(r.ctx, budgets, candidates...)) {
			if given.Decision() == disruption.DeleteDecision {
				found.Unneeded = given.SourceNodeNames()
				sort.Strings(found.Unneeded)
				found.Removable = found.Unneeded
				return found
			}
		}
	}
	return found
}

func (r *round) aboveMinimum(node *corev1.Node) bool {
	group, known := r.groups[node.Labels[corev1.LabelInstanceTypeStable]]
	return known && group.Spec.TargetSize > group.Spec.MinSize
}

// serve answers questions, a line each, until there are no more.
func serve(in io.Reader, out io.Writer) {
	reader, encoder := bufio.NewReader(in), json.NewEncoder(out)
	for {
		line, err := reader.ReadBytes('\n')
		if strings.TrimSpace(string(line)) != "" {
			lo.Must0(encoder.Encode(decide(line)))
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
