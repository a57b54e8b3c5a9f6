package trimtab

import (
	"encoding/binary"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pb "trimtab.dev/clients/go/trimtabv1"
)

// nanBits is the one NaN of snapshots.
const nanBits = 0x7ff8000000000000

// podTable collects the columns of the pod table.
type podTable struct {
	dictionary *dictionary
	specs      *specTable
	storage    *storage
	keys       []string

	pods          []*corev1.Pod
	owners        []string
	pinned        []string
	spec          []int32
	volumePod     []int32
	volume        []int32
	unknownClaims int
}

// add appends a pod; pods come sorted by namespace and name.
func (t *podTable) add(pod *corev1.Pod) error {
	if len(pod.UID) > longestUID {
		return badField("metadata.uid", "give the pod a proper one", "it is longer than %d bytes", longestUID)
	}
	pin, affinity := splitPin(pod.Spec.Affinity)
	own := mountsOf(pod)
	index, err := t.specs.index(pod, affinity, own, false)
	if err != nil {
		return err
	}
	if err := t.addMounts(pod, own); err != nil {
		return err
	}
	t.spec = append(t.spec, index)
	t.pinned = append(t.pinned, pin)
	t.owners = append(t.owners, ownerUID(metav1.GetControllerOfNoCopy(pod), namespaceOf(pod)))
	t.pods = append(t.pods, pod)
	return nil
}

func (t *podTable) addMounts(pod *corev1.Pod, own mounts) error {
	var indices []int32
	for _, one := range own.disks {
		index, err := t.dictionary.volume(t.storage.diskRow(one, t.dictionary))
		if err != nil {
			return err
		}
		indices = append(indices, index)
	}
	if t.storage == nil {
		t.unknownClaims += len(own.claims)
	} else {
		rows := make([]*pb.Volume, len(own.claims))
		for i, one := range own.claims {
			row, err := t.storage.claimRow(one, pod, t.dictionary)
			if err != nil {
				return err
			}
			rows[i] = row
		}
		for _, row := range rows {
			index, err := t.dictionary.volume(row)
			if err != nil {
				return err
			}
			indices = append(indices, index)
		}
	}
	slices.Sort(indices)
	for _, index := range slices.Compact(indices) {
		t.volumePod = append(t.volumePod, int32(len(t.pods)))
		t.volume = append(t.volume, index)
	}
	return nil
}

// write writes all columns. The order in which strings get their numbers is that
// of this function: column by column.
func (t *podTable) write(table *pb.PodTable) {
	d := t.dictionary
	table.Count = int32(len(t.pods))
	table.Names, table.NameLengths = t.texts(func(pod *corev1.Pod) string { return pod.Name })
	table.Uids, table.UidLengths = t.texts(func(pod *corev1.Pod) string { return uidOf("Pod", pod) })
	table.Namespace = t.column(func(i int) int32 { return d.string(namespaceOf(t.pods[i])) })
	table.Spec = int32Column(t.spec)
	table.Node = t.column(func(i int) int32 { return d.string(t.pods[i].Spec.NodeName) })
	table.LabelSet = unlessZero(t.column(func(i int) int32 { return d.labelSet(t.pods[i].Labels) }))
	table.Owner = unlessZero(t.column(func(i int) int32 { return d.string(t.owners[i]) }))
	table.DeletionCost = unlessZero(t.column(func(i int) int32 {
		return deletionCost(t.pods[i].Annotations[corev1.PodDeletionCost])
	}))
	table.PodGroup = unlessZero(t.column(func(i int) int32 { return d.string(groupName(t.pods[i])) }))
	table.PinnedNode = unlessZero(t.column(func(i int) int32 { return d.string(t.pinned[i]) }))
	table.NominatedNode = unlessZero(t.column(func(i int) int32 { return d.string(nominatedNode(t.pods[i])) }))
	table.VolumePod, table.Volume = int32Column(t.volumePod), int32Column(t.volume)
	table.Created = t.times(func(pod *corev1.Pod) int64 { return unixS(&pod.CreationTimestamp) })
	table.Deletion = unlessZero(t.times(deletionS))
	t.writeNumbers(table)
	table.Phase, table.Flags = make([]byte, len(t.pods)), make([]byte, len(t.pods))
	for i, pod := range t.pods {
		table.Phase[i] = byte(phases[pod.Status.Phase])
		table.Flags[i] = podFlags(pod, metav1.GetControllerOfNoCopy(pod))
	}
}

// nominatedNode returns the node that the scheduler keeps for a pod without one.
func nominatedNode(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return ""
	}
	return pod.Status.NominatedNodeName
}

func deletionS(pod *corev1.Pod) int64 {
	if pod.DeletionTimestamp == nil {
		return 0
	}
	return usableS(pod.DeletionTimestamp.Unix())
}

func (t *podTable) texts(of func(*corev1.Pod) string) (data, lengths []byte) {
	for _, pod := range t.pods {
		text := of(pod)
		data = append(data, text...)
		lengths = binary.LittleEndian.AppendUint32(lengths, uint32(len(text)))
	}
	return data, lengths
}

func (t *podTable) column(of func(int) int32) []byte {
	out := make([]int32, len(t.pods))
	for i := range t.pods {
		out[i] = of(i)
	}
	return int32Column(out)
}

func (t *podTable) times(of func(*corev1.Pod) int64) []byte {
	out := make([]int64, len(t.pods))
	for i, pod := range t.pods {
		out[i] = of(pod)
	}
	return int64Column(out)
}

func (t *podTable) writeNumbers(table *pb.PodTable) {
	for i, pod := range t.pods {
		for _, one := range numbersOf(pod, t.keys) {
			bits := math.Float64bits(one.value)
			if math.IsNaN(one.value) {
				bits = nanBits
			}
			table.NumberPod = binary.LittleEndian.AppendUint32(table.NumberPod, uint32(i))
			table.NumberKey = binary.LittleEndian.AppendUint32(table.NumberKey, uint32(t.dictionary.string(one.key)))
			table.Number = binary.LittleEndian.AppendUint64(table.Number, bits)
		}
	}
}
