package trimtab

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "trimtab.dev/clients/go/trimtabv1"
)

// RequiredFeatures returns the features that a planner needs so that it ignores
// none of these settings that restricts plans, sorted. Plan and CheckFit add
// them to each request.
func RequiredFeatures(settings *pb.PlanSettings) []string {
	found := map[string]bool{}
	if settings != nil {
		addFeatures(settings.ProtoReflect(), found)
	}
	return sortedKeys(found)
}

// SnapshotFeatures returns the features that a planner needs for a snapshot, or
// for the changed rows of a delta, sorted: one that does not know devices would
// place pods where theirs are not. Plan, PlanDelta and CheckFit add them to each
// request.
func SnapshotFeatures(rows *pb.ClusterSnapshot) []string {
	found := map[string]bool{}
	if devices := rows.GetDevices(); devices != nil && proto.Size(devices) > 0 {
		found[featureOf(rows.ProtoReflect().Descriptor().Fields().ByName("devices"))] = true
	}
	claims := (*pb.PodSpec)(nil).ProtoReflect().Descriptor().Fields().ByName("claims")
	for _, specs := range [][]*pb.PodSpec{
		rows.GetPodSpecs(),
		rows.GetSlackRequests().GetDictionary().GetPodSpecs(),
		rows.GetCapacityRequests().GetDictionary().GetPodSpecs(),
	} {
		if slices.ContainsFunc(specs, func(spec *pb.PodSpec) bool { return len(spec.GetClaims()) > 0 }) {
			found[featureOf(claims)] = true
		}
	}
	return sortedKeys(found)
}

// requireFeatures adds to a request the features that its settings and the rows
// that are sent need.
func requireFeatures(request *pb.PlanRequest, rows *pb.ClusterSnapshot) {
	request.RequiredFeatures = sortedUnique(slices.Concat(
		request.RequiredFeatures, RequiredFeatures(request.Settings), SnapshotFeatures(rows),
	))
}

func addFeatures(message protoreflect.Message, found map[string]bool) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if feature := featureOf(field); feature != "" {
			found[feature] = true
		}
		addFeaturesOfValues(field, value, found)
		return true
	})
}

// featureOf returns the feature that a planner needs for a field, "" = none: its
// option in the contract.
func featureOf(field protoreflect.FieldDescriptor) string {
	setting, _ := proto.GetExtension(field.Options(), pb.E_Setting).(*pb.Setting)
	return setting.GetFeature()
}

// addFeaturesOfValues looks at the messages that are the value of a field.
func addFeaturesOfValues(field protoreflect.FieldDescriptor, value protoreflect.Value, found map[string]bool) {
	switch {
	case field.IsMap():
		if field.MapValue().Kind() != protoreflect.MessageKind {
			return
		}
		value.Map().Range(func(_ protoreflect.MapKey, one protoreflect.Value) bool {
			addFeatures(one.Message(), found)
			return true
		})
	case field.Kind() != protoreflect.MessageKind:
	case field.IsList():
		for i := range value.List().Len() {
			addFeatures(value.List().Get(i).Message(), found)
		}
	default:
		addFeatures(value.Message(), found)
	}
}
