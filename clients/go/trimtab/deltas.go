package trimtab

import (
	"cmp"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "trimtab.dev/clients/go/trimtabv1"
)

// mostChanged is the share of changed pods above which the whole snapshot is
// sent: a delta would cost as much.
const mostChanged = 0.3

// errSendWhole says that the whole snapshot is better, or the only way.
var errSendWhole = errors.New("send the whole snapshot")

// knownFields are the fields of a snapshot and of its pod table that Delta
// compares. It gives up on one that has others.
var knownFields = map[protoreflect.FullName][]protoreflect.Name{
	"trimtab.v1.ClusterSnapshot": {
		"strings", "resources", "label_sets", "pod_specs", "volumes", "pods", "nodes", "node_groups", "owners",
		"pod_disruption_budgets", "namespaces", "actuation_status", "slack_requests", "devices", "pod_groups",
		"capacity_requests",
	},
	"trimtab.v1.PodTable": {
		"count", "namespace", "names", "name_lengths", "uids", "uid_lengths", "spec", "label_set", "node", "owner",
		"created", "deletion", "phase", "flags", "deletion_cost", "pinned_node", "volume_pod", "volume", "number_pod",
		"number_key", "number", "pod_group", "nominated_node",
	},
}

// Delta returns the change from one snapshot to another, for a planner that has
// the first one; nil if the whole snapshot is to be sent. Pods of both must be
// sorted by namespace and name, as Build sorts them.
func Delta(before, after *pb.ClusterSnapshot) (*pb.SnapshotDelta, error) {
	in := newInterner()
	first, err := in.intern(before)
	if err != nil {
		return nil, err
	}
	second, err := in.intern(after)
	if err != nil {
		return nil, err
	}
	delta, err := in.difference(first, second)
	if errors.Is(err, errSendWhole) {
		return nil, nil
	}
	return delta, err
}

// hasOnlyKnown says whether a snapshot has no field that Delta would not compare.
func hasOnlyKnown(messages ...proto.Message) bool {
	for _, message := range messages {
		reflected := message.ProtoReflect()
		known := knownFields[reflected.Descriptor().FullName()]
		isKnown := len(reflected.GetUnknown()) == 0
		reflected.Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
			isKnown = isKnown && slices.Contains(known, field.Name())
			return isKnown
		})
		if !isKnown {
			return false
		}
	}
	return true
}

// difference returns the delta between two snapshots of this interner.
func (in *interner) difference(before, after *internedSnapshot) (*pb.SnapshotDelta, error) {
	isGone := before.actuation != "" && after.actuation == ""
	if isGone || !slices.Equal(before.message.Resources, after.message.Resources) {
		return nil, errSendWhole
	}
	if !hasOnlyKnown(before.message, after.message) ||
		!hasOnlyKnown(before.message.GetPods(), after.message.GetPods()) {
		return nil, errSendWhole
	}
	changed, gone, err := in.changedPods(before.pods, after.pods)
	if err != nil {
		return nil, err
	}
	delta := &pb.SnapshotDelta{DeletedPods: gone, Changed: &pb.ClusterSnapshot{Resources: after.message.Resources}}
	writer := newDeltaWriter(after, delta.Changed)
	if err := writer.addTables(before, delta); err != nil {
		return nil, err
	}
	if err := writer.addPods(changed); err != nil {
		return nil, err
	}
	return delta, writer.finish()
}

// changedPods returns the rows of pods that are new or changed, and the keys of
// those that are gone.
func (in *interner) changedPods(before, after *internedPods) (changed []int, gone []string, err error) {
	most := int(mostChanged*float64(len(before.interned.namespace))) + 16
	if !in.isSorted(before) || !in.isSorted(after) {
		return nil, nil, errSendWhole
	}
	i, j := 0, 0
	for i < len(before.interned.names) || j < len(after.interned.names) {
		order := in.compare(before, i, after, j)
		switch {
		case order < 0:
			gone = append(gone, in.texts[before.interned.namespace[i]]+"/"+before.interned.names[i])
			i++
		case order > 0:
			changed = append(changed, j)
			j++
		default:
			if !before.isSame(i, after, j) {
				changed = append(changed, j)
			}
			i, j = i+1, j+1
		}
		if len(changed) > most || len(gone) > most {
			return nil, nil, errSendWhole
		}
	}
	return changed, gone, nil
}

// compare compares the keys of two pods; one after the last row is the largest.
func (in *interner) compare(a *internedPods, i int, b *internedPods, j int) int {
	switch {
	case j >= len(b.interned.names):
		return -1
	case i >= len(a.interned.names):
		return 1
	}
	one, other := a.interned.namespace[i], b.interned.namespace[j]
	if one != other {
		return cmp.Compare(in.texts[one], in.texts[other])
	}
	return cmp.Compare(a.interned.names[i], b.interned.names[j])
}

func (in *interner) isSorted(pods *internedPods) bool {
	for i := 1; i < len(pods.interned.names); i++ {
		if in.compare(pods, i-1, pods, i) >= 0 {
			return false
		}
	}
	return true
}
