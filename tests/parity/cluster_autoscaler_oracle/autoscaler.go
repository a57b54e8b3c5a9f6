package main

import (
	"context"
	"math"
	"math/rand"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"k8s.io/autoscaler/cluster-autoscaler/cloudprovider"
	testprovider "k8s.io/autoscaler/cluster-autoscaler/cloudprovider/test"
	"k8s.io/autoscaler/cluster-autoscaler/config"
	cacontext "k8s.io/autoscaler/cluster-autoscaler/context"
	"k8s.io/autoscaler/cluster-autoscaler/core/podlistprocessor"
	"k8s.io/autoscaler/cluster-autoscaler/core/scaledown"
	"k8s.io/autoscaler/cluster-autoscaler/core/scaledown/actuation"
	"k8s.io/autoscaler/cluster-autoscaler/core/scaledown/pdb"
	"k8s.io/autoscaler/cluster-autoscaler/core/scaledown/planner"
	coreutils "k8s.io/autoscaler/cluster-autoscaler/core/utils"
	"k8s.io/autoscaler/cluster-autoscaler/debuggingsnapshot"
	"k8s.io/autoscaler/cluster-autoscaler/processors"
	"k8s.io/autoscaler/cluster-autoscaler/processors/customresources"
	"k8s.io/autoscaler/cluster-autoscaler/processors/nodegroupconfig"
	"k8s.io/autoscaler/cluster-autoscaler/processors/nodes"
	"k8s.io/autoscaler/cluster-autoscaler/processors/scaledowncandidates"
	"k8s.io/autoscaler/cluster-autoscaler/processors/scaledowncandidates/emptycandidates"
	"k8s.io/autoscaler/cluster-autoscaler/resourcequotas"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/clustersnapshot/predicate"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/clustersnapshot/store"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/drainability/rules"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/framework"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/options"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/scheduling"
	"k8s.io/autoscaler/cluster-autoscaler/utils/gpu"
	kubeutil "k8s.io/autoscaler/cluster-autoscaler/utils/kubernetes"
)

const (
	gpuLabel  = "cloud.google.com/gke-accelerator"
	unlimited = 1_000_000
)

// provider is upstream's test provider with the GPU label that Trimtab takes by default.
type provider struct {
	*testprovider.TestCloudProvider
}

func (p provider) GPULabel() string { return gpuLabel }

func (p provider) GetNodeGpuConfig(node *v1.Node) *cloudprovider.GpuConfig {
	return gpu.GetNodeGPUFromCloudProvider(p, node)
}

// deletions are nodes with the taint of a drain that the autoscaler began.
type deletions struct {
	nodes   []string
	byGroup map[string]int
}

func (d deletions) DeletionsInProgress() (empty, drained []string) { return nil, d.nodes }
func (d deletions) DeletionsCount(group string) int                { return d.byGroup[group] }
func (d deletions) RecentEvictions() []*v1.Pod                     { return nil }

// actuator only tells of the deletions.
type actuator struct {
	scaledown.Actuator
	status deletions
}

func (a actuator) CheckStatus() scaledown.ActuationStatus { return a.status }

// oracle asks the planner about one cluster.
type oracle struct {
	document  *Document
	cluster   *Cluster
	options   config.AutoscalingOptions
	provider  provider
	listers   kubeutil.ListerRegistry
	framework *framework.Handle
	deletions deletions
}

func newOracle(ctx context.Context, d *Document, c *Cluster) (*oracle, error) {
	client := fake.NewSimpleClientset(c.listed...)
	factory := informers.NewSharedInformerFactory(client, 0)
	handle, err := framework.NewHandle(ctx, factory, nil, true, false)
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	o := &oracle{document: d, cluster: c, options: autoscalingOptions(&d.Settings.ScaleDown), framework: handle}
	o.setProvider()
	return o, o.setListers()
}

func autoscalingOptions(s *Settings) config.AutoscalingOptions {
	return config.AutoscalingOptions{
		NodeGroupDefaults: config.NodeGroupAutoscalingOptions{
			ScaleDownUtilizationThreshold:    given(s.UtilizationThreshold, 0.5),
			ScaleDownGpuUtilizationThreshold: given(s.GpuUtilizationThreshold, 0.5),
			IgnoreDaemonSetsUtilization:      s.IgnoreDaemonsetsUtilization,
		},
		ScaleDownEnabled:                  true,
		ScaleDownUnreadyEnabled:           given(s.UnreadyEnabled, true),
		ScaleDownSimulationTimeout:        24 * time.Hour,
		UnremovableNodeRecheckTimeout:     5 * time.Minute,
		MaxScaleDownParallelism:           unlimited,
		MaxDrainParallelism:               unlimited,
		SkipNodesWithSystemPods:           given(s.SkipNodesWithSystemPods, true),
		SkipNodesWithLocalStorage:         given(s.SkipNodesWithLocalStorage, true),
		SkipNodesWithCustomControllerPods: given(s.SkipNodesWithCustomControllerPods, true),
		MinReplicaCount:                   s.MinReplicaCount,
		BspDisruptionTimeout:              time.Hour,
		IgnoreMirrorPodsUtilization:       s.IgnoreMirrorPodsUtilization,
		ExpendablePodsPriorityCutoff:      given(s.ExpendablePodsPriorityCutoff, -10),
		DynamicResourceAllocationEnabled:  true,
	}
}

func given[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

func (o *oracle) setProvider() {
	test := testprovider.NewTestCloudProviderBuilder().Build()
	o.provider = provider{test}
	of, size := o.cluster.groupOf()
	for _, group := range o.cluster.groups {
		spec := group.Spec
		var opts *config.NodeGroupAutoscalingOptions
		if spec.ZeroOrMax {
			copied := o.options.NodeGroupDefaults
			copied.ZeroOrMaxNodeScaling = true
			opts = &copied
		}
		target := given(spec.TargetSize, size[group.Metadata.Name])
		test.AddNodeGroupWithCustomOptions(group.Metadata.Name, spec.MinSize, spec.MaxSize, target, opts)
	}
	o.deletions.byGroup = map[string]int{}
	for _, node := range o.cluster.nodes {
		node.Spec.ProviderID = node.Name // as the test provider names its instances
		if group, ok := of[node.Name]; ok {
			test.AddNode(group, node)
		}
		if actuation.IsNodeBeingDeleted(node, o.document.Now) {
			o.deletions.nodes = append(o.deletions.nodes, node.Name)
			o.deletions.byGroup[of[node.Name]]++
		}
	}
	minimums := map[string]int64{}
	for _, minimum := range o.document.Settings.ScaleDown.ResourceMinimums {
		amount, _ := strconv.ParseInt(minimum.Amount, 10, 64)
		if minimum.Resource == "cpu" {
			minimums[cloudprovider.ResourceNameCores] = int64(math.Ceil(float64(amount) / 1000))
		} else {
			minimums[minimum.Resource] = amount
		}
	}
	test.SetResourceLimiter(cloudprovider.NewResourceLimiter(minimums, nil))
}

func (o *oracle) setListers() error {
	c := o.cluster
	dss, err := kubeutil.NewTestDaemonSetLister(c.dss)
	if err != nil {
		return err
	}
	rcs, err := kubeutil.NewTestReplicationControllerLister(c.rcs)
	if err != nil {
		return err
	}
	jobs, err := kubeutil.NewTestJobLister(c.jobs)
	if err != nil {
		return err
	}
	rss, err := kubeutil.NewTestReplicaSetLister(c.rss)
	if err != nil {
		return err
	}
	sss, err := kubeutil.NewTestStatefulSetLister(c.sss)
	all := kubeutil.NewTestNodeLister(c.nodes)
	o.listers = kubeutil.NewListerRegistry(all, all, kubeutil.NewTestPodLister(c.pods),
		kubeutil.NewTestPodDisruptionBudgetLister(c.budgets), dss, rcs, jobs, rss, sss)
	return err
}

// context is the state in which a loop stands when it comes to scale-down: cluster and pending pods in the snapshot.
func (o *oracle) context() (*cacontext.AutoscalingContext, error) {
	snapshot := predicate.NewPredicateSnapshot(store.NewDeltaSnapshotStore(), o.framework, true, 1, false)
	tracker := pdb.NewBasicRemainingPdbTracker()
	ctx := &cacontext.AutoscalingContext{
		AutoscalingOptions: o.options,
		AutoscalingKubeClients: cacontext.AutoscalingKubeClients{
			ListerRegistry: o.listers,
			Recorder:       record.NewFakeRecorder(100),
		},
		CloudProvider:        o.provider,
		ClusterSnapshot:      snapshot,
		FrameworkHandle:      o.framework,
		RemainingPdbTracker:  tracker,
		DebuggingSnapshotter: debuggingsnapshot.NewDebuggingSnapshotter(false),
		ScaleDownActuator:    actuator{status: o.deletions},
	}
	var running, pending []*v1.Pod
	for _, pod := range o.cluster.pods {
		switch {
		case pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed:
		case pod.Spec.NodeName != "":
			running = append(running, pod)
		case len(pod.Spec.SchedulingGates) == 0 && pod.DeletionTimestamp == nil:
			pending = append(pending, pod)
		}
	}
	running = coreutils.FilterOutExpendablePods(running, o.options.ExpendablePodsPriorityCutoff)
	if err := snapshot.SetClusterState(o.cluster.nodes, running, nil, nil); err != nil {
		return nil, err
	}
	if err := tracker.SetPdbs(o.cluster.budgets); err != nil {
		return nil, err
	}
	_, err := podlistprocessor.NewDefaultPodListProcessor(scheduling.ScheduleAnywhere).Process(ctx, pending)
	return ctx, err
}

// ask runs one loop; seed 0 takes the nodes in the document's order.
func (o *oracle) ask(seed int64) (Answer, error) {
	ctx, err := o.context()
	if err != nil {
		return Answer{}, err
	}
	deleteOptions := options.NewNodeDeleteOptions(o.options)
	drainability := rules.Default(deleteOptions)
	custom := customresources.NewDefaultCustomResourcesProcessor(true, false)
	quotas := resourcequotas.NewTrackerFactory(resourcequotas.TrackerOptions{
		CustomResourcesProcessor: custom, QuotaProvider: resourcequotas.NewCloudMinProvider(o.provider)})
	sorting := scaledowncandidates.NewScaleDownCandidatesSortingProcessor([]scaledowncandidates.CandidatesComparer{
		emptycandidates.NewEmptySortingProcessor(emptycandidates.NewNodeInfoGetter(ctx.ClusterSnapshot), deleteOptions, drainability)})
	p := planner.New(ctx, &processors.AutoscalingProcessors{
		NodeGroupConfigProcessor: nodegroupconfig.NewDefaultNodeGroupConfigProcessor(o.options.NodeGroupDefaults),
		ScaleDownSetProcessor:    nodes.NewAtomicResizeFilteringProcessor(),
	}, deleteOptions, drainability, quotas)
	listed := slices.Clone(o.cluster.nodes)
	if seed != 0 {
		rand.New(rand.NewSource(seed)).Shuffle(len(listed), func(i, j int) { listed[i], listed[j] = listed[j], listed[i] })
	}
	candidates, cerr := sorting.GetScaleDownCandidates(ctx, listed)
	if cerr != nil {
		return Answer{}, cerr
	}
	started := time.Now()
	if err := p.UpdateClusterState(listed, candidates, o.deletions, o.document.Now); err != nil {
		return Answer{}, err
	}
	answer := Answer{Ms: float64(time.Since(started).Microseconds()) / 1000, Unremovable: map[string]Reason{}}
	for _, one := range p.UnneededNodes() {
		answer.Unneeded = append(answer.Unneeded, one.Node.Name)
	}
	o.explain(p, candidates, &answer)
	return answer, nil
}

func (o *oracle) explain(p *planner.Planner, candidates []*v1.Node, answer *Answer) {
	offered := map[string]bool{}
	for _, node := range candidates {
		offered[node.Name] = true
	}
	for _, node := range o.cluster.nodes {
		if !offered[node.Name] || slices.Contains(o.deletions.nodes, node.Name) {
			answer.Passed = append(answer.Passed, node.Name)
		}
	}
	slices.Sort(answer.Passed)
	for _, one := range p.UnremovableNodes() {
		reason := Reason{Reason: int(one.Reason)}
		if one.BlockingPod != nil {
			reason.Pod = one.BlockingPod.Pod.Namespace + "/" + one.BlockingPod.Pod.Name
			reason.Blocking = int(one.BlockingPod.Reason)
		}
		answer.Unremovable[one.Node.Name] = reason
	}
	empty, drain := p.NodesToDelete(o.document.Now)
	answer.Empty, answer.Drain = names(empty), names(drain)
	for _, one := range p.UnremovableNodes() {
		if slices.Contains(answer.Unneeded, one.Node.Name) {
			if answer.Waiting == nil {
				answer.Waiting = map[string]int{}
			}
			answer.Waiting[one.Node.Name] = int(one.Reason)
		}
	}
	slices.Sort(answer.Unneeded)
}

func names(list []*v1.Node) []string {
	out := []string{}
	for _, node := range list {
		out = append(out, node.Name)
	}
	slices.Sort(out)
	return out
}
