package trimtab

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	pb "trimtab.dev/clients/go/trimtabv1"
)

// Flags of slices.
const (
	sliceOfAllNodes = 1
	slicePerDevice  = 2
)

// Limits of the API of slices.
const (
	mostDevices = 128
	// mostDevicesWithExtras is for slices in which a device has taints, uses
	// counters or has lists as attributes.
	mostDevicesWithExtras = 64
	// mostDeviceParts bounds a device's attributes and capacities, and the counters of a set.
	mostDeviceParts     = 32
	mostCounterSets     = 8
	mostConsumedSets    = 2
	mostTaintsOfADevice = 16
)

// sliceRow is a slice before strings become indices. devices, counters,
// selector : keys of lists and of a selector, "" = none.
type sliceRow struct {
	name, driver, pool          string
	generation, count           int64
	node                        string
	selector, devices, counters string
	flags                       byte
}

// namedDevice is a device of a list : its name, and the key of its content.
type namedDevice struct{ name, content string }

// sliceReader reads slices, and keeps distinct lists, contents and selectors by
// key. isRead : whether claims can read an attribute; nil = they can read all.
type sliceReader struct {
	isRead    func(string) bool
	devices   map[string][]namedDevice
	contents  map[string]*resourcev1.Device
	counters  map[string][]resourcev1.CounterSet
	selectors map[string]*corev1.NodeSelector
}

// row returns the row of a slice; an error says why the API server refuses it.
func (r *sliceReader) row(spec *resourcev1.ResourceSliceSpec, name string) (sliceRow, error) {
	row := sliceRow{
		name: name, driver: spec.Driver, pool: spec.Pool.Name, generation: spec.Pool.Generation,
		count: spec.Pool.ResourceSliceCount, node: ptr.Deref(spec.NodeName, ""),
	}
	const remedy = "give what the driver publishes"
	switch {
	case row.driver == "":
		return row, badField("driver", remedy, "it is missing")
	case row.pool == "":
		return row, badField("pool.name", remedy, "it is missing")
	case len(spec.Devices) > 0 && len(spec.SharedCounters) > 0:
		return row, badField("sharedCounters", "put the counters into a slice of their own", "the slice has devices too")
	}
	ways := 0
	for _, isGiven := range []bool{row.node != "", spec.NodeSelector != nil, ptr.Deref(spec.AllNodes, false), ptr.Deref(spec.PerDeviceNodeSelection, false)} {
		if isGiven {
			ways++
		}
	}
	if ways > 1 {
		return row, badField("", "give exactly one",
			"more than one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection is given")
	}
	if ptr.Deref(spec.AllNodes, false) {
		row.flags |= sliceOfAllNodes
	}
	if ptr.Deref(spec.PerDeviceNodeSelection, false) {
		row.flags |= slicePerDevice
	}
	var err error
	if row.selector, err = r.selector(spec.NodeSelector); err != nil {
		return row, err
	}
	if row.devices, err = r.deviceList(spec.Devices); err != nil {
		return row, err
	}
	row.counters, err = r.counterList(spec.SharedCounters)
	return row, err
}

func (r *sliceReader) selector(from *corev1.NodeSelector) (string, error) {
	if from == nil {
		return "", nil
	}
	if _, err := nodeSelectorTerms(from); err != nil {
		return "", below("nodeSelector", err)
	}
	return selectorKey(from, r.selectors)
}

// deviceList returns the key of a list of devices without the attributes that
// are not read.
func (r *sliceReader) deviceList(from []resourcev1.Device) (string, error) {
	if len(from) == 0 {
		return "", nil
	}
	named, key := make([]namedDevice, len(from)), []byte{'d'}
	kept := make([]resourcev1.Device, len(from))
	for at := range from {
		kept[at] = r.readable(&from[at])
		data, err := kept[at].Marshal()
		if err != nil {
			return "", err
		}
		named[at] = namedDevice{from[at].Name, string(data)}
		key = fmt.Appendf(key, "%d,%d:", len(from[at].Name), len(data))
		key = append(append(key, from[at].Name...), data...)
	}
	if _, isKnown := r.devices[string(key)]; isKnown {
		return string(key), nil
	}
	if err := checkDevices(from); err != nil {
		return "", err
	}
	for at := range kept {
		if named[at].name == "" {
			return "", badField(fmt.Sprintf("devices[%d].name", at), "give each device a name", "it is missing")
		}
		if _, err := r.selector(kept[at].NodeSelector); err != nil {
			return "", below(fmt.Sprintf("devices[%d]", at), err)
		}
		if _, isKnown := r.contents[named[at].content]; !isKnown {
			r.contents[named[at].content] = &kept[at]
		}
	}
	r.devices[string(key)] = named
	return string(key), nil
}

// readable returns a device without its name, without the attributes that are
// not read, and without what no snapshot has.
func (r *sliceReader) readable(from *resourcev1.Device) resourcev1.Device {
	out := *from
	out.Name, out.NodeAllocatableResourceMappings = "", nil
	if r.isRead != nil && len(from.Attributes) > 0 {
		out.Attributes = maps.Clone(from.Attributes)
		maps.DeleteFunc(out.Attributes, func(name resourcev1.QualifiedName, _ resourcev1.DeviceAttribute) bool {
			return !r.isRead(string(name))
		})
	}
	if len(from.Taints) > 0 {
		out.Taints = slices.Clone(from.Taints)
		for at := range out.Taints {
			out.Taints[at].TimeAdded = nil
		}
	}
	return out
}

func (r *sliceReader) counterList(from []resourcev1.CounterSet) (string, error) {
	if len(from) == 0 {
		return "", nil
	}
	if err := limited("sharedCounters", len(from), mostCounterSets); err != nil {
		return "", err
	}
	key := []byte{'c'}
	for at := range from {
		if err := limited(fmt.Sprintf("sharedCounters[%d].counters", at), len(from[at].Counters), mostDeviceParts); err != nil {
			return "", err
		}
		data, err := from[at].Marshal()
		if err != nil {
			return "", err
		}
		key = append(fmt.Appendf(key, "%d:", len(data)), data...)
	}
	r.counters[string(key)] = from
	return string(key), nil
}

// checkDevices checks the limits of the API.
func checkDevices(devices []resourcev1.Device) error {
	most := mostDevices
	if slices.ContainsFunc(devices, hasExtras) {
		most = mostDevicesWithExtras
	}
	if err := limited("devices", len(devices), most); err != nil {
		return err
	}
	for at := range devices {
		one := &devices[at]
		var err error
		if parts := len(one.Attributes) + len(one.Capacity); parts > mostDeviceParts {
			err = badField("attributes", fmt.Sprintf("give at most %d", mostDeviceParts), "with capacity there are %d", parts)
		}
		if err = cmp.Or(
			err, limited("consumesCounters", len(one.ConsumesCounters), mostConsumedSets),
			limited("taints", len(one.Taints), mostTaintsOfADevice),
		); err != nil {
			return below(fmt.Sprintf("devices[%d]", at), err)
		}
	}
	return nil
}

func hasExtras(one resourcev1.Device) bool {
	if len(one.Taints) > 0 || len(one.ConsumesCounters) > 0 {
		return true
	}
	for _, a := range one.Attributes {
		if len(a.IntValues)+len(a.BoolValues)+len(a.StringValues)+len(a.VersionValues) > 0 {
			return true
		}
	}
	return false
}

// deviceContent returns a device. selector : index of its node selector, plus 1;
// 0 = none.
func deviceContent(one *resourcev1.Device, selector int32) *pb.DeviceContent {
	row := &pb.DeviceContent{
		AllowMultipleAllocations: ptr.Deref(one.AllowMultipleAllocations, false),
		Node:                     ptr.Deref(one.NodeName, ""), NodeSelector: selector,
		AllNodes: ptr.Deref(one.AllNodes, false), BindsToNode: ptr.Deref(one.BindsToNode, false),
		BindingConditions: one.BindingConditions, BindingFailureConditions: one.BindingFailureConditions,
	}
	for _, name := range sortedKeys(one.Attributes) {
		row.Attributes = append(row.Attributes, deviceAttribute(string(name), one.Attributes[name]))
	}
	for _, name := range sortedKeys(one.Capacity) {
		row.Capacities = append(row.Capacities, deviceCapacity(string(name), one.Capacity[name]))
	}
	for _, used := range one.ConsumesCounters {
		row.ConsumedCounters = append(row.ConsumedCounters, counterSet(used.CounterSet, used.Counters))
	}
	for _, taint := range one.Taints {
		row.Taints = append(row.Taints, deviceTaint(taint.Key, taint.Value, string(taint.Effect)))
	}
	return row
}

func deviceAttribute(name string, one resourcev1.DeviceAttribute) *pb.DeviceAttribute {
	row := &pb.DeviceAttribute{Name: name}
	switch {
	case one.IntValue != nil:
		row.Value = &pb.DeviceAttribute_IntValue{IntValue: *one.IntValue}
	case one.BoolValue != nil:
		row.Value = &pb.DeviceAttribute_BoolValue{BoolValue: *one.BoolValue}
	case one.VersionValue != nil:
		row.Value = &pb.DeviceAttribute_VersionValue{VersionValue: *one.VersionValue}
	case len(one.IntValues)+len(one.BoolValues)+len(one.StringValues)+len(one.VersionValues) > 0:
		row.Value = &pb.DeviceAttribute_ListValue{ListValue: &pb.DeviceAttributeList{
			Ints: one.IntValues, Bools: one.BoolValues, Strings: one.StringValues, Versions: one.VersionValues,
		}}
	default:
		row.Value = &pb.DeviceAttribute_StringValue{StringValue: ptr.Deref(one.StringValue, "")}
	}
	return row
}

func deviceCapacity(name string, one resourcev1.DeviceCapacity) *pb.DeviceCapacity {
	row := &pb.DeviceCapacity{Name: name, Value: one.Value.String()}
	policy := one.RequestPolicy
	if policy == nil {
		return row
	}
	row.HasPolicy, row.DefaultRequest = true, quantityText(policy.Default)
	for at := range policy.ValidValues {
		row.ValidValues = append(row.ValidValues, policy.ValidValues[at].String())
	}
	if limits := policy.ValidRange; limits != nil {
		row.ValidRange = &pb.CapacityRange{Min: quantityText(limits.Min), Max: quantityText(limits.Max), Step: quantityText(limits.Step)}
	}
	return row
}

func quantityText(quantity *resource.Quantity) string {
	if quantity == nil {
		return ""
	}
	return quantity.String()
}

func counterSet(name string, counters map[string]resourcev1.Counter) *pb.CounterSet {
	amounts := make(map[string]resource.Quantity, len(counters))
	for key, one := range counters {
		amounts[key] = one.Value
	}
	return &pb.CounterSet{Name: name, Counters: namedQuantities(amounts)}
}

func deviceTaint(key, value, effect string) *pb.DeviceTaint {
	return &pb.DeviceTaint{Key: key, Value: value, Effect: effect}
}
