// Package strict reads YAML and JSON as strictly as the API server's field validation. An error
// about a field names the object, the field, the value and a correct value. Other errors, such as a
// syntax error, name only the object.
package strict

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/suggest"
	"github.com/berth-dev/berth/internal/wire"
)

// maxErrors limits the number of fields that one error names.
const maxErrors = 10

// Unmarshal reads a document, YAML or JSON, into a struct. Unknown fields, fields that occur twice
// and values of another type are errors. An error about a field is a *wire.FieldError with the
// given object.
func Unmarshal(object string, doc []byte, into any) error {
	unknown, err := Known(object, doc, into)
	if err == nil {
		err = errors.Join(unknown...)
	}
	return err
}

// Known does what Unmarshal does, but accepts unknown fields. It returns the errors about them
// separately. If values of known fields are wrong too, err contains all errors.
func Known(object string, doc []byte, into any) (unknown []error, err error) {
	data, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", object, plain(err))
	}
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &value); err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	c := checker{object: object}
	c.value("", value, reflect.TypeOf(into).Elem())
	if c.wrong {
		return nil, errors.Join(c.errs...)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, into); err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	return c.errs, nil
}

// plain removes line breaks and the prefixes that YAML libraries add to each other's errors.
func plain(err error) error {
	text := err.Error()
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors:\n  "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return errors.New(strings.Join(strings.Fields(text), " "))
}

type checker struct {
	object string
	errs   []error
	wrong  bool // one of errs is not about an unknown field
}

func (c *checker) fail(path string, value any, want string) {
	c.wrong = true
	c.add(path, value, want)
}

func (c *checker) add(path string, value any, want string) {
	if len(c.errs) < maxErrors {
		c.errs = append(c.errs, &wire.FieldError{Object: c.object, Field: path, Value: Text(value), Want: want})
	}
}

// Text returns a value in JSON, but a string without its quotes.
func Text(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	// object is implemented by API objects. Their own decoders (api/lenient) hide the fields that
	// do not fit, so the checker reads the fields itself.
	object = reflect.TypeFor[metav1.Object]()
)

// value checks a value against the type that it will be read into.
func (c *checker) value(path string, v any, t reflect.Type) {
	switch {
	case v == nil:
	case t.Kind() == reflect.Pointer:
		c.value(path, v, t.Elem())
	case reflect.PointerTo(t).Implements(unmarshaler) && !reflect.PointerTo(t).Implements(object):
		c.own(path, v, t)
	case t.Kind() == reflect.Struct:
		c.fields(path, v, t)
	case t.Kind() == reflect.Map:
		if m, ok := v.(map[string]any); ok {
			c.entries(path, m, t.Elem())
		} else {
			c.fail(path, v, "an object")
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		c.list(path, v, t.Elem())
	default:
		c.scalar(path, v, t)
	}
}

// The method own lets a type with its own decoder read the value.
func (c *checker) own(path string, v any, t reflect.Type) {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(t).Interface())
	}
	if err != nil {
		c.fail(path, v, wantOf(t, err))
	}
}

// wantOf describes a correct value for a type with its own decoder.
func wantOf(t reflect.Type, err error) string {
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		return "a quantity like 4, 500m or 1Gi"
	case reflect.TypeFor[intstr.IntOrString]():
		return "a number or a string"
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return `a time like "2026-01-31T12:00:00Z"`
	case reflect.TypeFor[metav1.Duration]():
		return "a duration like 30s or 5m"
	}
	return "a valid value: " + plain(err).Error()
}

// fields checks an object's fields. Names are case-sensitive, as in the API server.
func (c *checker) fields(path string, v any, t reflect.Type) {
	m, ok := v.(map[string]any)
	if !ok {
		c.fail(path, v, "an object")
		return
	}
	fields := map[string]reflect.Type{}
	fieldsOf(t, fields)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		at := join(path, name)
		f, known := fields[name]
		if !known {
			names := slices.Sorted(maps.Keys(fields))
			c.add(at, m[name], "a known field"+suggest.DidYouMean(name, names))
			continue
		}
		c.value(at, m[name], f)
	}
}

// fieldsOf collects the fields of a struct by their names in JSON, including the fields of embedded
// structs.
func fieldsOf(t reflect.Type, into map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "":
			fieldsOf(f.Type, into)
		case f.IsExported() && name != "":
			into[name] = f.Type
		}
	}
}

func (c *checker) entries(path string, m map[string]any, t reflect.Type) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		c.value(path+"["+key+"]", m[key], t)
	}
}

func (c *checker) list(path string, v any, t reflect.Type) {
	items, ok := v.([]any)
	if !ok {
		c.fail(path, v, "a list")
		return
	}
	for i, item := range items {
		c.value(fmt.Sprintf("%s[%d]", path, i), item, t)
	}
}

func (c *checker) scalar(path string, v any, t reflect.Type) {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(t).Interface())
	}
	if err == nil {
		return
	}
	_, isText := v.(string)
	_, isObject := v.(map[string]any)
	_, isList := v.([]any)
	switch {
	case t.Kind() == reflect.String && (isObject || isList):
		c.fail(path, v, "a string")
	case t.Kind() == reflect.String:
		c.fail(path, v, fmt.Sprintf("a string in quotes: %q", Text(v))+words[v])
	case t.Kind() == reflect.Bool:
		c.fail(path, v, "true or false"+unquoted(isText))
	case t.Kind() == reflect.Slice:
		c.fail(path, v, "a string in base64")
	default:
		c.fail(path, v, fmt.Sprintf("a number (%s)", t.Kind())+unquoted(isText))
	}
}

// words has the words without quotes that YAML also reads as a boolean.
var words = map[any]string{true: " (YAML reads y, yes and on as true)", false: " (YAML reads n, no and off as false)"}

func unquoted(isText bool) string {
	if isText {
		return ", without quotes"
	}
	return ""
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
