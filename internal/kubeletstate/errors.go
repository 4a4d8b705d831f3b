package kubeletstate

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/berth-dev/berth/internal/clip"
)

// ErrChecksum is wrapped by the Error about a checkpoint whose content does not match its checksum.
// With such a checkpoint of the CPU or memory manager, the kubelet would not start.
var ErrChecksum = errors.New("checksum does not match the content")

// Error describes a problem of a checkpoint.
type Error struct {
	File  string // path as the caller gave it
	Field string // path in the file, such as "entries[UID][container]"; "" for the whole file
	Value string // the value in the file
	Want  string // the expected form
	Err   error  // cause, or nil
}

func (e *Error) Error() string {
	text := e.File
	if e.Field != "" {
		text += ": " + e.Field
	}
	if e.Value != "" {
		text += ": " + clip.Quoted(e.Value)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Want != "" {
		text += ": want " + e.Want
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// file is the name of one checkpoint, for Errors.
type file string

func (f file) err(field string, value any, want string) *Error {
	return &Error{File: string(f), Field: field, Value: fmt.Sprint(value), Want: want}
}

// broken returns the error for JSON that cannot be read.
func (f file) broken(field string, err error, want string) *Error {
	if errors.Is(err, errEmpty) {
		return &Error{File: string(f), Field: field, Err: errEmpty, Want: want}
	}
	return f.err(field, err, want)
}

func (f file) checksum(field string, got uint64, content uint32) *Error {
	return &Error{File: string(f), Field: field, Value: strconv.FormatUint(got, 10), Err: ErrChecksum,
		Want: strconv.FormatUint(uint64(content), 10) + " for this content"}
}

// errEmpty is the error for a checkpoint of 0 bytes, which a crash or a full disk can leave behind.
var errEmpty = errors.New("the file is empty")
