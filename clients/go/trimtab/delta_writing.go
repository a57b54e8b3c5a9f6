package trimtab

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"sort"

	"google.golang.org/protobuf/proto"

	pb "trimtab.dev/clients/go/trimtabv1"
)

// deltaWriter copies rows of a snapshot into the changed half of a delta, with
// dictionaries of the entries that the rows use.
type deltaWriter struct {
	source     *internedSnapshot
	target     *pb.ClusterSnapshot
	strings    *renumberedEntries
	labelSets  *renumberedEntries
	specs      *renumberedEntries
	volumes    *renumberedEntries
	numbers    newIndices
	labelTable [3][]int32
}

// renumberedEntries gives entries of a dictionary new numbers, by first use.
type renumberedEntries struct {
	name  string
	size  int
	index map[int32]int32
	order []int32
}

func newEntries(name string, size int, first ...int32) *renumberedEntries {
	out := &renumberedEntries{name: name, size: size, index: map[int32]int32{}}
	for _, one := range first {
		out.index[one] = int32(len(out.order))
		out.order = append(out.order, one)
	}
	return out
}

func (e *renumberedEntries) number(old int32) (int32, error) {
	if index, ok := e.index[old]; ok {
		return index, nil
	}
	if old < 0 || int(old) >= e.size {
		return 0, fmt.Errorf("%s: there is no entry %d", e.name, old)
	}
	index := int32(len(e.order))
	e.index[old] = index
	e.order = append(e.order, old)
	return index, nil
}

func newDeltaWriter(source *internedSnapshot, target *pb.ClusterSnapshot) *deltaWriter {
	message := source.message
	w := &deltaWriter{
		source: source, target: target,
		strings:   newEntries("strings", len(message.Strings), 0),
		labelSets: newEntries("label_sets", len(source.labelSets), 0),
		specs:     newEntries("pod_specs", len(message.PodSpecs)),
		volumes:   newEntries("volumes", len(message.Volumes)),
	}
	w.labelTable = [3][]int32{
		int32s(message.LabelSets.GetOffsets()), int32s(message.LabelSets.GetKeys()), int32s(message.LabelSets.GetValues()),
	}
	w.numbers = newIndices{str: w.strings.number, labelSet: w.labelSets.number, spec: w.specs.number}
	return w
}

// addTables adds the changed rows of all tables but pods, and the keys of rows
// that are gone.
func (w *deltaWriter) addTables(before *internedSnapshot, delta *pb.SnapshotDelta) error {
	after, message := w.source, w.source.message
	delta.DeletedNodes = goneKeys(before.nodes, after.nodes)
	delta.DeletedNodeGroups = goneKeys(before.groups, after.groups)
	delta.DeletedOwners = goneKeys(before.owners, after.owners)
	delta.DeletedPodDisruptionBudgets = goneKeys(before.budgets, after.budgets)
	delta.DeletedNamespaces = goneKeys(before.namespaces, after.namespaces)
	delta.DeletedPodGroups = goneKeys(before.podGroups, after.podGroups)
	var err error
	if w.target.Nodes, err = changedRows(w, message.Nodes, before.nodes, after.nodes); err != nil {
		return err
	}
	if w.target.NodeGroups, err = changedRows(w, message.NodeGroups, before.groups, after.groups); err != nil {
		return err
	}
	if w.target.Owners, err = changedRows(w, message.Owners, before.owners, after.owners); err != nil {
		return err
	}
	w.target.PodDisruptionBudgets, err = changedRows(w, message.PodDisruptionBudgets, before.budgets, after.budgets)
	if err != nil {
		return err
	}
	if w.target.Namespaces, err = changedRows(w, message.Namespaces, before.namespaces, after.namespaces); err != nil {
		return err
	}
	if w.target.PodGroups, err = changedRows(w, message.PodGroups, before.podGroups, after.podGroups); err != nil {
		return err
	}
	w.addOwnMessages(before)
	if before.actuation != after.actuation {
		w.target.ActuationStatus, err = renumbered(message.ActuationStatus, w.numbers)
	}
	return err
}

// addOwnMessages adds the changed parts that have dictionaries of their own.
func (w *deltaWriter) addOwnMessages(before *internedSnapshot) {
	message, after := w.source.message, w.source
	if before.replaced[0] != after.replaced[0] {
		w.target.SlackRequests = cmp.Or(message.SlackRequests, &pb.SlackRequests{})
	}
	if before.replaced[1] != after.replaced[1] {
		w.target.Devices = cmp.Or(message.Devices, &pb.Devices{})
	}
	if before.replaced[2] != after.replaced[2] {
		w.target.CapacityRequests = cmp.Or(message.CapacityRequests, &pb.CapacityRequests{})
	}
}

func goneKeys(before, after internedRows) []string {
	var out []string
	for _, key := range before.keys {
		if _, ok := after.content[key]; !ok {
			out = append(out, key)
		}
	}
	sort.Strings(out)
	return out
}

func changedRows[M proto.Message](w *deltaWriter, rows []M, before, after internedRows) ([]M, error) {
	var out []M
	for i, key := range after.keys {
		if content, ok := before.content[key]; ok && content == after.content[key] {
			continue
		}
		row, err := renumbered(rows[i], w.numbers)
		if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, nil
}

// addPods copies rows of the pod table, ascending.
func (w *deltaWriter) addPods(rows []int) error {
	pods, out := w.source.pods, &pb.PodTable{Count: int32(len(rows))}
	w.target.Pods = out
	from := &pods.received
	for _, one := range []struct {
		target  *[]byte
		column  []int32
		entries *renumberedEntries
	}{
		{&out.Namespace, from.namespace, w.strings}, {&out.Spec, from.spec, w.specs},
		{&out.LabelSet, from.labelSet, w.labelSets}, {&out.Node, from.node, w.strings},
		{&out.Owner, from.owner, w.strings}, {&out.PinnedNode, from.pinned, w.strings},
		{&out.PodGroup, from.podGroup, w.strings}, {&out.NominatedNode, from.nominated, w.strings},
	} {
		column, err := mapped(chosen(one.column, rows), one.entries.number)
		if err != nil {
			return err
		}
		*one.target = int32Column(column)
	}
	out.DeletionCost = int32Column(chosen(from.deletionCost, rows))
	out.Created, out.Deletion = int64Column(chosen(from.created, rows)), int64Column(chosen(from.deletion, rows))
	out.Phase, out.Flags = chosen(from.phase, rows), chosen(from.flags, rows)
	out.Names, out.NameLengths = joined(chosen(from.names, rows))
	out.Uids, out.UidLengths = joined(chosen(from.uids, rows))
	return w.addMountsAndNumbers(rows, out)
}

func (w *deltaWriter) addMountsAndNumbers(rows []int, out *pb.PodTable) error {
	var pods, volumes, numberPods, keys []int32
	var bits []int64
	for place, row := range rows {
		for _, volume := range w.source.pods.mounts[row] {
			own, err := w.volumes.number(volume)
			if err != nil {
				return err
			}
			pods, volumes = append(pods, int32(place)), append(volumes, own)
		}
		for _, one := range w.source.pods.numbers[row] {
			key, err := w.strings.number(one.key)
			if err != nil {
				return err
			}
			numberPods, keys, bits = append(numberPods, int32(place)), append(keys, key), append(bits, one.bits)
		}
	}
	out.VolumePod, out.Volume = int32Column(pods), int32Column(volumes)
	out.NumberPod, out.NumberKey, out.Number = int32Column(numberPods), int32Column(keys), int64Column(bits)
	return nil
}

func chosen[T any](column []T, rows []int) []T {
	out := make([]T, len(rows))
	for i, row := range rows {
		out[i] = column[row]
	}
	return out
}

func joined(texts []string) (data, lengths []byte) {
	for _, text := range texts {
		data = append(data, text...)
		lengths = binary.LittleEndian.AppendUint32(lengths, uint32(len(text)))
	}
	return data, lengths
}

// finish writes the dictionaries; it comes last.
func (w *deltaWriter) finish() error {
	message := w.source.message
	for _, index := range w.specs.order {
		row, err := renumbered(message.PodSpecs[index], w.numbers)
		if err != nil {
			return err
		}
		w.target.PodSpecs = append(w.target.PodSpecs, row)
	}
	for _, index := range w.volumes.order {
		row, err := renumbered(message.Volumes[index], w.numbers)
		if err != nil {
			return err
		}
		w.target.Volumes = append(w.target.Volumes, row)
	}
	if err := w.writeLabelSets(); err != nil {
		return err
	}
	for _, index := range w.strings.order {
		text := ""
		if int(index) < len(message.Strings) {
			text = message.Strings[index]
		}
		w.target.Strings = append(w.target.Strings, text)
	}
	return nil
}

func (w *deltaWriter) writeLabelSets() error {
	offsets, keys, values := []int32{0}, []int32{}, []int32{}
	for _, set := range w.labelSets.order {
		if int(set)+1 < len(w.labelTable[0]) {
			for at := w.labelTable[0][set]; at < w.labelTable[0][set+1]; at++ {
				key, err := w.strings.number(w.labelTable[1][at])
				if err != nil {
					return err
				}
				value, err := w.strings.number(w.labelTable[2][at])
				if err != nil {
					return err
				}
				keys, values = append(keys, key), append(values, value)
			}
		}
		offsets = append(offsets, int32(len(keys)))
	}
	w.target.LabelSets = &pb.LabelSets{Offsets: int32Column(offsets), Keys: int32Column(keys), Values: int32Column(values)}
	return nil
}
