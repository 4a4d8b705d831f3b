// Package lenient reads objects whose JSON does not fit their Go types. The schema of a custom
// resource definition accepts values that the Go types do not accept, such as the duration "10x"
// and the amount "1e1.5". Without this package, one such object would make every list and watch of
// its kind unreadable.
package lenient

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	sigsjson "sigs.k8s.io/json"
)

// Read decodes data into whole. If data does not fit whole, Read decodes it into part, which has
// fewer fields, and malformed describes the field that does not fit. Read returns an error only if
// data does not fit part either.
func Read(data []byte, whole, part any) (malformed string, err error) {
	if err = sigsjson.UnmarshalCaseSensitivePreserveInts(data, whole); err == nil {
		return "", nil
	}
	if sigsjson.UnmarshalCaseSensitivePreserveInts(data, part) != nil {
		return "", err
	}
	s := search{of: reflect.TypeOf(whole).Elem(), wrong: err.Error(), left: mostTries}
	if path, value := s.in(data); path != "" {
		return fmt.Sprintf("%s: %.80q: want %s", path, value, wanted(err)), nil
	}
	return fmt.Sprintf("%.300s", s.wrong), nil
}

// wanted describes the values that the wrong field accepts. The decoder's error describes them only
// for some types.
func wanted(err error) string {
	wrong := err.Error()
	switch {
	case strings.Contains(wrong, "duration"):
		return "a duration such as 90s or 1h30m"
	case strings.Contains(wrong, "quantit"):
		return "an amount such as 2, 500m or 2Gi"
	}
	if kind := (*json.UnmarshalTypeError)(nil); errors.As(err, &kind) {
		return kindOf(kind.Type)
	}
	return "another type: " + wrong
}

// Plain describes the error of a JSON decoder. Unlike the error, it does not name Go types.
func Plain(err error) string {
	kind := (*json.UnmarshalTypeError)(nil)
	if !errors.As(err, &kind) {
		return err.Error()
	}
	found, _, _ := strings.Cut(kind.Value, " ") // "number 1.5"
	text := kindOf(kind.Type) + " instead of " + cmp.Or(jsonKinds[found], found)
	if kind.Field != "" {
		text = kind.Field + ": " + text
	}
	return text
}

// jsonKinds describes what the decoder calls a JSON value.
var jsonKinds = map[string]string{"array": "a list", "object": "an object", "string": "a string", "number": "a number", "bool": "true or false"}

// kindOf describes the JSON values that a decoder reads into a type.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return fmt.Sprintf("a whole number (%s)", t.Kind())
}

// A search decodes the object once for each try. In an object with more than mostBytes bytes, Read
// names no field. If mostTries tries are not enough, Read names no field, or a field that contains
// the wrong field.
const (
	mostBytes = 16 << 10
	mostTries = 64
)

// search finds the field that does not fit: if that field is set to null, the error of the decoder
// changes or disappears.
type search struct {
	of    reflect.Type
	wrong string
	root  any
	left  int
}

func (s *search) in(data []byte) (path, value string) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if len(data) > mostBytes || decoder.Decode(&s.root) != nil {
		return "", ""
	}
	return s.below("", s.root)
}

func (s *search) below(at string, node any) (path, value string) {
	switch node := node.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(node)) {
			child := node[key]
			node[key] = nil
			found := s.fits()
			if node[key] = child; found {
				return s.below(join(at, key), child)
			}
		}
	case []any:
		for i, child := range node {
			node[i] = nil
			found := s.fits()
			if node[i] = child; found {
				return s.below(at+"["+strconv.Itoa(i)+"]", child)
			}
		}
	default:
		return at, fmt.Sprint(node)
	}
	text, _ := json.Marshal(node) //nolint:errchkjson // the value was read from JSON
	return at, string(text)
}

// fits reports whether decoding the current form of root succeeds, or returns another error than
// wrong.
func (s *search) fits() bool {
	if s.left--; s.left < 0 {
		return false
	}
	data, err := json.Marshal(s.root)
	if err != nil {
		return false
	}
	err = sigsjson.UnmarshalCaseSensitivePreserveInts(data, reflect.New(s.of).Interface())
	return err == nil || err.Error() != s.wrong
}

func join(at, key string) string {
	switch {
	case at == "":
		return key
	case strings.ContainsAny(key, "./[]"):
		return at + "[" + key + "]"
	}
	return at + "." + key
}
