package trimtab

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// newIndices give the new number of each index of a dictionary.
type newIndices struct {
	str, labelSet, spec func(int32) (int32, error)
}

// renumbered returns a copy of a row in which all indices are replaced, of the
// messages in it too.
func renumbered[M proto.Message](row M, numbers newIndices) (M, error) {
	out := proto.CloneOf(row)
	return out, renumber(out.ProtoReflect(), numbers)
}

func renumber(message protoreflect.Message, numbers newIndices) error {
	descriptor := message.Descriptor()
	fields := descriptor.Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if err := renumberField(message, field, numbers); err != nil {
			return err
		}
	}
	return nil
}

func renumberField(message protoreflect.Message, field protoreflect.FieldDescriptor, numbers newIndices) error {
	name := string(message.Descriptor().FullName())
	switch {
	case stringFields[string(field.FullName())]:
		return replace(message, field, numbers.str)
	case field.Name() == "label_set" && labelSetMessages[name]:
		return replace(message, field, numbers.labelSet)
	case field.Name() == "spec" && specMessages[name]:
		// An index of 0 is one too, unless the field can be absent, and is.
		if field.HasPresence() && !message.Has(field) {
			return nil
		}
		index, err := numbers.spec(int32(message.Get(field).Int()))
		message.Set(field, protoreflect.ValueOfInt32(index))
		return err
	case field.Kind() != protoreflect.MessageKind || !message.Has(field):
		return nil
	case field.IsList():
		list := message.Get(field).List()
		for i := range list.Len() {
			if err := renumber(list.Get(i).Message(), numbers); err != nil {
				return err
			}
		}
		return nil
	}
	return renumber(message.Mutable(field).Message(), numbers)
}

// replace replaces one index or a list of them; 0 stays 0.
func replace(message protoreflect.Message, field protoreflect.FieldDescriptor, number func(int32) (int32, error)) error {
	if !message.Has(field) {
		return nil
	}
	if !field.IsList() {
		index, err := number(int32(message.Get(field).Int()))
		message.Set(field, protoreflect.ValueOfInt32(index))
		return err
	}
	list := message.Mutable(field).List()
	for i := range list.Len() {
		index, err := number(int32(list.Get(i).Int()))
		if err != nil {
			return err
		}
		list.Set(i, protoreflect.ValueOfInt32(index))
	}
	return nil
}
