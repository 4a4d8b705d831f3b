package wire

import (
	"fmt"
	"strconv"
)

// FieldError says which value of which object cannot be used, and what would be right. Every error about the
// content of an object that this package returns is one, or wraps one.
type FieldError struct {
	Object string // kind and name, "NodeTopology n1" or "Pod ns/name"
	Field  string // path inside the object, "status.pods[3].uid"
	Value  string // what is there
	Want   string // what would be right
}

func (e *FieldError) Error() string {
	return e.Object + ": " + e.Field + ": " + clip(e.Value) + ": want " + e.Want
}

// clip quotes a value from outside, cut to a bearable length.
func clip(s string) string {
	const limit = 80
	if len(s) > limit {
		return strconv.Quote(s[:limit]) + "..."
	}
	return strconv.Quote(s)
}

// fieldErrors makes FieldErrors about one object.
type fieldErrors string

func (o fieldErrors) at(field fmt.Stringer, value any, want string) *FieldError {
	return &FieldError{Object: string(o), Field: field.String(), Value: fmt.Sprint(value), Want: want}
}

// OtherFormError says that a NodeTopology was stored by a release of Berth that writes it otherwise. It does not name the node, so
// that those of many nodes add up.
type OtherFormError struct {
	// Why is what could not be read.
	Why string
}

func (e *OtherFormError) Error() string {
	return "another release of berth-agent wrote its NodeTopology: delete that once, and it is written anew (" + e.Why + ")"
}
