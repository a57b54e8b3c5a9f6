package trimtab

import (
	corev1 "k8s.io/api/core/v1"
)

// membersOf returns the names of the nodes of each pool, offering and choice of
// the pool's own labels; nodes of declared groups stay theirs.
func membersOf(objects *Objects) map[member][]string {
	own := map[string][]string{}
	for _, pool := range objects.NodePools {
		for _, one := range pool.ofNodes().Requirements {
			if one.Operator == "In" && one.Key != "" && !isOfMachines(one.Key) {
				own[pool.Name] = append(own[pool.Name], one.Key)
			}
		}
	}
	declared, found := membershipOf(objects.NodeGroups), map[member][]string{}
	for _, node := range objects.Nodes {
		pool := node.Labels[poolLabel]
		if pool == "" || len(declared.of(node)) > 0 {
			continue
		}
		one := variant{}
		for _, key := range sortedUnique(own[pool]) {
			if value, is := node.Labels[key]; is {
				one.keys, one.values = append(one.keys, key), append(one.values, value)
			}
		}
		of := member{pool, offerOf(node.Labels), one.text()}
		found[of] = append(found[of], node.Name)
	}
	return found
}

// claimedBy counts the NodeClaims of each pool and offering that are launched
// and have no node yet.
func claimedBy(objects *Objects) map[member]int {
	nodes, found := byKey(objects.Nodes), map[member]int{}
	for _, claim := range objects.NodeClaims {
		_, isOfPool := claim.Labels[poolLabel]
		_, isLaunched := claim.Labels[capacityTypeLabel]
		isThere := nodes["default/"+claim.Status.NodeName] != nil
		if isOfPool && isLaunched && !isThere && claim.DeletionTimestamp == nil {
			found[member{claim.Labels[poolLabel], offerOf(claim.Labels), ""}]++
		}
	}
	return found
}

// zonesOfPools returns the zones that pools name.
func zonesOfPools(pools []*NodePool) []string {
	found := []string{}
	for _, pool := range pools {
		for _, one := range pool.ofNodes().Requirements {
			if one.Key == corev1.LabelTopologyZone && one.Operator == "In" {
				found = append(found, one.Values...)
			}
		}
	}
	return found
}
