package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"k8s.io/autoscaler/cluster-autoscaler/cloudprovider"
	testprovider "k8s.io/autoscaler/cluster-autoscaler/cloudprovider/test"
	"k8s.io/autoscaler/cluster-autoscaler/config"
	cacontext "k8s.io/autoscaler/cluster-autoscaler/context"
	"k8s.io/autoscaler/cluster-autoscaler/expander"
	"k8s.io/autoscaler/cluster-autoscaler/expander/factory"
	"k8s.io/autoscaler/cluster-autoscaler/expander/priority"
	"k8s.io/autoscaler/cluster-autoscaler/resourcequotas"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/framework"
	"k8s.io/autoscaler/cluster-autoscaler/utils/errors"
	"k8s.io/autoscaler/cluster-autoscaler/utils/gpu"
)

const (
	groupAnnotation = "trimtab.dev/group"
	// memoryPrice is that of 1 GiB by that of a core.
	memoryPrice = 0.134
	namespace   = "kube-system"
)

// upstreamExpanders are upstream's names of Trimtab's expanders.
var upstreamExpanders = map[string]string{
	"LEAST_WASTE": expander.LeastWasteExpanderName,
	"MOST_PODS":   expander.MostPodsExpanderName,
	"LEAST_NODES": expander.LeastNodesExpanderName,
	"PRICE":       expander.PriceBasedExpanderName,
	"PRIORITY":    expander.PriorityBasedExpanderName,
	"RANDOM":      expander.RandomExpanderName,
}

// ScaleUpSettings is the part of Trimtab's scale-up settings that the Cluster Autoscaler has too.
type ScaleUpSettings struct {
	Expanders                []string `json:"expanders"`
	BalanceSimilarNodeGroups bool     `json:"balanceSimilarNodeGroups"`
	Priority                 struct {
		Ranks []struct {
			Rank     int      `json:"rank"`
			Patterns []string `json:"patterns"`
		} `json:"ranks"`
	} `json:"priority"`
}

// Limit is an amount that new nodes must not exceed: nodes, cpu in milli-cores, anything else in its unit.
type Limit struct {
	Resource string `json:"resource"`
	Maximum  string `json:"maximum"`
	Nodes    struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"nodes"`
}

// quota is a limit as upstream's quota tracker asks for it.
type quota struct {
	id     string
	labels map[string]string
	limits map[string]int64
}

func (q quota) ID() string                   { return q.id }
func (q quota) AppliesTo(node *v1.Node) bool { return selects(q.labels, node.Labels) }
func (q quota) Limits() map[string]int64     { return q.limits }

type quotas []resourcequotas.Quota

func (q quotas) Quotas() ([]resourcequotas.Quota, error) { return q, nil }

func quotasOf(limits []Limit) (quotas, error) {
	var out quotas
	for i, limit := range limits {
		amount, err := strconv.ParseInt(limit.Maximum, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("limits[%d]: %w", i, err)
		}
		resource := limit.Resource
		switch resource {
		case "cpu":
			amount = int64(math.Floor(float64(amount) / 1000))
		case "nodes":
			resource = resourcequotas.ResourceNodes
		}
		out = append(out, quota{fmt.Sprintf("limit-%d", i), limit.Nodes.MatchLabels, map[string]int64{resource: amount}})
	}
	return out, nil
}

// growing is the test provider as a real one is: groups in a lasting order, templates of their own, prices.
type growing struct {
	*testprovider.TestCloudProvider
	prices *prices
}

func (p growing) GPULabel() string { return gpuLabel }

func (p growing) GetNodeGpuConfig(node *v1.Node) *cloudprovider.GpuConfig {
	return gpu.GetNodeGPUFromCloudProvider(p, node)
}

func (p growing) NodeGroups() []cloudprovider.NodeGroup {
	groups := p.TestCloudProvider.NodeGroups()
	slices.SortFunc(groups, func(a, b cloudprovider.NodeGroup) int { return strings.Compare(a.Id(), b.Id()) })
	return groups
}

func (p growing) Pricing() (cloudprovider.PricingModel, errors.AutoscalerError) { return p.prices, nil }

// prices are those of the groups; a core costs what it costs where it is cheapest, as Trimtab has it.
type prices struct {
	byGroup map[string]float64
	core    float64
}

func (p *prices) NodePrice(node *v1.Node, _, _ time.Time) (float64, error) {
	price, ok := p.byGroup[node.Annotations[groupAnnotation]]
	if !ok {
		return 0, fmt.Errorf("no price of %s", node.Name)
	}
	return price, nil
}

func (p *prices) PodPrice(pod *v1.Pod, _, _ time.Time) (float64, error) {
	total := 0.0
	for _, container := range pod.Spec.Containers {
		total += cores(container.Resources.Requests)
	}
	return total * p.core, nil
}

func cores(of v1.ResourceList) float64 {
	return float64(of.Cpu().MilliValue())/1000 + float64(of.Memory().Value())/(1<<30)*memoryPrice
}

// newGrowing builds the provider of one run.
func newGrowing(c *Cluster, defaults config.NodeGroupAutoscalingOptions) growing {
	of, size := c.groupOf()
	templates, offered := map[string]*framework.NodeInfo{}, map[string]*v1.Node{}
	for _, node := range c.nodes {
		node.Spec.ProviderID = node.Name
		if group, ok := of[node.Name]; ok {
			metav1.SetMetaDataAnnotation(&node.ObjectMeta, groupAnnotation, group)
			offered[group] = node
		}
	}
	for _, group := range c.groups {
		if template := group.Spec.Template; template != nil {
			node := template.DeepCopy()
			node.Name = "template-of-" + group.Metadata.Name
			metav1.SetMetaDataAnnotation(&node.ObjectMeta, groupAnnotation, group.Metadata.Name)
			node.Status.Conditions = cloudprovider.BuildReadyConditions()
			if node.Status.Allocatable == nil {
				node.Status.Allocatable = node.Status.Capacity
			}
			if node.Status.Capacity == nil {
				node.Status.Capacity = node.Status.Allocatable
			}
			templates[group.Metadata.Name] = framework.NewNodeInfo(node, nil)
			offered[group.Metadata.Name] = node
		}
	}
	increased := func(string, int) error { return nil }
	test := testprovider.NewTestCloudProviderBuilder().WithOnScaleUp(increased).WithMachineTemplates(templates).Build()
	test.SetResourceLimiter(cloudprovider.NewResourceLimiter(nil, nil))
	p := growing{test, &prices{byGroup: map[string]float64{}, core: math.Inf(1)}}
	for _, group := range c.groups {
		spec, name := group.Spec, group.Metadata.Name
		options := defaults
		options.ZeroOrMaxNodeScaling = spec.ZeroOrMax
		test.AddNodeGroupWithCustomOptions(name, spec.MinSize, spec.MaxSize, given(spec.TargetSize, size[name]), &options)
		if spec.Price != nil {
			p.prices.byGroup[name] = *spec.Price
			if node := offered[name]; node != nil && *spec.Price > 0 {
				p.prices.core = min(p.prices.core, *spec.Price/cores(node.Status.Capacity))
			}
		}
	}
	if math.IsInf(p.prices.core, 1) {
		p.prices.core = 0
	}
	for _, node := range c.nodes {
		if group, ok := of[node.Name]; ok {
			test.AddNode(group, node)
		}
	}
	return p
}

// newStrategy builds the real chain of expanders, with the configuration of `priority` as its ConfigMap.
func newStrategy(ctx context.Context, s *ScaleUpSettings, p growing, clients *cacontext.AutoscalingKubeClients) (expander.Strategy, error) {
	ranks := map[int][]string{}
	for _, rank := range s.Priority.Ranks {
		ranks[rank.Rank] = rank.Patterns
	}
	text, err := json.Marshal(ranks) // JSON is YAML
	if err != nil {
		return nil, err
	}
	configuration := &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: priority.PriorityConfigMapName, Namespace: namespace},
		Data:       map[string]string{priority.ConfigMapKey: string(text)},
	}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := indexer.Add(configuration); err != nil {
		return nil, err
	}
	f := factory.NewFactory()
	f.RegisterDefaultExpanders(p, clients, clients.ClientSet, namespace, "", "")
	f.RegisterFilter(expander.PriorityBasedExpanderName, func() expander.Filter {
		return priority.NewFilter(listers.NewConfigMapLister(indexer).ConfigMaps(namespace), &record.FakeRecorder{})
	})
	chosen := []string{}
	for _, name := range s.Expanders {
		upstream, ok := upstreamExpanders[name]
		if !ok {
			return nil, fmt.Errorf("expander %s is not one of upstream's", name)
		}
		chosen = append(chosen, upstream)
	}
	if len(chosen) == 0 {
		chosen = []string{expander.LeastWasteExpanderName}
	}
	strategy, aerr := f.Build(chosen)
	if aerr != nil {
		return nil, aerr
	}
	return strategy, nil
}
