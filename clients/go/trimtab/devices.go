package trimtab

import (
	"encoding/binary"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"

	pb "trimtab.dev/clients/go/trimtabv1"
)

// mostNotes bounds the notes on objects of one kind.
const mostNotes = 5

// deviceNotes are notes on objects, by kind.
type deviceNotes struct {
	kinds []string
	texts map[string][]string
}

func (n *deviceNotes) add(kind, name, problem string) {
	if n.texts[kind] == nil {
		n.kinds = append(n.kinds, kind)
	}
	n.texts[kind] = append(n.texts[kind], kind+" "+name+": "+problem)
}

func (n *deviceNotes) all() []string {
	var out []string
	for _, kind := range n.kinds {
		texts := n.texts[kind]
		out = append(out, texts[:min(len(texts), mostNotes)]...)
		if len(texts) > mostNotes {
			out = append(out, fmt.Sprintf("and %d more notes on %s objects", len(texts)-mostNotes, kind))
		}
	}
	return out
}

// devicesOf returns the devices of a cluster and the claims of them, and notes;
// nil if there is nothing of devices. Objects that the API server would refuse
// are left out, with a note.
func devicesOf(objects *Objects) (*pb.Devices, []string, error) {
	isEmpty := len(objects.DeviceClasses)+len(objects.ResourceSlices)+len(objects.DeviceTaintRules)+
		len(objects.ResourceClaimTemplates)+len(objects.ResourceClaims) == 0
	for _, group := range objects.NodeGroups {
		isEmpty = isEmpty && group.Spec.ResourceSlices == nil
	}
	if isEmpty {
		return nil, nil, nil
	}
	w := &devicesWriter{
		message: &pb.Devices{}, dictionary: newDictionary(nil), notes: &deviceNotes{texts: map[string][]string{}},
		claims: &claimReader{specs: map[string]*resourcev1.ResourceClaimSpec{}, selectors: map[string]*corev1.NodeSelector{}},
		slices: &sliceReader{
			devices: map[string][]namedDevice{}, contents: map[string]*resourcev1.Device{},
			counters: map[string][]resourcev1.CounterSet{}, selectors: map[string]*corev1.NodeSelector{},
		},
	}
	claims := make([]claimRow, len(objects.ResourceClaims))
	for at, one := range objects.ResourceClaims {
		var err error
		if claims[at], err = w.claims.row(one); err != nil {
			return nil, nil, err
		}
		if problem := tooManyDevices(one); problem != "" {
			text := fmt.Sprintf("%s; pods with it wait, and only the first %d count as in use", problem, mostResults)
			w.notes.add("ResourceClaim", claims[at].namespace+"/"+claims[at].name, text)
		}
	}
	w.addSpecs(claims)
	w.addClasses(objects.DeviceClasses)
	w.slices.isRead = w.filter(objects.ResourceClaimTemplates)
	w.addSlices(objects.ResourceSlices)
	w.addTemplates(objects.NodeGroups)
	w.addClaims(claims)
	w.addRules(objects.DeviceTaintRules)
	return w.message, w.notes.all(), w.finish()
}

// devicesWriter writes the columns and the dictionaries of one message. The
// order in which strings and entries get their numbers is that of its methods.
type devicesWriter struct {
	message    *pb.Devices
	dictionary *dictionary
	notes      *deviceNotes
	claims     *claimReader
	slices     *sliceReader
	specs      numbered
	contents   numbered
	sets       numbered
	counters   numbered
	selectors  numbered
}

// numbered gives keys the next free number, by first use.
type numbered struct {
	known map[string]int32
	keys  []string
}

// index returns the number of a key, from 0.
func (n *numbered) index(key string) int32 {
	if n.known == nil {
		n.known = map[string]int32{}
	}
	return entryOf(key, key, n.known, &n.keys)
}

// plusOne returns the number of a key, from 1; 0 for none.
func (n *numbered) plusOne(key string) int32 {
	if key == "" {
		return 0
	}
	return n.index(key) + 1
}

// addSpecs adds the distinct specs of claims; one that the API server would
// refuse is empty.
func (w *devicesWriter) addSpecs(claims []claimRow) {
	problems := map[string]string{}
	for _, key := range w.claims.specKeys {
		w.specs.index(key)
		row, err := deviceClaimSpec(w.claims.specs[key])
		if err != nil {
			row, problems[key] = &pb.DeviceClaimSpec{}, "spec."+err.Error()
		}
		w.message.ClaimSpecs = append(w.message.ClaimSpecs, row)
	}
	for _, claim := range claims {
		if problem := problems[claim.spec]; problem != "" {
			w.notes.add("ResourceClaim", claim.namespace+"/"+claim.name, problem+"; pods with it wait")
		}
	}
}

func (w *devicesWriter) addClasses(classes []*resourcev1.DeviceClass) {
	for _, one := range classes {
		texts, isOther, err := expressionsOf(one.Spec.Selectors)
		if err != nil {
			w.notes.add("DeviceClass", one.Name, below("spec", err).Error()+"; nothing is allocated with it")
			texts, isOther = nil, true
		}
		row := &pb.DeviceClass{Name: one.Name, Selectors: texts, Created: unixS(&one.CreationTimestamp), UnknownSelector: isOther}
		if one.Spec.ExtendedResourceName != nil {
			row.ExtendedResourceName = *one.Spec.ExtendedResourceName
		}
		w.message.Classes = append(w.message.Classes, row)
	}
}

// filter returns which attributes claims and classes can read; nil = all.
func (w *devicesWriter) filter(templates []*resourcev1.ResourceClaimTemplate) func(string) bool {
	wanted := w.message.ClaimSpecs
	for _, one := range templates {
		// Pods that refer to a template say what is wrong with it.
		if spec, err := deviceClaimSpec(&one.Spec.Spec); err == nil {
			wanted = append(wanted[:len(wanted):len(wanted)], spec)
		}
	}
	texts, names := map[string]bool{}, map[string]bool{}
	for _, class := range w.message.Classes {
		addAll(texts, class.Selectors)
	}
	for _, spec := range wanted {
		for _, request := range spec.Requests {
			for _, one := range request.Alternatives {
				addAll(texts, one.Selectors)
			}
		}
		for _, limit := range spec.Constraints {
			names[limit.MatchAttribute+limit.DistinctAttribute] = true // one of them is ""
		}
	}
	return attributeFilter(texts, names)
}

func addAll(set map[string]bool, texts []string) {
	for _, text := range texts {
		set[text] = true
	}
}

func (w *devicesWriter) addSlices(from []*resourcev1.ResourceSlice) {
	var rows []sliceRow
	for _, one := range from {
		row, err := w.slices.row(&one.Spec, one.Name)
		if err != nil {
			problem := below("spec", err).Error() + "; it is left out, and nothing of its pool is allocated"
			w.notes.add("ResourceSlice", one.Name, problem)
			continue
		}
		if again := firstTwice(w.slices.devices[row.devices]); again != "" {
			w.notes.add("ResourceSlice", row.name, "spec.devices: "+again+" is given twice; nothing of its pool is allocated")
		}
		rows = append(rows, row)
	}
	table := &pb.ResourceSliceTable{Count: int32(len(rows))}
	w.message.Slices = table
	if len(rows) == 0 {
		return
	}
	table.Names, table.NameLengths = textsOf(rows, func(row sliceRow) string { return row.name })
	table.Driver = stringColumn(w.dictionary, rows, func(row sliceRow) string { return row.driver })
	table.Pool = stringColumn(w.dictionary, rows, func(row sliceRow) string { return row.pool })
	table.Node = stringColumn(w.dictionary, rows, func(row sliceRow) string { return row.node })
	table.NodeSelector = unlessZero(columnOf(rows, func(row sliceRow) int32 { return w.selectors.plusOne(row.selector) }))
	table.DeviceSet = unlessZero(columnOf(rows, func(row sliceRow) int32 { return w.sets.plusOne(row.devices) }))
	table.CounterSet = unlessZero(columnOf(rows, func(row sliceRow) int32 { return w.counters.plusOne(row.counters) }))
	for _, row := range rows {
		table.Generation = binary.LittleEndian.AppendUint64(table.Generation, uint64(row.generation))
		table.SliceCount = binary.LittleEndian.AppendUint64(table.SliceCount, uint64(row.count))
		table.Flags = append(table.Flags, row.flags)
	}
}

// firstTwice returns the first name that is given again; "" = all differ.
func firstTwice(devices []namedDevice) string {
	seen := map[string]bool{}
	for _, one := range devices {
		if seen[one.name] {
			return one.name
		}
		seen[one.name] = true
	}
	return ""
}

// addTemplates adds the slices that node groups declare for new nodes.
func (w *devicesWriter) addTemplates(groups []*NodeGroup) {
	for _, group := range groups {
		if group.Spec.ResourceSlices == nil {
			continue
		}
		template := &pb.TemplateSlices{NodeGroup: group.Name}
		w.message.Templates = append(w.message.Templates, template)
		for at, one := range group.Spec.ResourceSlices {
			row, err := w.slices.row(&one.Spec, one.Name)
			if err != nil {
				path := fmt.Sprintf("spec.template.resourceSlices[%d].spec", at)
				w.notes.add("NodeGroup", group.Name, below(path, err).Error()+"; the slice is left out")
				continue
			}
			template.Slices = append(template.Slices, &pb.TemplateSlice{
				Driver: row.driver, Pool: row.pool, DeviceSet: w.sets.plusOne(row.devices),
				CounterSet: w.counters.plusOne(row.counters), PerDeviceNodeSelection: row.flags&slicePerDevice != 0,
			})
		}
	}
}

func (w *devicesWriter) addClaims(rows []claimRow) {
	table := &pb.ResourceClaimTable{Count: int32(len(rows))}
	w.message.Claims = table
	if len(rows) == 0 {
		return
	}
	table.Namespace = stringColumn(w.dictionary, rows, func(row claimRow) string { return row.namespace })
	table.Names, table.NameLengths = textsOf(rows, func(row claimRow) string { return row.name })
	table.Spec = columnOf(rows, func(row claimRow) int32 { return w.specs.index(row.spec) })
	if pods, lengths := textsOf(rows, func(row claimRow) string { return row.pod }); len(pods) > 0 {
		table.Pods, table.PodLengths = pods, lengths
		table.PodClaim = stringColumn(w.dictionary, rows, func(row claimRow) string { return row.podClaim })
	}
	table.Node = unlessZero(stringColumn(w.dictionary, rows, func(row claimRow) string { return row.node }))
	table.NodeSelector = unlessZero(columnOf(rows, func(row claimRow) int32 { return w.selectors.plusOne(row.selector) }))
	var results []resultRow
	var users []string
	for at, row := range rows {
		table.Flags = append(table.Flags, row.flags)
		for range row.results {
			table.ResultClaim = binary.LittleEndian.AppendUint32(table.ResultClaim, uint32(at))
		}
		for range row.consumers {
			table.ConsumerClaim = binary.LittleEndian.AppendUint32(table.ConsumerClaim, uint32(at))
		}
		results, users = append(results, row.results...), append(users, row.consumers...)
	}
	w.addResults(table, results)
	table.Consumers, table.ConsumerLengths = textsOf(users, func(name string) string { return name })
}

func (w *devicesWriter) addResults(table *pb.ResourceClaimTable, rows []resultRow) {
	table.ResultDriver = stringColumn(w.dictionary, rows, func(row resultRow) string { return row.driver })
	table.ResultPool = stringColumn(w.dictionary, rows, func(row resultRow) string { return row.pool })
	table.ResultDevice = stringColumn(w.dictionary, rows, func(row resultRow) string { return row.device })
	table.ResultRequest = stringColumn(w.dictionary, rows, func(row resultRow) string { return row.request })
	var taken []pair
	for at, row := range rows {
		table.ResultFlags = append(table.ResultFlags, row.flags)
		for range row.capacities {
			table.CapacityResult = binary.LittleEndian.AppendUint32(table.CapacityResult, uint32(at))
		}
		taken = append(taken, row.capacities...)
	}
	table.CapacityName = stringColumn(w.dictionary, taken, func(one pair) string { return one.key })
	table.CapacityAmount = stringColumn(w.dictionary, taken, func(one pair) string { return one.value })
}

func (w *devicesWriter) addRules(rules []*resourcev1beta2.DeviceTaintRule) {
	for _, one := range rules {
		taint := one.Spec.Taint
		if taint.Key == "" {
			w.notes.add("DeviceTaintRule", one.Name, "spec.taint.key: it is missing; the rule is left out")
			continue
		}
		row := &pb.DeviceTaintRule{Taint: deviceTaint(taint.Key, taint.Value, string(taint.Effect))}
		if selector := one.Spec.DeviceSelector; selector != nil {
			row.Driver, row.Pool, row.Device = selector.Driver, selector.Pool, selector.Device
		}
		w.message.TaintRules = append(w.message.TaintRules, row)
	}
}

// finish writes the dictionaries.
func (w *devicesWriter) finish() error {
	for _, key := range w.sets.keys {
		set := &pb.DeviceSet{}
		for _, one := range w.slices.devices[key] {
			set.Names = append(set.Names, w.dictionary.string(one.name))
			set.Contents = append(set.Contents, w.contents.index(one.content))
		}
		w.message.DeviceSets = append(w.message.DeviceSets, set)
	}
	for _, key := range w.contents.keys {
		one := w.slices.contents[key]
		selector, err := w.slices.selector(one.NodeSelector)
		if err != nil {
			return err
		}
		w.message.Contents = append(w.message.Contents, deviceContent(one, w.selectors.plusOne(selector)))
	}
	for _, key := range w.counters.keys {
		sets := &pb.CounterSets{}
		for _, one := range w.slices.counters[key] {
			sets.Sets = append(sets.Sets, counterSet(one.Name, one.Counters))
		}
		w.message.CounterSets = append(w.message.CounterSets, sets)
	}
	for _, key := range w.selectors.keys {
		w.message.NodeSelectors = append(w.message.NodeSelectors, w.nodeSelector(key))
	}
	w.message.Strings = w.dictionary.stringList
	return nil
}

func (w *devicesWriter) nodeSelector(key string) *pb.NodeSelector {
	found := w.slices.selectors[key]
	if found == nil {
		found = w.claims.selectors[key]
	}
	terms, err := nodeSelectorTerms(found)
	if err != nil {
		problem := "status.allocation.nodeSelector: " + err.Error() + "; it selects no node"
		w.notes.add("ResourceClaim", "with a broken selector", problem)
		return &pb.NodeSelector{}
	}
	return w.dictionary.nodeSelector(terms)
}

// columnOf returns a column of the rows.
func columnOf[T any](rows []T, of func(T) int32) []byte {
	var out []byte
	for _, row := range rows {
		out = binary.LittleEndian.AppendUint32(out, uint32(of(row)))
	}
	return out
}

// stringColumn returns a column of string indices.
func stringColumn[T any](d *dictionary, rows []T, of func(T) string) []byte {
	return columnOf(rows, func(row T) int32 { return d.string(of(row)) })
}

// textsOf returns texts one after the other, and the column of their lengths.
func textsOf[T any](rows []T, of func(T) string) (data, lengths []byte) {
	for _, row := range rows {
		text := of(row)
		data = append(data, text...)
		lengths = binary.LittleEndian.AppendUint32(lengths, uint32(len(text)))
	}
	return data, lengths
}
