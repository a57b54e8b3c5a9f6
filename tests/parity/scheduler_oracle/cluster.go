package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// cluster is a scheduler snapshot into which pods can be placed.
type cluster struct {
	list   []fwk.NodeInfo
	byName map[string]*framework.NodeInfo
	aff    []fwk.NodeInfo
	anti   []fwk.NodeInfo
	// antiWider: anti with a term of a topology wider than a host.
	antiWider []fwk.NodeInfo
}

func podKey(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// newCluster drops pods of unknown nodes, as the scheduler's cache does, and returns their number.
func newCluster(nodes []*v1.Node, pods []*v1.Pod) (*cluster, int) {
	c := &cluster{byName: map[string]*framework.NodeInfo{}}
	for _, n := range nodes {
		ni := framework.NewNodeInfo()
		ni.SetNode(n)
		c.byName[n.Name] = ni
		c.list = append(c.list, ni)
	}
	orphans := 0
	for _, p := range pods {
		ni, ok := c.byName[p.Spec.NodeName]
		if !ok {
			orphans++
			continue
		}
		ni.AddPod(p)
	}
	c.relist()
	return c, orphans
}

// relist finds the nodes with affinity anew, after pods came or went.
func (c *cluster) relist() {
	c.aff, c.anti, c.antiWider = nil, nil, nil
	for _, x := range c.list {
		ni := x.(*framework.NodeInfo)
		if len(ni.PodsWithAffinity) > 0 {
			c.aff = append(c.aff, ni)
		}
		if len(ni.PodsWithRequiredAntiAffinity) > 0 {
			c.anti = append(c.anti, ni)
		}
		if len(ni.GetPodsWithRequiredNonHostScopedAntiAffinity()) > 0 {
			c.antiWider = append(c.antiWider, ni)
		}
	}
}

// without gives a node's pods anew, all but one (nil = all). The scheduler's own RemovePod would free a
// host port that a second pod of the node still holds.
func (c *cluster) without(node string, pods []*v1.Pod, left *v1.Pod) {
	old := c.byName[node]
	ni := framework.NewNodeInfo()
	ni.SetNode(old.Node())
	for _, p := range pods {
		if p.Spec.NodeName == node && p != left {
			ni.AddPod(p)
		}
	}
	c.byName[node] = ni
	for i := range c.list {
		if c.list[i].Node().Name == node {
			c.list[i] = ni
		}
	}
	c.relist()
}

func (c *cluster) place(p *v1.Pod, node string) {
	bound := p.DeepCopy()
	bound.Spec.NodeName = node
	c.byName[node].AddPod(bound)
	c.relist()
}

// The rest makes it a framework.SharedLister.

func (c *cluster) NodeInfos() fwk.NodeInfoLister                                 { return c }
func (c *cluster) StorageInfos() fwk.StorageInfoLister                           { return c }
func (c *cluster) List() ([]fwk.NodeInfo, error)                                 { return c.list, nil }
func (c *cluster) HavePodsWithAffinityList() ([]fwk.NodeInfo, error)             { return c.aff, nil }
func (c *cluster) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) { return c.anti, nil }
func (c *cluster) HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]fwk.NodeInfo, error) {
	return c.antiWider, nil
}

func (c *cluster) IsPVCUsedByPods(key string) bool {
	for _, ni := range c.byName {
		if ni.PVCRefCounts[key] > 0 {
			return true
		}
	}
	return false
}

func (c *cluster) Get(name string) (fwk.NodeInfo, error) {
	if ni, ok := c.byName[name]; ok {
		return ni, nil
	}
	return nil, fmt.Errorf("no node %q", name)
}

// There are no pod groups.

func (c *cluster) PodGroupStates() fwk.PodGroupStateLister                   { return nil }
func (c *cluster) PodGroups() fwk.PodGroupLister                             { return nil }
func (c *cluster) CompositePodGroupStates() fwk.CompositePodGroupStateLister { return nil }
func (c *cluster) CompositePodGroups() fwk.CompositePodGroupLister           { return nil }
