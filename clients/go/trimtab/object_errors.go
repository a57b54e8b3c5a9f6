package trimtab

import (
	"errors"
	"fmt"
)

// ObjectError says which field of which object cannot be used, as the API
// server would refuse it too.
type ObjectError struct {
	// Kind and Name of the object; "namespace/name" if its kind has namespaces.
	Kind, Name string
	// Path of the field, such as "spec.tolerations[0].effect".
	Path string
	// Problem says what is wrong, and Remedy what to do; both are for people.
	Problem, Remedy string
}

func (e *ObjectError) Error() string {
	where := e.Kind + " " + e.Name
	if e.Path != "" {
		where += ": " + e.Path
	}
	if e.Remedy == "" {
		return fmt.Sprintf("%s: %s", where, e.Problem)
	}
	return fmt.Sprintf("%s: %s; %s", where, e.Problem, e.Remedy)
}

// fieldError is an error of a field of an object that the caller knows.
type fieldError struct {
	path, problem, remedy string
}

func (e *fieldError) Error() string {
	text := e.problem
	if e.path != "" {
		text = e.path + ": " + text
	}
	if e.remedy != "" {
		text += "; " + e.remedy
	}
	return text
}

func badField(path, remedy, format string, args ...any) error {
	return &fieldError{path: path, problem: fmt.Sprintf(format, args...), remedy: remedy}
}

// below puts a field's name before the path of its error.
func below(path string, err error) error {
	var field *fieldError
	if !errors.As(err, &field) {
		return err
	}
	whole := path
	if field.path != "" && field.path[0] != '[' {
		whole += "."
	}
	return &fieldError{path: whole + field.path, problem: field.problem, remedy: field.remedy}
}

// ofObject names the object of a field's error.
func ofObject(kind, name string, err error) error {
	var field *fieldError
	if !errors.As(err, &field) {
		return err
	}
	return &ObjectError{Kind: kind, Name: name, Path: field.path, Problem: field.problem, Remedy: field.remedy}
}
