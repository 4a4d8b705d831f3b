package sysfs

import "fmt"

// Error names a file of a capture or a live /sys that cannot be read or parsed.
type Error struct {
	// Path is relative to the folder that contains sys/.
	Path string
	// Field is the field in the file, such as MemTotal, or the name of an attribute with a single
	// value.
	Field string
	// Value is the wrong value. The text of the error has at most 80 characters of it.
	Value string
	// Want is the expected value.
	Want string
	// Err is the cause if the file could not be read.
	Err error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Path, e.Field, e.Err)
	}
	return fmt.Sprintf("%s: %s: %.80q: want %s", e.Path, e.Field, e.Value, e.Want)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
