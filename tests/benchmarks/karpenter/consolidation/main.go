// Command consolidation lets Karpenter consolidate a cluster until it finds nothing more, and says what that cost.
//
// Usage: consolidation CLUSTER.json RESULT.json [SECONDS]
//
//	consolidation -policy    (see policy.go)
//
// The cluster is a document of clusters.py. Karpenter's methods are asked in its order (emptiness, several nodes, one
// node); each command is carried out at once, with the pods where the simulation of the command has put them and new
// nodes of the cheapest type and offering that Karpenter leaves to the cloud. Its waiting times (15 s before a command
// is validated, 10 s between rounds) are left out. It stops after SECONDS of deciding, 600 by default.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/dynamicresources/deviceallocation"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/state/virtualpods"
	"sigs.k8s.io/karpenter/pkg/test"
)

// command is what Karpenter did once.
type command struct {
	Method  string   `json:"method"`
	Leaving int      `json:"leaving"`
	Coming  int      `json:"coming"`
	Moved   int      `json:"moved"`
	Price   float64  `json:"pricePerHour"`
	CPU     float64  `json:"cpuSeconds"`
	Types   []string `json:"types,omitempty"`
}

type result struct {
	Before    float64   `json:"before"`
	After     float64   `json:"after"`
	Nodes     int       `json:"nodes"`
	Moved     int       `json:"moved"`
	CPU       float64   `json:"cpuSeconds"`
	Seconds   float64   `json:"seconds"`
	Converged bool      `json:"converged"`
	Commands  []command `json:"commands"`
}

// accepted validates nothing: no time passes between a command and its execution.
type accepted struct{}

func (accepted) Validate(_ context.Context, given disruption.Command, _ time.Duration) (disruption.Command, error) {
	return given, nil
}

type loop struct {
	ctx      context.Context
	clock    *clocktesting.FakeClock
	store    *store
	cloud    *fake.CloudProvider
	cluster  *state.Cluster
	prov     *provisioning.Provisioner
	recorder *test.EventRecorder
	queue    *disruption.Queue
	made     int
	document *document
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "-policy" {
		serve(os.Stdin, os.Stdout)
		return
	}
	limit := 600.0
	if len(os.Args) > 3 {
		limit = lo.Must(strconv.ParseFloat(os.Args[3], 64))
	}
	given := read(os.Args[1])
	this := newLoop(given)
	found := this.converge(limit)
	content := lo.Must(json.MarshalIndent(found, "", " "))
	lo.Must0(os.WriteFile(os.Args[2], content, 0o644))
	found.Commands = nil
	fmt.Printf("%+v\n", found)
}

func newLoop(given *document) *loop {
	ctx := log.IntoContext(options.ToContext(context.Background(), test.Options()), logging.NopLogger)
	this := &loop{ctx: ctx, document: given, clock: clocktesting.NewFakeClock(time.Now())}
	this.cloud = fake.NewCloudProvider()
	this.cloud.Reset()
	this.cloud.InstanceTypes = given.instanceTypes()
	this.store = newStore(nodePool())
	this.recorder = test.NewEventRecorder()
	this.cluster = state.NewCluster(this.clock, this.store, this.cloud)
	this.prov = provisioning.NewProvisioner(this.store, this.recorder, this.cloud, this.cluster, this.clock,
		deviceallocation.NewController(this.store), virtualpods.NewVirtualPodCache(this.store))
	this.queue = disruption.NewQueue(this.store, this.recorder, this.cluster, this.clock, this.prov)
	for _, pod := range given.Pods {
		built := pod.build()
		this.store.place(built, pod.Node)
	}
	for _, node := range given.Nodes {
		this.add(node)
	}
	for _, pod := range this.store.pods {
		lo.Must0(this.cluster.UpdatePod(ctx, pod))
	}
	this.cluster.SetSynced(true)
	return this
}

// add makes a node with its claim; its pods are in the store already.
func (l *loop) add(node node) {
	claim, made := node.build(l.document)
	l.store.claims[claim.Name], l.store.nodes[made.Name] = claim, made
	l.cluster.UpdateNodeClaim(claim)
	lo.Must0(l.cluster.UpdateNode(l.ctx, made))
}

func (l *loop) remove(name string) {
	claim := l.store.nodes[name].Labels[claimLabel]
	delete(l.store.nodes, name)
	delete(l.store.claims, claim)
	l.cluster.DeleteNodeClaim(claim)
	l.cluster.DeleteNode(name)
}

func (l *loop) price() float64 {
	sum := 0.0
	for _, name := range sorted(l.store.nodes) {
		sum += l.document.price(l.store.nodes[name].Labels)
	}
	return sum
}

// converge lets Karpenter decide until no method finds anything.
func (l *loop) converge(limit float64) result {
	found := result{Before: l.price()}
	for found.Seconds < limit {
		done, acted := l.round()
		found.CPU, found.Seconds = found.CPU+done.CPU, found.Seconds+l.took(&done)
		if !acted {
			found.Converged = true
			break
		}
		found.Moved += done.Moved
		found.Commands = append(found.Commands, done)
		fmt.Fprintf(os.Stderr, "%+v\n", done)
	}
	found.After, found.Nodes = l.price(), len(l.store.nodes)
	return found
}

func (l *loop) took(done *command) float64 { return done.CPU }

// round asks the methods in Karpenter's order, and carries out the first command.
func (l *loop) round() (command, bool) {
	l.clock.Step(time.Hour)
	l.cluster.MarkUnconsolidated()
	base := disruption.MakeConsolidation(l.clock, l.cluster, l.store, l.prov, l.cloud, l.recorder, l.queue)
	methods := []disruption.Method{
		disruption.NewEmptiness(base, disruption.WithValidator(accepted{})),
		disruption.NewMultiNodeConsolidation(base, disruption.WithValidator(accepted{})),
		disruption.NewSingleNodeConsolidation(base, disruption.WithValidator(accepted{})),
	}
	spent := 0.0
	for _, method := range methods {
		used := cpuSeconds()
		candidates := lo.Must(disruption.GetCandidates(l.ctx, l.cluster, l.store, l.recorder, l.clock, l.cloud,
			method.ShouldDisrupt, method.Class(), l.queue))
		var commands []disruption.Command
		if len(candidates) > 0 {
			budgets := lo.Must(disruption.BuildDisruptionBudgetMapping(l.ctx, l.cluster, l.clock, l.store, l.cloud, l.recorder, method.Reason()))
			commands = lo.Must(method.ComputeCommands(l.ctx, budgets, candidates...))
		}
		spent += cpuSeconds() - used
		if len(commands) > 0 {
			done := l.carryOut(commands[0])
			done.Method, done.CPU = fmt.Sprintf("%T", method), spent
			return done, true
		}
	}
	return command{CPU: spent}, false
}

func (l *loop) carryOut(given disruption.Command) command {
	done := command{Leaving: len(given.Candidates), Coming: len(given.Replacements)}
	for _, existing := range given.Results.ExistingNodes {
		done.Moved += l.move(existing.Pods, existing.Name())
	}
	for _, replacement := range given.Replacements {
		node := l.launched(replacement.NodeClaim)
		done.Types = append(done.Types, node.Type+"/"+node.Zone+"/"+node.CapacityType)
		done.Moved += l.move(replacement.Pods, node.Name)
		l.add(node)
	}
	for _, one := range given.Candidates {
		if left := len(l.store.byNode[one.Name()]); left > 0 {
			panic(fmt.Sprintf("%d pods are left on %s", left, one.Name()))
		}
		l.remove(one.Name())
	}
	done.Price = l.price()
	return done
}

func (l *loop) move(pods []*corev1.Pod, node string) int {
	for _, one := range pods {
		pod := l.store.pods[one.Namespace+"/"+one.Name]
		l.store.place(pod, node)
		if _, known := l.store.nodes[node]; known {
			lo.Must0(l.cluster.UpdatePod(l.ctx, pod))
		}
	}
	return len(pods)
}

// launched is the node that a cloud makes of a claim: the cheapest type and offering that are left to it.
func (l *loop) launched(claim *scheduling.NodeClaim) node {
	l.made++
	made, price := node{Name: fmt.Sprintf("new-%05d", l.made)}, math.Inf(1)
	for _, instanceType := range claim.InstanceTypeOptions {
		for _, offering := range instanceType.Offerings.Launchable().Compatible(claim.Requirements) {
			if offering.Price < price {
				price = offering.Price
				made.Type = instanceType.Name
				made.Zone = offering.Requirements.Get(corev1.LabelTopologyZone).Any()
				made.CapacityType = offering.Requirements.Get(v1.CapacityTypeLabelKey).Any()
			}
		}
	}
	return made
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	lo.Must0(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func labelsOf(pod *corev1.Pod) labels.Set { return labels.Set(pod.Labels) }
