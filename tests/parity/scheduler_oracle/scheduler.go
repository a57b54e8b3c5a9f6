package main

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

const gates = "SchedulingGates"

// scheduler is the default profile, once whole and once for each Filter plugin alone.
type scheduler struct {
	full   framework.Framework
	single map[string]framework.Framework
	order  []string // Filter plugins in the order in which they run
	gate   fwk.PreEnqueuePlugin
}

func newScheduler(ctx context.Context, d *Document, c *cluster) (*scheduler, error) {
	client := fake.NewClientset(objects(d)...)
	factory := informers.NewSharedInformerFactory(client, 0)
	cfg, err := latest.Default()
	if err != nil {
		return nil, err
	}
	profile := cfg.Profiles[0]
	logger := klog.FromContext(ctx)
	claims := assumecache.NewAssumeCache(logger, factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	slices, err := resourceslicetracker.StartTracker(ctx, resourceslicetracker.Options{
		SliceInformer: factory.Resource().V1().ResourceSlices(), KubeClient: client})
	if err != nil {
		return nil, err
	}
	opts := []frameworkruntime.Option{
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(c),
		frameworkruntime.WithParallelism(1),
		frameworkruntime.WithSharedDRAManager(dynamicresources.NewDRAManager(ctx, claims, slices, factory)),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
	}
	s := &scheduler{single: map[string]framework.Framework{}}
	if s.full, err = frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), &profile, opts...); err != nil {
		return nil, err
	}
	for _, p := range s.full.PreEnqueuePlugins() {
		if p.Name() == gates {
			s.gate = p
		}
	}
	for _, p := range s.full.ListPlugins().Filter.Enabled {
		s.order = append(s.order, p.Name)
		one := alone(&profile, p.Name, s.full.ListPlugins())
		f, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), one, opts...)
		if err != nil {
			return nil, fmt.Errorf("plugin %s: %w", p.Name, err)
		}
		s.single[p.Name] = f
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return s, nil
}

// alone is a profile with one Filter plugin and its own PreFilter, if it has one.
func alone(profile *config.KubeSchedulerProfile, name string, all *config.Plugins) *config.KubeSchedulerProfile {
	set := func(n string) config.PluginSet { return config.PluginSet{Enabled: []config.Plugin{{Name: n}}} }
	one := &config.KubeSchedulerProfile{
		SchedulerName: profile.SchedulerName + "-" + name, // a plugin may register an index under it only once
		PluginConfig:  profile.PluginConfig,
		Plugins:       &config.Plugins{QueueSort: set("PrioritySort"), Bind: set("DefaultBinder"), Filter: set(name)},
	}
	for _, p := range all.PreFilter.Enabled {
		if p.Name == name {
			one.Plugins.PreFilter = set(name)
		}
	}
	return one
}

// objects are what the plugins look up; a namespace that is not listed exists with its name as only label.
func objects(d *Document) []runtime.Object {
	const nameLabel = "kubernetes.io/metadata.name"
	var out []runtime.Object
	seen := sets.New[string]()
	for i := range d.Namespaces {
		n := &d.Namespaces[i]
		seen.Insert(n.Name)
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[nameLabel] = n.Name
		out = append(out, n)
	}
	for _, pods := range [][]v1.Pod{d.Pods, d.Pending} {
		for i := range pods {
			if ns := pods[i].Namespace; !seen.Has(ns) {
				seen.Insert(ns)
				out = append(out, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{nameLabel: ns}}})
			}
		}
	}
	for i := range d.PVCs {
		out = append(out, &d.PVCs[i])
	}
	for i := range d.PVs {
		out = append(out, &d.PVs[i])
	}
	for i := range d.StorageClasses {
		out = append(out, &d.StorageClasses[i])
	}
	for i := range d.CSINodes {
		out = append(out, &d.CSINodes[i])
	}
	for i := range d.CSIDrivers {
		out = append(out, &d.CSIDrivers[i])
	}
	for i := range d.VolumeAttachments {
		out = append(out, &d.VolumeAttachments[i])
	}
	return out
}

// cycle is one scheduling cycle of one pod in one framework, after PreFilter.
type cycle struct {
	f      framework.Framework
	pod    *v1.Pod
	state  fwk.CycleState
	nodes  *fwk.PreFilterResult
	status *fwk.Status
	by     sets.Set[string]
}

func begin(ctx context.Context, f framework.Framework, pod *v1.Pod) cycle {
	state := framework.NewCycleState()
	nodes, status, by := f.RunPreFilterPlugins(ctx, state, pod)
	return cycle{f, pod, state, nodes, status, by}
}

func (c cycle) filter(ctx context.Context, ni fwk.NodeInfo) *fwk.Status {
	if !c.status.IsSuccess() {
		return c.status
	}
	if !c.nodes.AllNodes() && !c.nodes.NodeNames.Has(ni.Node().Name) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) didn't satisfy plugin(s) "+strings.Join(sets.List(c.by), ","))
	}
	return c.f.RunFilterPlugins(ctx, c.state, c.pod, ni)
}

func message(s *fwk.Status) string {
	text := strings.Join(s.Reasons(), "; ")
	if s.Code() == fwk.Error {
		return "error: " + text
	}
	return text
}

// ask says which nodes, in order, refuse the pod and why; with stop, up to the first that takes it, which is returned.
func (s *scheduler) ask(ctx context.Context, pod *v1.Pod, nodes []fwk.NodeInfo, stop bool) (Answer, string, error) {
	a := Answer{Pod: podKey(pod), Failing: map[string]map[string][]string{}}
	refuse := func(plugin, text, node string) {
		if a.Failing[plugin] == nil {
			a.Failing[plugin] = map[string][]string{}
		}
		a.Failing[plugin][text] = append(a.Failing[plugin][text], node)
	}
	gated := s.gate.PreEnqueue(ctx, pod)
	whole := begin(ctx, s.full, pod)
	parts := map[string]cycle{}
	for name, f := range s.single {
		parts[name] = begin(ctx, f, pod)
	}
	for _, ni := range nodes {
		node, fits := ni.Node().Name, true
		if !gated.IsSuccess() {
			refuse(gates, "", node)
		}
		for _, plugin := range s.order {
			if st := parts[plugin].filter(ctx, ni); !st.IsSuccess() {
				refuse(plugin, message(st), node)
				fits = false
			}
		}
		if st := whole.filter(ctx, ni); st.IsSuccess() != fits {
			return a, "", fmt.Errorf("%s on %s: the plugins together say %v, alone %v", a.Pod, node, st, a.Failing)
		}
		if stop && fits && gated.IsSuccess() {
			return a, node, nil
		}
	}
	return a, "", nil
}
