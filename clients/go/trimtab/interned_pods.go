package trimtab

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	pb "trimtab.dev/clients/go/trimtabv1"
)

// podColumns are the columns of a pod table with one value for each pod; one
// that is absent has zeros. References are indices.
type podColumns struct {
	namespace, spec, labelSet, node, owner, pinned []int32
	podGroup, nominated                            []int32
	deletionCost                                   []int32
	created, deletion                              []int64
	phase, flags                                   []byte
	names, uids                                    []string
}

// number is a number in an annotation: the key, and the bits of the number.
type number struct {
	key  int32
	bits int64
}

// internedPods is a pod table to be compared: as received, and with references
// as interned numbers.
type internedPods struct {
	received, interned podColumns
	// By pod, as received and as interned numbers, the latter ascending.
	mounts, volumes   [][]int32
	numbers, ownOrder [][]number
}

func (in *interner) internPods(table *pb.PodTable, of *internedSnapshot) (*internedPods, error) {
	received, err := readColumns(table)
	if err != nil {
		return nil, err
	}
	out := &internedPods{received: received, interned: received}
	for _, one := range []struct {
		column  *[]int32
		name    string
		numbers *[]int32
	}{
		{&out.interned.namespace, "strings", &of.strings}, {&out.interned.node, "strings", &of.strings},
		{&out.interned.owner, "strings", &of.strings}, {&out.interned.pinned, "strings", &of.strings},
		{&out.interned.podGroup, "strings", &of.strings}, {&out.interned.nominated, "strings", &of.strings},
		{&out.interned.spec, "pod_specs", &of.specs}, {&out.interned.labelSet, "label_sets", &of.labelSets},
	} {
		if *one.column, err = mapped(*one.column, lookup(one.name, one.numbers)); err != nil {
			return nil, err
		}
	}
	if err := out.addMounts(table, of); err != nil {
		return nil, err
	}
	return out, out.addNumbers(table, of)
}

func readColumns(table *pb.PodTable) (podColumns, error) {
	count := int(table.GetCount())
	out := podColumns{
		namespace: int32s(table.GetNamespace()), spec: int32s(table.GetSpec()), labelSet: int32s(table.GetLabelSet()),
		node: int32s(table.GetNode()), owner: int32s(table.GetOwner()), pinned: int32s(table.GetPinnedNode()),
		podGroup: int32s(table.GetPodGroup()), nominated: int32s(table.GetNominatedNode()),
		deletionCost: int32s(table.GetDeletionCost()), created: int64s(table.GetCreated()),
		deletion: int64s(table.GetDeletion()), phase: table.GetPhase(), flags: table.GetFlags(),
	}
	err := errors.Join(
		fill(&out.namespace, count), fill(&out.spec, count), fill(&out.labelSet, count), fill(&out.node, count),
		fill(&out.owner, count), fill(&out.pinned, count), fill(&out.deletionCost, count), fill(&out.created, count),
		fill(&out.deletion, count), fill(&out.phase, count), fill(&out.flags, count), fill(&out.podGroup, count),
		fill(&out.nominated, count),
	)
	if err != nil {
		return out, err
	}
	if out.names, err = cut(table.GetNames(), table.GetNameLengths(), count); err != nil {
		return out, err
	}
	out.uids, err = cut(table.GetUids(), table.GetUidLengths(), count)
	return out, err
}

func fill[T any](column *[]T, count int) error {
	if len(*column) == 0 {
		*column = make([]T, count)
	}
	if len(*column) != count {
		return fmt.Errorf("a column has %d values for %d pods", len(*column), count)
	}
	return nil
}

func cut(data, lengths []byte, count int) ([]string, error) {
	whole, at := string(data), 0
	sizes := int32s(lengths)
	if len(sizes) != count {
		return nil, fmt.Errorf("there are %d lengths for %d pods", len(sizes), count)
	}
	out := make([]string, count)
	for i, size := range sizes {
		if size < 0 || at+int(size) > len(whole) {
			return nil, errors.New("lengths do not add up")
		}
		out[i] = whole[at : at+int(size)]
		at += int(size)
	}
	return out, nil
}

func mapped(from []int32, number func(int32) (int32, error)) ([]int32, error) {
	out := make([]int32, len(from))
	for i, index := range from {
		own, err := number(index)
		if err != nil {
			return nil, err
		}
		out[i] = own
	}
	return out, nil
}

func (p *internedPods) addMounts(table *pb.PodTable, of *internedSnapshot) error {
	pods, volumes := int32s(table.GetVolumePod()), int32s(table.GetVolume())
	count := len(p.received.namespace)
	p.mounts, p.volumes = make([][]int32, count), make([][]int32, count)
	number := lookup("volumes", &of.volumes)
	for i, pod := range pods {
		if pod < 0 || int(pod) >= count || i >= len(volumes) {
			return errors.New("a mount names no pod or no volume")
		}
		own, err := number(volumes[i])
		if err != nil {
			return err
		}
		p.mounts[pod] = append(p.mounts[pod], volumes[i])
		p.volumes[pod] = append(p.volumes[pod], own)
	}
	for _, one := range p.volumes {
		slices.Sort(one)
	}
	return nil
}

func (p *internedPods) addNumbers(table *pb.PodTable, of *internedSnapshot) error {
	pods, keys, bits := int32s(table.GetNumberPod()), int32s(table.GetNumberKey()), int64s(table.GetNumber())
	count := len(p.received.namespace)
	if len(keys) != len(pods) || len(bits) != len(pods) {
		return errors.New("numbers in annotations differ in length")
	}
	p.numbers, p.ownOrder = make([][]number, count), make([][]number, count)
	interned := lookup("strings", &of.strings)
	for i, pod := range pods {
		if pod < 0 || int(pod) >= count {
			return errors.New("a number names no pod")
		}
		key, err := interned(keys[i])
		if err != nil {
			return err
		}
		p.numbers[pod] = append(p.numbers[pod], number{keys[i], bits[i]})
		p.ownOrder[pod] = append(p.ownOrder[pod], number{key, bits[i]})
	}
	for _, one := range p.ownOrder {
		slices.SortFunc(one, func(a, b number) int { return cmp.Compare(a.key, b.key) })
	}
	return nil
}

// isSame says whether a pod of one table is equal to a pod of another.
func (p *internedPods) isSame(i int, other *internedPods, j int) bool {
	a, b := &p.interned, &other.interned
	return a.uids[i] == b.uids[j] && a.spec[i] == b.spec[j] && a.labelSet[i] == b.labelSet[j] &&
		a.node[i] == b.node[j] && a.owner[i] == b.owner[j] && a.pinned[i] == b.pinned[j] &&
		a.podGroup[i] == b.podGroup[j] && a.nominated[i] == b.nominated[j] &&
		a.created[i] == b.created[j] && a.deletion[i] == b.deletion[j] && a.phase[i] == b.phase[j] &&
		a.flags[i] == b.flags[j] && a.deletionCost[i] == b.deletionCost[j] &&
		slices.Equal(p.volumes[i], other.volumes[j]) && slices.Equal(p.ownOrder[i], other.ownOrder[j])
}
