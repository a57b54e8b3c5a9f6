package karpenter

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
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
)

// world is a cluster of Karpenter's in memory: its state, scheduler and queue are the real ones.
type world struct {
	t        *testing.T
	ctx      context.Context
	clock    *clocktesting.FakeClock
	cloud    *fake.CloudProvider
	client   client.Client
	parts    Parts
	pool     *v1.NodePool
	recorder *test.EventRecorder
	planner  *scripted
	method   *Method
}

// scripted answers with what a test gives it.
type scripted struct {
	plan  *Plan
	err   error
	asked []*Cluster
	slow  bool
}

func (s *scripted) Plan(ctx context.Context, cluster *Cluster, _ time.Time) (*Plan, error) {
	s.asked = append(s.asked, cluster)
	if s.slow {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if s.err != nil {
		return nil, s.err
	}
	if s.plan == nil {
		return &Plan{}, nil
	}
	return s.plan, nil
}

const zone = "test-zone-1"

// instanceType is one of `cpu` cores for `price` on demand, and for a third on spot where `spot`.
func instanceType(name string, cpu int, price float64, spot bool) *cloudprovider.InstanceType {
	offerings := []cloudprovider.Offering{offeringOf(v1.CapacityTypeOnDemand, price)}
	if spot {
		offerings = append(offerings, offeringOf(v1.CapacityTypeSpot, price/3))
	}
	return fake.NewInstanceType(name, fake.WithOperatingSystems("linux"), fake.WithOfferings(offerings...), fake.WithResources(corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(fmt.Sprint(cpu)), corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%dGi", 4*cpu)),
		corev1.ResourcePods: resource.MustParse("110"),
	}))
}

func offeringOf(capacityType string, price float64) cloudprovider.Offering {
	return cloudprovider.Offering{Available: true, Price: price, Requirements: scheduling.NewLabelRequirements(map[string]string{
		v1.CapacityTypeLabelKey: capacityType, corev1.LabelTopologyZone: zone,
	})}
}

func newWorld(t *testing.T, change ...func(*v1.NodePool)) *world {
	t.Helper()
	ctx := log.IntoContext(options.ToContext(context.Background(), test.Options()), logging.NopLogger)
	w := &world{t: t, ctx: ctx, clock: clocktesting.NewFakeClock(time.Now()), cloud: fake.NewCloudProvider(), recorder: test.NewEventRecorder()}
	w.cloud.Reset()
	w.cloud.InstanceTypes = []*cloudprovider.InstanceType{
		instanceType("large", 16, 1.6, true), instanceType("medium", 4, 0.4, true), instanceType("small", 2, 0.2, true),
	}
	w.client = fakeclient.NewClientBuilder().WithScheme(scheme.Scheme).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithIndex(&corev1.Node{}, "spec.providerID", func(o client.Object) []string { return []string{o.(*corev1.Node).Spec.ProviderID} }).
		WithIndex(&v1.NodeClaim{}, "status.providerID", func(o client.Object) []string { return []string{o.(*v1.NodeClaim).Status.ProviderID} }).
		WithStatusSubresource(&v1.NodeClaim{}, &v1.NodePool{}).Build()
	w.pool = test.NodePool(v1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: "pool"},
		Spec: v1.NodePoolSpec{
			Template: v1.NodeClaimTemplate{Spec: v1.NodeClaimTemplateSpec{Requirements: []v1.NodeSelectorRequirementWithMinValues{
				{Key: v1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{v1.CapacityTypeOnDemand}},
			}}},
			Disruption: v1.Disruption{
				ConsolidateAfter: v1.MustParseNillableDuration("0s"), ConsolidationPolicy: v1.ConsolidationPolicyWhenEmptyOrUnderutilized,
				Budgets: []v1.Budget{{Nodes: "100%"}},
			},
		},
	})
	w.pool.StatusConditions().SetTrue(v1.ConditionTypeValidationSucceeded)
	w.pool.StatusConditions().SetTrue(v1.ConditionTypeNodeClassReady)
	for _, one := range change {
		one(w.pool)
	}
	w.create(w.pool)
	w.start()
	return w
}

func (w *world) start() {
	cluster := state.NewCluster(w.clock, w.client, w.cloud)
	provisioner := provisioning.NewProvisioner(w.client, w.recorder, w.cloud, cluster, w.clock,
		deviceallocation.NewController(w.client), virtualpods.NewVirtualPodCache(w.client))
	w.parts = Parts{
		Karpenter:   Karpenter{Clock: w.clock, Cluster: cluster, Client: w.client, Cloud: w.cloud, Recorder: w.recorder},
		Provisioner: provisioner, Queue: disruption.NewQueue(w.client, w.recorder, cluster, w.clock, provisioner),
	}
	settings := DefaultSettings()
	settings.ValidationDelay = 0
	settings.Deadline = 200 * time.Millisecond
	w.planner = &scripted{}
	w.method = NewMethod(w.parts, w.planner, settings)
	cluster.SetSynced(true)
}

func (w *world) create(object client.Object) {
	w.t.Helper()
	if err := w.client.Create(w.ctx, object); err != nil {
		w.t.Fatal(err)
	}
}

// addNode adds a node of a type with a pod of each size given in milli-cores.
func (w *world) addNode(name, kind, capacityType string, podsMilli ...int64) {
	w.t.Helper()
	of, _ := lo.Find(w.cloud.InstanceTypes, func(one *cloudprovider.InstanceType) bool { return one.Name == kind })
	labels := map[string]string{
		v1.NodePoolLabelKey: w.pool.Name, corev1.LabelInstanceTypeStable: kind, v1.CapacityTypeLabelKey: capacityType,
		corev1.LabelTopologyZone: zone, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
		v1.NodeInitializedLabelKey: "true", v1.NodeRegisteredLabelKey: "true", corev1.LabelHostname: name,
	}
	claim, node := test.NodeClaimAndNode(v1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim-" + name, Labels: labels},
		Status:     v1.NodeClaimStatus{ProviderID: "fake://" + name, NodeName: name, Capacity: of.Capacity, Allocatable: of.Allocatable()},
	})
	claim.Namespace, node.Namespace, node.Name = "", "", name
	node.Spec.Taints = nil // of a node that is not registered yet
	for _, condition := range []string{v1.ConditionTypeLaunched, v1.ConditionTypeRegistered, v1.ConditionTypeInitialized, v1.ConditionTypeConsolidatable} {
		claim.StatusConditions().SetTrue(condition)
	}
	w.create(claim)
	w.create(node)
	w.parts.Cluster.UpdateNodeClaim(claim)
	lo.Must0(w.parts.Cluster.UpdateNode(w.ctx, node))
	for number, milli := range podsMilli {
		w.addPod(fmt.Sprintf("%s-%d", name, number), name, milli)
	}
}

func (w *world) addPod(name, node string, milli int64, change ...func(*corev1.Pod)) {
	w.t.Helper()
	requests := corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID("uid-" + name), Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "uid-web", Controller: lo.ToPtr(true)}},
		},
		Spec:   corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "c", Resources: corev1.ResourceRequirements{Requests: requests}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, one := range change {
		one(pod)
	}
	w.create(pod)
	lo.Must0(w.parts.Cluster.UpdatePod(w.ctx, pod))
}

func (w *world) candidates() []*disruption.Candidate {
	w.t.Helper()
	found, totals, err := disruption.GetCandidatesWithTotals(w.ctx, w.parts.Cluster, w.client, w.recorder, w.clock, w.cloud, w.method.ShouldDisrupt,
		w.method.Class(), w.parts.Queue, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.method.SetNodePoolTotals(totals)
	return found
}

// compute asks the method as Karpenter's controller does.
func (w *world) compute() []disruption.Command {
	w.t.Helper()
	budgets := lo.Must(disruption.BuildDisruptionBudgetMapping(w.ctx, w.parts.Cluster, w.clock, w.client, w.cloud, w.recorder, w.method.Reason()))
	found, err := w.method.ComputeCommands(w.ctx, budgets, w.candidates()...)
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// plans makes the planner answer that these nodes go, and asks again.
func (w *world) plans(names ...string) []disruption.Command {
	w.t.Helper()
	w.planner.plan = &Plan{Leaving: names}
	return w.compute()
}

// increase returns by how much a counter grows while `act` runs.
func increase(name string, label string, act func()) float64 {
	before := value(name, label)
	act()
	return value(name, label) - before
}

func value(name, label string) float64 {
	switch name {
	case "disagreements":
		return testutil.ToFloat64(disagreementsTotal.WithLabelValues(label))
	case "fallbacks":
		return testutil.ToFloat64(fallbacksTotal.WithLabelValues(label))
	case "plans":
		return testutil.ToFloat64(plansTotal.WithLabelValues(label))
	}
	return testutil.ToFloat64(commandsTotal.WithLabelValues(label))
}

func names(given []*disruption.Candidate) []string {
	found := lo.Map(given, func(one *disruption.Candidate, _ int) string { return one.Name() })
	slices.Sort(found)
	return found
}
