package trimtab

import (
	"slices"

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

// requireFeatures adds to a request the features that its settings need.
func requireFeatures(request *pb.PlanRequest) {
	request.RequiredFeatures = sortedUnique(slices.Concat(request.RequiredFeatures, RequiredFeatures(request.Settings)))
}

func addFeatures(message protoreflect.Message, found map[string]bool) {
	name := string(message.Descriptor().Name())
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if feature, ok := requiredFeatures[name+"."+string(field.Name())]; ok {
			found[feature] = true
		}
		addFeaturesOfValues(field, value, found)
		return true
	})
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
