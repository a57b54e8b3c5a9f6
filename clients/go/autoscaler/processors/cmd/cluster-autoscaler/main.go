//go:build cluster_autoscaler

// Command cluster-autoscaler is a Cluster Autoscaler 1.37 with an external cloud provider whose scale-down follows plans,
// and whose scale-up takes the group of the plan. It shows what a build with our processors wires; it has no leader
// election and none of the optional parts of upstream's main.
package main

import (
	"context"
	"flag"
	"time"

	"github.com/spf13/pflag"
	apiv1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/autoscaler/cluster-autoscaler/builder"
	"k8s.io/autoscaler/cluster-autoscaler/cloudprovider"
	"k8s.io/autoscaler/cluster-autoscaler/cloudprovider/externalgrpc"
	"k8s.io/autoscaler/cluster-autoscaler/clusterstate/scaleupfailures"
	"k8s.io/autoscaler/cluster-autoscaler/config"
	"k8s.io/autoscaler/cluster-autoscaler/config/flags"
	"k8s.io/autoscaler/cluster-autoscaler/core"
	coreoptions "k8s.io/autoscaler/cluster-autoscaler/core/options"
	"k8s.io/autoscaler/cluster-autoscaler/core/podlistprocessor"
	"k8s.io/autoscaler/cluster-autoscaler/core/scaleup/orchestrator"
	"k8s.io/autoscaler/cluster-autoscaler/debuggingsnapshot"
	"k8s.io/autoscaler/cluster-autoscaler/expander/random"
	"k8s.io/autoscaler/cluster-autoscaler/loop"
	"k8s.io/autoscaler/cluster-autoscaler/metrics"
	ca_processors "k8s.io/autoscaler/cluster-autoscaler/processors"
	"k8s.io/autoscaler/cluster-autoscaler/processors/nodes"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/options"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/scheduling"
	kube_util "k8s.io/autoscaler/cluster-autoscaler/utils/kubernetes"
	"k8s.io/client-go/informers"
	kube_flag "k8s.io/component-base/cli/flag"
	klog "k8s.io/klog/v2"

	"trimtab.dev/clients/go/autoscaler"
	"trimtab.dev/clients/go/autoscaler/processors"
	"trimtab.dev/clients/go/trimtab"
	"trimtab.dev/clients/go/trimtab/listers"
)

func main() {
	address := pflag.String("trimtab-address", "", "address of the planner, host:port; without it, the Cluster Autoscaler decides alone")
	klog.InitFlags(flag.CommandLine)
	kube_flag.InitFlags()
	ctx, given := context.Background(), flags.AutoscalingOptions()
	metrics.RegisterAll(given.EmitPerNodeGroupMetrics)
	autoscaler, err := build(ctx, given, *address)
	if err != nil {
		klog.Fatalf("cannot build the Cluster Autoscaler: %v", err)
	}
	if err := autoscaler.Start(); err != nil {
		klog.Fatalf("cannot start the Cluster Autoscaler: %v", err)
	}
	health := metrics.NewHealthCheck(given.MaxInactivityTime, given.MaxFailingTime, given.MaxStartupTime)
	for range time.Tick(given.ScanInterval) {
		loop.RunAutoscalerOnce(ctx, autoscaler, health, time.Now())
	}
}

// build returns a Cluster Autoscaler that asks the planner at an address, if one is given.
func build(ctx context.Context, given config.AutoscalingOptions, address string) (core.Autoscaler, error) {
	kube := kube_util.CreateKubeClient(given.KubeClientOpts)
	factory := informers.NewSharedInformerFactory(kube, 0)
	made := coreoptions.AutoscalerOptions{
		AutoscalingOptions: given, KubeClient: kube, InformerFactory: factory, ScaleUpOrchestrator: orchestrator.New(),
		DebuggingSnapshotter: debuggingsnapshot.NewDebuggingSnapshotter(false), DeleteOptions: options.NewNodeDeleteOptions(given),
		ScaleUpFailuresRegistry: scaleupfailures.NewRegistry(),
	}
	made.LoopStartObservers = append(made.LoopStartObservers, made.ScaleUpFailuresRegistry)
	made.Processors = ca_processors.DefaultProcessors(given)
	made.Processors.PodListProcessor = podlistprocessor.NewDefaultPodListProcessor(scheduling.ScheduleAnywhere)
	limits := cloudprovider.NewResourceLimiter(map[string]int64{}, map[string]int64{})
	made.CloudProvider = externalgrpc.BuildExternalGrpc(&made, cloudprovider.NodeGroupDiscoveryOptions{}, limits)
	if address != "" {
		if err := follow(&made, factory, address); err != nil {
			return nil, err
		}
	}
	found, err := builder.NewAutoscaler(ctx, made, factory)
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return found, nil
}

// follow puts the processors and the expander that follow plans into the options.
func follow(made *coreoptions.AutoscalerOptions, factory informers.SharedInformerFactory, address string) error {
	client, err := trimtab.NewClient(address, trimtab.Options{})
	if err != nil {
		return err
	}
	from, err := listers.FromFactory(factory)
	if err != nil {
		return err
	}
	advisor := autoscaler.NewAdvisor(client, from.Cluster, autoscaler.Settings{
		Cluster: "cluster-autoscaler", Failed: func(err error) { klog.Warningf("trimtab: no plan: %v", err) },
	})
	chosen := made.Processors
	chosen.ScaleDownNodeProcessor = processors.NewCandidates(chosen.ScaleDownNodeProcessor, advisor)
	chosen.ScaleDownSetProcessor = nodes.NewCompositeScaleDownSetProcessor([]nodes.ScaleDownSetProcessor{
		processors.NewSet(advisor), chosen.ScaleDownSetProcessor,
	})
	allNodes := factory.Core().V1().Nodes().Lister()
	all := func() ([]*apiv1.Node, error) { return allNodes.List(labels.Everything()) }
	made.ExpanderStrategy = processors.NewExpander(advisor, made.CloudProvider, all, random.NewStrategy())
	return nil
}
