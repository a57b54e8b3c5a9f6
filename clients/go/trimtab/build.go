package trimtab

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"

	pb "trimtab.dev/clients/go/trimtabv1"
)

// systemPriorities are those of the classes that every cluster has.
var systemPriorities = map[string]int32{
	"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000,
}

// Snapshot is a cluster in the form for the planner.
type Snapshot struct {
	// Message may be sent to a planner; do not change it.
	Message *pb.ClusterSnapshot
	// Notes are remarks for people about the objects.
	Notes []string
	// Settings are what NodePools ask of plans (WithPoolSettings); nil = there
	// are none.
	Settings *pb.PlanSettings
}

// Build returns the snapshot of a cluster's objects. The error is an
// *ObjectError for an object that Kubernetes would refuse, for two objects of
// one kind and name, and for a node in two groups.
func Build(objects Objects) (*Snapshot, error) {
	b := &builder{snapshot: &pb.ClusterSnapshot{}}
	if err := b.take(objects); err != nil {
		return nil, err
	}
	wanted, err := b.addPods()
	if err != nil {
		return nil, err
	}
	if err := b.addNodes(); err != nil {
		return nil, err
	}
	if b.snapshot.Owners, err = b.owners(wanted); err != nil {
		return nil, err
	}
	if err := b.addPodGroups(); err != nil {
		return nil, err
	}
	for _, one := range b.objects.PodDisruptionBudgets {
		row, err := budgetRow(one, b.dictionary)
		if err != nil {
			return nil, ofObject("PodDisruptionBudget", keyOf(one), err)
		}
		b.snapshot.PodDisruptionBudgets = append(b.snapshot.PodDisruptionBudgets, row)
	}
	b.addNamespaces()
	b.snapshot.SlackRequests = slackRequests(&b.objects, b.workloads, b.specs.priorities, b.specs.claims)
	devices, notes, err := devicesOf(&b.objects)
	if err != nil {
		return nil, err
	}
	if devices != nil {
		devices.KubernetesMinor = minorOfKubelets(b.objects.Nodes)
	}
	b.snapshot.Devices, b.notes = devices, append(b.notes, notes...)
	b.snapshot.CapacityRequests = capacityRequests(&b.objects, b.specs.priorities, b.specs.claims)
	b.dictionary.write(b.snapshot)
	notes = slices.Concat(b.notes, sortedUnique(b.specs.notes), b.poolNotes)
	return &Snapshot{Message: b.snapshot, Notes: notes, Settings: b.settings}, nil
}

// builder is the state of one call.
type builder struct {
	objects    Objects
	workloads  *workloads
	snapshot   *pb.ClusterSnapshot
	dictionary *dictionary
	specs      *specTable
	csiNodes   map[string]*storagev1.CSINode
	required   map[string]bool
	notes      []string
	settings   *pb.PlanSettings
	poolNotes  []string
}

// take checks and sorts the objects, and prepares the dictionaries.
func (b *builder) take(objects Objects) error {
	var err error
	if b.objects, err = sortedCopy(objects); err != nil {
		return err
	}
	if b.objects, b.settings, b.poolNotes, err = withPools(b.objects); err != nil {
		return err
	}
	b.workloads = workloadsOf(&b.objects)
	nodes := slices.Clone(b.objects.Nodes)
	for _, group := range b.objects.NodeGroups {
		if group.Spec.Template != nil {
			nodes = append(nodes, group.Spec.Template)
		}
	}
	b.dictionary = newDictionary(resourceNames(nodes))
	b.specs = newSpecTable(b.dictionary, prioritiesOf(b.objects.PriorityClasses), claimObjectsOf(&b.objects))
	b.required = requiredDrivers(b.objects.CSIDrivers)
	b.csiNodes = map[string]*storagev1.CSINode{}
	for _, one := range b.objects.CSINodes {
		b.csiNodes[one.Name] = one
	}
	return nil
}

func prioritiesOf(classes []*schedulingv1.PriorityClass) priorities {
	out := priorities{byClass: maps.Clone(systemPriorities)}
	for _, one := range classes {
		out.byClass[one.Name] = one.Value
		if one.GlobalDefault {
			out.none = one.Value
		}
	}
	return out
}

// addPods writes the pod table, and returns the uids of the pods' owners.
func (b *builder) addPods() (map[string]bool, error) {
	table := &podTable{
		dictionary: b.dictionary, specs: b.specs, storage: b.storage(), keys: b.objects.NumberAnnotations,
	}
	for _, pod := range b.objects.Pods {
		if err := table.add(pod); err != nil {
			return nil, ofObject("Pod", keyOf(pod), err)
		}
	}
	b.snapshot.Pods = &pb.PodTable{}
	table.write(b.snapshot.Pods)
	if table.unknownClaims > 0 {
		b.notes = append(b.notes, fmt.Sprintf(
			"%d mounts of PersistentVolumeClaims count as usable on every node, because no claims are given",
			table.unknownClaims))
	}
	owners := map[string]bool{}
	for _, uid := range table.owners {
		owners[uid] = uid != ""
	}
	return owners, nil
}

func (b *builder) storage() *storage {
	if b.objects.PersistentVolumeClaims == nil {
		return nil
	}
	out := &storage{
		claims:    byKey(b.objects.PersistentVolumeClaims),
		volumes:   map[string]*corev1.PersistentVolume{},
		classes:   map[string]*storagev1.StorageClass{},
		migration: &migration{csiNodes: b.csiNodes},
		required:  b.required,
	}
	for _, one := range b.objects.PersistentVolumes {
		out.volumes[one.Name] = one
		out.names = append(out.names, one.Name)
	}
	for _, one := range b.objects.StorageClasses {
		out.classes[one.Name] = one
	}
	for _, node := range b.objects.Nodes {
		out.migration.nodes = append(out.migration.nodes, node.Name)
	}
	return out
}

func (b *builder) addNodes() error {
	groupOf, err := groupsOfNodes(b.objects.NodeGroups, b.objects.Nodes)
	if err != nil {
		return err
	}
	sizes := map[string]int{}
	for _, group := range groupOf {
		sizes[group]++
	}
	for _, group := range b.objects.NodeGroups {
		row, err := b.groupRow(group, sizes[group.Name])
		if err != nil {
			return ofObject("NodeGroup", group.Name, err)
		}
		b.snapshot.NodeGroups = append(b.snapshot.NodeGroups, row)
	}
	leaving := nodesOfDeletedClaims(b.objects.NodeClaims)
	for _, node := range b.objects.Nodes {
		row, err := nodeRow(node, b.csiNodes[node.Name], b.dictionary, b.required)
		if err != nil {
			return ofObject("Node", node.Name, err)
		}
		row.NodeGroup = groupOf[node.Name]
		row.BeingDeleted = row.BeingDeleted || leaving[node.Name]
		b.snapshot.Nodes = append(b.snapshot.Nodes, row)
	}
	return nil
}

func (b *builder) addNamespaces() {
	for _, one := range b.objects.Namespaces {
		labels := map[string]string{corev1.LabelMetadataName: one.Name}
		maps.Copy(labels, one.Labels)
		b.snapshot.Namespaces = append(b.snapshot.Namespaces, &pb.Namespace{
			Name: one.Name, LabelSet: b.dictionary.labelSet(labels),
		})
	}
}

// sortedCopy returns all objects checked and sorted by namespace and name.
func sortedCopy(from Objects) (Objects, error) {
	out := from
	err := cmp.Or(
		checkAndSort("Node", false, &out.Nodes),
		checkAndSort("Pod", true, &out.Pods),
		checkAndSort("NodeGroup", false, &out.NodeGroups),
		checkAndSort("NodePool", false, &out.NodePools),
		checkAndSort("NodeClaim", false, &out.NodeClaims),
		checkAndSort("Namespace", false, &out.Namespaces),
		checkAndSort("PodDisruptionBudget", true, &out.PodDisruptionBudgets),
		checkAndSort("PriorityClass", false, &out.PriorityClasses),
		checkAndSort("ReplicaSet", true, &out.ReplicaSets),
		checkAndSort("StatefulSet", true, &out.StatefulSets),
		checkAndSort("ReplicationController", true, &out.ReplicationControllers),
		checkAndSort("Deployment", true, &out.Deployments),
		checkAndSort("Job", true, &out.Jobs),
		checkAndSort("DaemonSet", true, &out.DaemonSets),
		checkAndSort("PersistentVolumeClaim", true, &out.PersistentVolumeClaims),
		checkAndSort("PersistentVolume", false, &out.PersistentVolumes),
		checkAndSort("StorageClass", false, &out.StorageClasses),
		checkAndSort("CSINode", false, &out.CSINodes),
		checkAndSort("CSIDriver", false, &out.CSIDrivers),
		checkAndSort("DeviceClass", false, &out.DeviceClasses),
		checkAndSort("ResourceSlice", false, &out.ResourceSlices),
		checkAndSort("DeviceTaintRule", false, &out.DeviceTaintRules),
		checkAndSort("ResourceClaimTemplate", true, &out.ResourceClaimTemplates),
		checkAndSort("ResourceClaim", true, &out.ResourceClaims),
		checkAndSort("CapacityBuffer", true, &out.CapacityBuffers),
		checkAndSort("PodTemplate", true, &out.PodTemplates),
		checkAndSort("PodGroup", true, &out.PodGroups),
		checkAndSort("Workload", true, &out.Workloads),
		checkAndSort(volcanoKind, true, &out.VolcanoPodGroups),
		checkAndSort("ProvisioningRequest", true, &out.ProvisioningRequests),
	)
	return out, err
}
