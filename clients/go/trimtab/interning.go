package trimtab

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "trimtab.dev/clients/go/trimtabv1"
)

// interner numbers strings, label sets, specs and volumes by content, so that
// rows of different snapshots can be compared. Numbers are never given back: a
// new interner takes over once one has grown.
type interner struct {
	strings   map[string]int32
	texts     []string
	labelSets map[string]int32
	specs     map[string]int32
	volumes   map[string]int32
}

func newInterner() *interner {
	return &interner{
		strings: map[string]int32{"": 0}, texts: []string{""}, labelSets: map[string]int32{"": 0},
		specs: map[string]int32{}, volumes: map[string]int32{},
	}
}

func (in *interner) size() int {
	return len(in.texts) + len(in.labelSets) + len(in.specs) + len(in.volumes)
}

// internedSnapshot is a snapshot to be compared with others of the same
// interner.
type internedSnapshot struct {
	message                            *pb.ClusterSnapshot
	strings, labelSets, specs, volumes []int32
	nodes, groups, owners              internedRows
	budgets, namespaces, podGroups     internedRows
	actuation                          string
	// Of messages that have dictionaries of their own, in the order of ownMessages.
	replaced [3]string
	pods     *internedPods
}

// internedRows are the rows of a table: keys in the table's order, and content
// by key.
type internedRows struct {
	keys    []string
	content map[string]string
}

// intern numbers a snapshot. The error is for one that breaks its contract.
func (in *interner) intern(message *pb.ClusterSnapshot) (*internedSnapshot, error) {
	out := &internedSnapshot{message: message, strings: []int32{0}, labelSets: []int32{0}}
	for i, text := range message.Strings {
		out.strings = append(out.strings[:i], in.string(text))
	}
	numbers := newIndices{
		str: lookup("strings", &out.strings), labelSet: lookup("label_sets", &out.labelSets),
		spec: lookup("pod_specs", &out.specs),
	}
	if err := in.internLabelSets(message.LabelSets, out); err != nil {
		return nil, err
	}
	var err error
	if out.specs, err = internEach(message.PodSpecs, in.specs, numbers); err != nil {
		return nil, err
	}
	if out.volumes, err = internEach(message.Volumes, in.volumes, numbers); err != nil {
		return nil, err
	}
	if err := internTables(message, out, numbers); err != nil {
		return nil, err
	}
	out.pods, err = in.internPods(message.Pods, out)
	return out, err
}

func internTables(message *pb.ClusterSnapshot, out *internedSnapshot, numbers newIndices) error {
	var errs [8]error
	out.nodes, errs[0] = internTable(message.Nodes, numbers, (*pb.Node).GetName)
	out.groups, errs[1] = internTable(message.NodeGroups, numbers, (*pb.NodeGroup).GetId)
	out.owners, errs[2] = internTable(message.Owners, numbers, (*pb.Owner).GetUid)
	out.budgets, errs[3] = internTable(message.PodDisruptionBudgets, numbers, budgetKey)
	out.namespaces, errs[4] = internTable(message.Namespaces, numbers, (*pb.Namespace).GetName)
	if message.ActuationStatus != nil {
		out.actuation, errs[5] = contentOf(message.ActuationStatus, numbers)
		out.actuation += " present"
	}
	out.podGroups, errs[6] = internTable(message.PodGroups, numbers, podGroupKey)
	for i, one := range ownMessages(message) {
		data, err := deterministic.Marshal(one)
		out.replaced[i], errs[7] = string(data), errors.Join(errs[7], err)
	}
	return errors.Join(errs[:]...)
}

// ownMessages returns the parts of a snapshot that have dictionaries of their
// own: a delta replaces them whole.
func ownMessages(message *pb.ClusterSnapshot) [3]proto.Message {
	return [3]proto.Message{message.GetSlackRequests(), message.GetDevices(), message.GetCapacityRequests()}
}

func podGroupKey(row *pb.PodGroup) string {
	return row.Namespace + "/" + row.Name
}

func budgetKey(row *pb.PodDisruptionBudget) string {
	return row.Namespace + "/" + row.Name
}

func (in *interner) string(text string) int32 {
	return entryOf(text, text, in.strings, &in.texts)
}

// internLabelSets numbers label sets; the order of a set's entries has no
// meaning.
func (in *interner) internLabelSets(sets *pb.LabelSets, out *internedSnapshot) error {
	offsets, keys, values := int32s(sets.GetOffsets()), int32s(sets.GetKeys()), int32s(sets.GetValues())
	if len(keys) != len(values) {
		return errors.New("label_sets: keys and values differ in length")
	}
	number := lookup("strings", &out.strings)
	for i := 0; i+1 < len(offsets); i++ {
		if offsets[i] < 0 || offsets[i] > offsets[i+1] || int(offsets[i+1]) > len(keys) {
			return errors.New("label_sets: offsets do not ascend")
		}
		var entries [][2]int32
		for at := offsets[i]; at < offsets[i+1]; at++ {
			key, err := number(keys[at])
			if err != nil {
				return err
			}
			value, err := number(values[at])
			if err != nil {
				return err
			}
			entries = append(entries, [2]int32{key, value})
		}
		slices.SortFunc(entries, func(a, b [2]int32) int { return cmp.Compare(a[0], b[0]) })
		var content []byte
		for _, one := range entries {
			content = binary.LittleEndian.AppendUint32(content, uint32(one[0]))
			content = binary.LittleEndian.AppendUint32(content, uint32(one[1]))
		}
		out.labelSets = append(out.labelSets[:i], numberOfContent(in.labelSets, string(content)))
	}
	return nil
}

// lookup returns a function that looks an index up in a list.
func lookup(table string, numbers *[]int32) func(int32) (int32, error) {
	return func(index int32) (int32, error) {
		if index < 0 || int(index) >= len(*numbers) {
			return 0, fmt.Errorf("%s: there is no entry %d", table, index)
		}
		return (*numbers)[index], nil
	}
}

func numberOfContent(known map[string]int32, content string) int32 {
	index, ok := known[content]
	if !ok {
		index = int32(len(known))
		known[content] = index
	}
	return index
}

func contentOf[M proto.Message](row M, numbers newIndices) (string, error) {
	own, err := renumbered(row, numbers)
	if err != nil {
		return "", err
	}
	data, err := deterministic.Marshal(own)
	return string(data), err
}

func internEach[M proto.Message](rows []M, known map[string]int32, numbers newIndices) ([]int32, error) {
	out := make([]int32, len(rows))
	for i, row := range rows {
		content, err := contentOf(row, numbers)
		if err != nil {
			return nil, err
		}
		out[i] = numberOfContent(known, content)
	}
	return out, nil
}

func internTable[M proto.Message](rows []M, numbers newIndices, key func(M) string) (internedRows, error) {
	out := internedRows{content: make(map[string]string, len(rows))}
	for _, row := range rows {
		content, err := contentOf(row, numbers)
		if err != nil {
			return out, err
		}
		out.keys = append(out.keys, key(row))
		out.content[key(row)] = content
	}
	if len(out.content) != len(rows) {
		return out, errors.New("a key is given twice")
	}
	return out, nil
}

// int32s returns the values of a column.
func int32s(column []byte) []int32 {
	out := make([]int32, len(column)/4)
	for i := range out {
		out[i] = int32(binary.LittleEndian.Uint32(column[4*i:]))
	}
	return out
}

// int64s returns the values of a column.
func int64s(column []byte) []int64 {
	out := make([]int64, len(column)/8)
	for i := range out {
		out[i] = int64(binary.LittleEndian.Uint64(column[8*i:]))
	}
	return out
}
