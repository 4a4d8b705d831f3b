package wire

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/clip"
)

// FieldError names the object, the field, the wrong value, and the expected form. Two errors about
// the content of an object are not FieldErrors: an OtherFormError, and the error about an object
// that does not fit its Go types (fieldErrors.malformed).
type FieldError struct {
	Object string // kind and name, such as "NodeTopology n1"
	Field  string // path inside the object, such as "status.pods[3].uid"
	Value  string // the wrong value
	Want   string // the expected form
}

func (e *FieldError) Error() string {
	at := e.Object
	if e.Field != "" { // "" stands for the whole object
		at += ": " + e.Field
	}
	return at + ": " + clip.Quoted(e.Value) + ": want " + e.Want
}

// fieldErrors is the name of an object. Its methods return FieldErrors about the object.
type fieldErrors string

func (o fieldErrors) at(field fmt.Stringer, value any, want string) *FieldError {
	return &FieldError{Object: string(o), Field: field.String(), Value: fmt.Sprint(value), Want: want}
}

// malformed returns the error about an object that does not fit its Go types. text already names
// the field, the value and the expected form.
func (o fieldErrors) malformed(text string) error { return errors.New(string(o) + ": " + text) }

// OtherFormError means that a release of Berth with another format has written a NodeTopology. Its
// text does not name the node, so that callers can count identical errors of many nodes.
type OtherFormError struct {
	// Why describes the unreadable part.
	Why string
}

func (e *OtherFormError) Error() string {
	return "another release of berth-agent wrote its NodeTopology: delete that once, and the agent writes it again (" + e.Why + ")"
}

// NotReadyError means that a report must not be used, because its condition Ready is not true
// (Report.Ready).
type NotReadyError struct {
	// Reason is the reason of the condition Ready: one of the constants of v1alpha1, or
	// "NotReported".
	Reason string
	// Message describes the problem and the expected state.
	Message string
}

func (e *NotReadyError) Error() string {
	return "its NodeTopology is not Ready: " + e.Reason + ": " + e.Message
}

// CheckReady returns a *NotReadyError unless the report's condition Ready is true.
func (r *Report) CheckReady() error {
	if c := r.Ready(); c.Status != metav1.ConditionTrue {
		return &NotReadyError{c.Reason, c.Message}
	}
	return nil
}
