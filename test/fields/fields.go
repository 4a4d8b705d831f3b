package fields

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Fate is how Berth treats a field.
type Fate string

const (
	// Read: Berth uses the field.
	Read Fate = "read"
	// Told: an event of the object names it.
	Told Fate = "an event names it"
	// Refused: the object is refused, with the field's path.
	Refused Fate = "refused by name"
	// Idle: the field has no effect on the request, neither with Berth nor with the project that
	// defines it. Field.Why has the reason.
	Idle Fate = "has no effect on the place"
)

// Kind is a kind of another project that Berth serves.
type Kind struct {
	// Name is the kind's name for people: "Job of batch.volcano.sh/v1alpha1".
	Name string
	// CRD is the file of its definition in the folder of the projects' definitions.
	CRD string
	// Base is an object to which each field is added, as JSON.
	Base   string
	Fields []Field
}

// Field is a field with all fields below it, except for those in the table.
type Field struct {
	// Path is the field's path: "spec.tasks[].name", "spec.minTaskMember{}". [] is an item of a
	// list, {} is a value of a map.
	Path string
	Fate Fate
	// Sample is a value that shows the fate, as JSON. If the field needs other fields, At is the
	// path at which Sample is set.
	Sample, At string
	// Base replaces the kind's Base if the field needs other fields next to it.
	Base string
	// Whole means that the field has a type of Kubernetes, so that its subfields are not listed.
	Whole bool
	// Why is the reason why a field is Idle.
	Why string
}

// Key is the key of map entries in samples.
const Key = "svc"

// Plain returns the object to which the field is added.
func (k *Kind) Plain(f *Field) (object map[string]any, err error) {
	if err = json.Unmarshal([]byte(cmp.Or(f.Base, k.Base)), &object); err != nil {
		err = fmt.Errorf("%s: %w", k.Name, err)
	}
	return object, err
}

// With returns the object of Plain with the field's sample.
func (k *Kind) With(f *Field) (object map[string]any, err error) {
	var value any
	if err := json.Unmarshal([]byte(f.Sample), &value); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", k.Name, f.Path, err)
	}
	if object, err = k.Plain(f); err == nil {
		set(object, steps(cmp.Or(f.At, f.Path)), value)
	}
	return object, err
}

// WithLeaf returns the object of Plain with a value of a leaf below the field.
func (k *Kind) WithLeaf(f *Field, leaf Leaf) (object map[string]any, err error) {
	if object, err = k.Plain(f); err == nil {
		set(object, steps(leaf.Path), leaf.Value)
	}
	return object, err
}

// steps splits a path: "a.b[].c{}" becomes a, b, [], c, {}.
func steps(path string) (out []string) {
	path = strings.NewReplacer("[]", ".[]", "{}", ".{}").Replace(path)
	return strings.Split(path, ".")
}

// set stores a value at the path of the steps, and creates missing objects and lists on the path.
func set(in map[string]any, steps []string, value any) {
	at := steps[0]
	if at == "{}" {
		at = Key
	}
	if len(steps) == 1 {
		in[at] = value
		return
	}
	if steps[1] != "[]" {
		below, ok := in[at].(map[string]any)
		if !ok {
			below = map[string]any{}
			in[at] = below
		}
		set(below, steps[1:], value)
		return
	}
	list, ok := in[at].([]any)
	if !ok || len(list) == 0 {
		list = []any{map[string]any{}}
		in[at] = list
	}
	if len(steps) == 2 {
		list[0] = value
		return
	}
	below, ok := list[0].(map[string]any)
	if !ok {
		below = map[string]any{}
		list[0] = below
	}
	set(below, steps[2:], value)
}

// Of returns the table's field for a path: the field with that path, or the nearest field above it.
func (k *Kind) Of(path string) *Field {
	var found *Field
	for i := range k.Fields {
		f := &k.Fields[i]
		if covers(f.Path, path) && (found == nil || len(f.Path) > len(found.Path)) {
			found = f
		}
	}
	return found
}

func covers(above, path string) bool {
	rest, ok := strings.CutPrefix(path, above)
	return ok && (rest == "" || strings.ContainsRune(".[{", rune(rest[0])))
}

// Leaf is a field of a definition without fields below it, and a value that its schema allows.
type Leaf struct {
	Path  string
	Value any
}

// schema is the part of a definition that this package reads.
type schema struct {
	Type       string            `json:"type"`
	Format     string            `json:"format"`
	Enum       []any             `json:"enum"`
	IntOrText  bool              `json:"x-kubernetes-int-or-string"`
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
	Values     *schema           `json:"additionalProperties"`
}

// Definition is a CustomResourceDefinition.
type Definition struct {
	File, Group, Resource string
	Leaves                []Leaf
}

// Definitions reads the definitions in a folder. The error is fs.ErrNotExist if there are none.
func Definitions(from string) (out []Definition, err error) {
	for _, folder := range []string{"volcano-crds", "koordinator-crds"} {
		files, err := os.ReadDir(filepath.Join(from, folder))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			d, err := readDefinition(from, folder+"/"+file.Name())
			if err != nil {
				return nil, err
			}
			out = append(out, d)
		}
	}
	return out, nil
}

func readDefinition(from, file string) (d Definition, err error) {
	data, err := os.ReadFile(filepath.Join(from, filepath.FromSlash(file)))
	if err != nil {
		return d, err
	}
	var crd struct {
		Spec struct {
			Group string `json:"group"`
			Names struct {
				Plural string `json:"plural"`
			} `json:"names"`
			Versions []struct {
				Schema struct {
					Root schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return d, fmt.Errorf("%s: %w", file, err)
	}
	d = Definition{File: file, Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}
	for _, v := range crd.Spec.Versions {
		for name, s := range v.Schema.Root.Properties {
			if !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, name) {
				d.Leaves = s.leaves(d.Leaves, name)
			}
		}
	}
	slices.SortFunc(d.Leaves, func(a, b Leaf) int { return strings.Compare(a.Path, b.Path) })
	return d, nil
}

func (s *schema) leaves(out []Leaf, path string) []Leaf {
	switch {
	case len(s.Properties) > 0:
		for name, below := range s.Properties {
			out = below.leaves(out, path+"."+name)
		}
	case s.Items != nil && s.Type == "array":
		out = s.Items.leaves(out, path+"[]")
	case s.Values != nil:
		out = s.Values.leaves(out, path+"{}")
	default:
		out = append(out, Leaf{path, s.sample()})
	}
	return out
}

// sample returns a value that is not the zero value.
func (s *schema) sample() any {
	switch {
	case len(s.Enum) > 0:
		return s.Enum[len(s.Enum)-1]
	case s.IntOrText:
		return "3"
	case s.Format == "date-time":
		return "2030-01-01T00:00:00Z"
	case s.Type == "integer" || s.Type == "number":
		return int64(3)
	case s.Type == "boolean":
		return true
	case s.Type == "object" || s.Type == "":
		return map[string]any{}
	}
	return "x"
}
