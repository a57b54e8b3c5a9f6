package trimtab

import (
	"encoding/binary"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "trimtab.dev/clients/go/trimtabv1"
)

// firstResources are those that every snapshot has, in this order.
var firstResources = []string{"cpu", "memory", "ephemeral-storage", "pods"}

var deterministic = proto.MarshalOptions{Deterministic: true}

// pair is one label.
type pair struct {
	key, value string
}

// dictionary numbers the strings, label sets, resources, pod specs and volumes
// of one snapshot. An entry gets the next free index on its first use, so the
// bytes of a snapshot depend only on the order in which its rows are written.
type dictionary struct {
	strings      map[string]int32
	stringList   []string
	resources    map[string]int32
	resourceList []string
	labelSets    map[string]int32
	labelList    [][]pair
	specs        map[string]int32
	specRows     []*pb.PodSpec
	volumes      map[string]int32
	volumeRows   []*pb.Volume
}

func newDictionary(resources []string) *dictionary {
	d := &dictionary{
		strings:    map[string]int32{"": 0},
		stringList: []string{""},
		resources:  map[string]int32{},
		labelSets:  map[string]int32{"": 0},
		labelList:  [][]pair{nil},
		specs:      map[string]int32{},
		volumes:    map[string]int32{},
	}
	for _, name := range firstResources {
		d.resource(name)
	}
	for _, name := range resources {
		d.resource(name)
	}
	return d
}

// string returns the index of a string.
func (d *dictionary) string(text string) int32 {
	return entryOf(text, text, d.strings, &d.stringList)
}

func (d *dictionary) strs(texts []string) []int32 {
	if len(texts) == 0 {
		return nil
	}
	out := make([]int32, len(texts))
	for i, text := range texts {
		out[i] = d.string(text)
	}
	return out
}

// resource returns the index of a resource.
func (d *dictionary) resource(name string) int32 {
	return entryOf(name, name, d.resources, &d.resourceList)
}

// labelSet returns the index of a label set; 0 for none.
func (d *dictionary) labelSet(labels map[string]string) int32 {
	if len(labels) == 0 {
		return 0
	}
	pairs := make([]pair, 0, len(labels))
	var text strings.Builder
	var size [8]byte
	for _, key := range sortedKeys(labels) {
		value := labels[key]
		pairs = append(pairs, pair{key, value})
		binary.LittleEndian.PutUint32(size[:4], uint32(len(key)))
		binary.LittleEndian.PutUint32(size[4:], uint32(len(value)))
		text.Write(size[:])
		text.WriteString(key)
		text.WriteString(value)
	}
	return entryOf(text.String(), pairs, d.labelSets, &d.labelList)
}

// podSpec returns the index of a pod spec.
func (d *dictionary) podSpec(row *pb.PodSpec) (int32, error) {
	return rowOf(row, d.specs, &d.specRows)
}

// volume returns the index of a volume.
func (d *dictionary) volume(row *pb.Volume) (int32, error) {
	return rowOf(row, d.volumes, &d.volumeRows)
}

func rowOf[M proto.Message](row M, known map[string]int32, rows *[]M) (int32, error) {
	data, err := deterministic.Marshal(row)
	if err != nil {
		return 0, err
	}
	return entryOf(string(data), row, known, rows), nil
}

// entryOf returns the index of an entry by its content, and adds a new one.
func entryOf[T any](content string, entry T, known map[string]int32, entries *[]T) int32 {
	index := numberOfContent(known, content)
	if int(index) == len(*entries) {
		*entries = append(*entries, entry)
	}
	return index
}

// selector returns a label selector as a message; nil matches nothing.
func (d *dictionary) selector(from *selector) *pb.LabelSelector {
	if from == nil {
		return nil
	}
	return &pb.LabelSelector{Requirements: d.requirements(from.requirements)}
}

// nodeSelector returns a node selector as a message; nil means no requirement.
func (d *dictionary) nodeSelector(from *terms) *pb.NodeSelector {
	if from == nil {
		return nil
	}
	out := &pb.NodeSelector{}
	for _, one := range from.alternatives {
		out.Terms = append(out.Terms, &pb.NodeSelectorTerm{
			MatchExpressions: d.requirements(one.labels),
			MatchFields:      d.requirements(one.fields),
		})
	}
	return out
}

func (d *dictionary) requirements(from []requirement) []*pb.LabelRequirement {
	var out []*pb.LabelRequirement
	for _, one := range from {
		key := d.string(one.key)
		out = append(out, &pb.LabelRequirement{Key: key, Operator: one.operator, Values: d.strs(one.values)})
	}
	return out
}

// write writes all dictionaries into a snapshot; it comes last.
func (d *dictionary) write(snapshot *pb.ClusterSnapshot) {
	snapshot.LabelSets = d.labelMessage()
	snapshot.Resources = d.resourceList
	snapshot.PodSpecs = d.specRows
	snapshot.Volumes = d.volumeRows
	snapshot.Strings = d.stringList
}

// ofPods returns the dictionaries of messages that have their own, beside a
// snapshot's; it comes last.
func (d *dictionary) ofPods() *pb.PodDictionary {
	var whole pb.ClusterSnapshot
	d.write(&whole)
	return &pb.PodDictionary{
		Strings: whole.Strings, Resources: whole.Resources, LabelSets: whole.LabelSets, PodSpecs: whole.PodSpecs,
	}
}

func (d *dictionary) labelMessage() *pb.LabelSets {
	offsets, keys, values := []int32{0}, []int32{}, []int32{}
	for _, set := range d.labelList {
		for _, one := range set {
			keys = append(keys, d.string(one.key))
		}
		for _, one := range set {
			values = append(values, d.string(one.value))
		}
		offsets = append(offsets, int32(len(keys)))
	}
	return &pb.LabelSets{Offsets: int32Column(offsets), Keys: int32Column(keys), Values: int32Column(values)}
}

// int32Column returns a little-endian column.
func int32Column(values []int32) []byte {
	out := make([]byte, 0, 4*len(values))
	for _, value := range values {
		out = binary.LittleEndian.AppendUint32(out, uint32(value))
	}
	return out
}

// int64Column returns a little-endian column.
func int64Column(values []int64) []byte {
	out := make([]byte, 0, 8*len(values))
	for _, value := range values {
		out = binary.LittleEndian.AppendUint64(out, uint64(value))
	}
	return out
}

// unlessZero returns a column; none if every element is 0.
func unlessZero(column []byte) []byte {
	for _, one := range column {
		if one != 0 {
			return column
		}
	}
	return nil
}
