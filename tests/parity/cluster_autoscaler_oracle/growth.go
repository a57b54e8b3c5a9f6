package main

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"k8s.io/autoscaler/cluster-autoscaler/cloudprovider"
	"k8s.io/autoscaler/cluster-autoscaler/clusterstate/scaleupfailures"
	clusterutils "k8s.io/autoscaler/cluster-autoscaler/clusterstate/utils"
	"k8s.io/autoscaler/cluster-autoscaler/config"
	cacontext "k8s.io/autoscaler/cluster-autoscaler/context"
	"k8s.io/autoscaler/cluster-autoscaler/core"
	"k8s.io/autoscaler/cluster-autoscaler/core/podlistprocessor"
	"k8s.io/autoscaler/cluster-autoscaler/core/scaledown/pdb"
	"k8s.io/autoscaler/cluster-autoscaler/core/scaleup/orchestrator"
	"k8s.io/autoscaler/cluster-autoscaler/debuggingsnapshot"
	"k8s.io/autoscaler/cluster-autoscaler/estimator"
	"k8s.io/autoscaler/cluster-autoscaler/expander"
	"k8s.io/autoscaler/cluster-autoscaler/processors"
	"k8s.io/autoscaler/cluster-autoscaler/processors/pods"
	"k8s.io/autoscaler/cluster-autoscaler/processors/status"
	"k8s.io/autoscaler/cluster-autoscaler/resourcequotas"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/clustersnapshot"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/clustersnapshot/predicate"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/clustersnapshot/store"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/drainability/rules"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/framework"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/options"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/scheduling"
	"k8s.io/autoscaler/cluster-autoscaler/utils/backoff"
	kubeutil "k8s.io/autoscaler/cluster-autoscaler/utils/kubernetes"
)

// mostLoops is more than any cluster of the size asked needs: each adds a node at least.
const mostLoops = 200

// watching notes what the expanders chose among, and which pods a loop would have to help.
type watching struct {
	expander.Strategy
	loop   *GrowthLoop
	helped []string
}

func (w *watching) BestOption(found []expander.Option, infos map[string]*framework.NodeInfo) *expander.Option {
	for _, one := range found {
		w.loop.Options = append(w.loop.Options, GrowthOption{one.NodeGroup.Id(), one.NodeCount, len(one.Pods)})
	}
	best := w.Strategy.BestOption(found, infos)
	if best != nil {
		w.loop.Chosen = best.NodeGroup.Id()
	}
	return best
}

type watchedPods struct {
	pods.PodListProcessor
	to *watching
}

func (w watchedPods) Process(ctx *cacontext.AutoscalingContext, pending []*v1.Pod) ([]*v1.Pod, error) {
	left, err := w.PodListProcessor.Process(ctx, pending)
	w.to.helped = []string{}
	for _, pod := range left {
		w.to.helped = append(w.to.helped, pod.Namespace+"/"+pod.Name)
	}
	slices.Sort(w.to.helped)
	return left, err
}

type watchedStatus struct{ to *watching }

func (w watchedStatus) CleanUp() {}

func (w watchedStatus) Process(_ *cacontext.AutoscalingContext, s *status.ScaleUpStatus) {
	for _, one := range s.ScaleUpInfos {
		if w.to.loop.Splits == nil {
			w.to.loop.Splits = map[string]int{}
		}
		w.to.loop.Splits[one.Group.Id()] += one.NewSize - one.CurrentSize
	}
}

func growthOptions(d *Document) config.AutoscalingOptions {
	o := autoscalingOptions(&d.Settings.ScaleDown)
	o.NodeGroupDefaults.MaxNodeProvisionTime = 15 * time.Minute
	o.NodeGroupDefaults.MaxNodeStartupTime = 15 * time.Minute
	o.ScaleDownEnabled = false
	o.DynamicResourceAllocationEnabled = false
	o.BalanceSimilarNodeGroups = d.Settings.ScaleUp.BalanceSimilarNodeGroups
	o.MaxNodesPerScaleUp = 1000
	o.MaxNodeGroupBinpackingDuration = time.Hour
	o.MaxBinpackingTime = time.Hour
	o.PendingPodsBatchingTimeout = time.Hour
	o.MaxTotalUnreadyPercentage = 45
	o.OkTotalUnreadyCount = 3
	o.ConfigNamespace = namespace
	o.ScaleUpFromZero = true
	return o
}

// grow lets the real loop run until it adds nothing more; what it asked for stays on its way, as template nodes.
// Seed 0 takes the pods in the document's order, others in another one.
func (o *oracle) grow(ctx context.Context, seed int64) (Growth, error) {
	opts := growthOptions(o.document)
	provider := newGrowing(o.cluster, opts.NodeGroupDefaults)
	limits, err := quotasOf(o.document.Settings.Planner.Limits)
	if err != nil {
		return Growth{}, err
	}
	clients, err := o.clients(seed)
	if err != nil {
		return Growth{}, err
	}
	strategy, err := newStrategy(ctx, &o.document.Settings.ScaleUp, provider, clients)
	if err != nil {
		return Growth{}, err
	}
	estimate, err := estimator.NewEstimatorBuilder(estimator.BinpackingEstimatorName,
		estimator.NewThresholdBasedEstimationLimiter([]estimator.Threshold{
			estimator.NewStaticThreshold(opts.MaxNodesPerScaleUp, opts.MaxNodeGroupBinpackingDuration),
			estimator.NewSngCapacityThreshold(),
			estimator.NewClusterCapacityThreshold(),
		}), estimator.NewDecreasingPodOrderer(), nil, false)
	if err != nil {
		return Growth{}, err
	}
	watch := &watching{Strategy: strategy}
	all := processors.DefaultProcessors(opts)
	all.PodListProcessor = watchedPods{podlistprocessor.NewDefaultPodListProcessor(scheduling.ScheduleAnywhere), watch}
	all.ScaleUpStatusProcessor = watchedStatus{watch}
	delete := options.NewNodeDeleteOptions(opts)
	tracked := resourcequotas.TrackerOptions{
		CustomResourcesProcessor: all.CustomResourcesProcessor,
		QuotaProvider:            resourcequotas.NewCombinedQuotasProvider([]resourcequotas.Provider{resourcequotas.NewCloudQuotasProvider(provider), limits}),
	}
	var snapshot clustersnapshot.ClusterSnapshot = predicate.NewPredicateSnapshot(store.NewDeltaSnapshotStore(), o.framework, false, *parallelism, false, 0)
	autoscaler := core.NewStaticAutoscaler(opts, o.framework, snapshot, clients, all, nil, provider, watch, estimate,
		o.backoff(provider), scaleupfailures.NewRegistry(), debuggingsnapshot.NewDebuggingSnapshotter(false),
		pdb.NewBasicRemainingPdbTracker(), orchestrator.New(), delete, rules.Default(delete), nil,
		tracked, resourcequotas.TrackerOptions{CustomResourcesProcessor: all.CustomResourcesProcessor, QuotaProvider: resourcequotas.NewCloudMinProvider(provider)}, nil, nil)
	o.registerMissing(provider, all)
	return o.loops(ctx, autoscaler, provider, watch)
}

// registerMissing tells of the nodes that were asked for and have not registered: upstream believes only in those of
// which it knows the request.
func (o *oracle) registerMissing(provider growing, all *processors.AutoscalingProcessors) {
	_, size := o.cluster.groupOf()
	for _, group := range provider.NodeGroups() {
		if target, _ := group.TargetSize(); target > size[group.Id()] {
			all.ScaleStateNotifier.RegisterScaleUp(group, target-size[group.Id()], time.Now())
		}
	}
}

func (o *oracle) loops(ctx context.Context, autoscaler *core.StaticAutoscaler, provider growing, watch *watching) (Growth, error) {
	started, before := time.Now(), sizes(provider)
	out := Growth{Groups: map[string]int{}}
	for {
		watch.loop = &GrowthLoop{}
		if err := autoscaler.RunOnce(ctx, time.Now()); err != nil {
			return Growth{}, err
		}
		if out.Waiting == nil {
			out.Waiting = watch.helped
		}
		if len(watch.loop.Splits) == 0 {
			break
		}
		watch.loop.Waiting = len(watch.helped)
		out.Loops = append(out.Loops, *watch.loop)
		if len(out.Loops) > mostLoops {
			return Growth{}, fmt.Errorf("no end after %d loops", mostLoops)
		}
	}
	for id, size := range sizes(provider) {
		if size != before[id] {
			out.Groups[id] = size - before[id]
		}
	}
	out.Pending = watch.helped
	out.Ms = float64(time.Since(started).Microseconds()) / 1000
	return out, nil
}

func sizes(p growing) map[string]int {
	out := map[string]int{}
	for _, group := range p.NodeGroups() {
		out[group.Id()], _ = group.TargetSize()
	}
	return out
}

func (o *oracle) clients(seed int64) (*cacontext.AutoscalingKubeClients, error) {
	c := o.cluster
	ready := []*v1.Node{}
	for _, node := range c.nodes {
		if kubeutil.IsNodeReadyAndSchedulable(node) {
			ready = append(ready, node)
		}
	}
	listed := slices.Clone(c.pods)
	if seed != 0 {
		rand.New(rand.NewSource(seed)).Shuffle(len(listed), func(i, j int) { listed[i], listed[j] = listed[j], listed[i] })
	}
	r := o.listers
	registry := kubeutil.NewListerRegistry(kubeutil.NewTestNodeLister(c.nodes), kubeutil.NewTestNodeLister(ready),
		kubeutil.NewTestPodLister(listed), r.PodDisruptionBudgetLister(), r.DaemonSetLister(),
		r.ReplicationControllerLister(), r.JobLister(), r.ReplicaSetLister(), r.StatefulSetLister())
	client, recorder := fake.NewSimpleClientset(), &record.FakeRecorder{}
	log, err := clusterutils.NewStatusMapRecorder(client, namespace, recorder, false, "status")
	return &cacontext.AutoscalingKubeClients{ListerRegistry: registry, ClientSet: client, Recorder: recorder, LogRecorder: log}, err
}

// backoff begins with the groups that the document says are backed off.
func (o *oracle) backoff(provider growing) backoff.Backoff {
	out := backoff.NewIdBasedExponentialBackoff(time.Hour, 2*time.Hour, 3*time.Hour)
	for _, group := range o.cluster.groups {
		if group.Status.Health == "BackedOff" {
			failed := cloudprovider.InstanceErrorInfo{ErrorClass: cloudprovider.OtherErrorClass}
			out.Backoff(provider.GetNodeGroup(group.Metadata.Name), nil, failed, time.Now())
		}
	}
	return out
}
