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

// Fate is what Berth does with a field.
type Fate string

const (
	// Read: it decides something.
	Read Fate = "read"
	// Told: an event of the object names it.
	Told Fate = "an event names it"
	// Refused: the object is refused, with the field's path.
	Refused Fate = "refused by name"
	// Idle: it has nothing to do with what is asked for, and has no effect with its owners either;
	// Field.Why says why.
	Idle Fate = "has no effect on the place"
)

// Kind is a kind of a neighbour that Berth serves.
type Kind struct {
	// Name is how people call it: "Job of batch.volcano.sh/v1alpha1".
	Name string
	// CRD is the file of its definition, in the neighbours' folder.
	CRD string
	// Base is an object to which each field is added, as JSON.
	Base   string
	Fields []Field
}

// Field is a field, and what is below it unless that is a Field of its own.
type Field struct {
	// Path leads to it from the object: "spec.tasks[].name", "spec.minTaskMember{}". [] is an item
	// of a list, {} a value of a map.
	Path string
	Fate Fate
	// Sample is a value that shows the fate, as JSON. It is put At another path where the field
	// means something with others alone.
	Sample, At string
	// Base is in place of the kind's where the field needs others beside it.
	Base string
	// Whole means that what is below is a type of Kubernetes' own: only the whole has a meaning.
	Whole bool
	// Why is why an Idle field is none of Berth's.
	Why string
}

// Key is the key that samples have in maps.
const Key = "svc"

// Plain is the object to which the field is added.
func (k *Kind) Plain(f *Field) (object map[string]any, err error) {
	if err = json.Unmarshal([]byte(cmp.Or(f.Base, k.Base)), &object); err != nil {
		err = fmt.Errorf("%s: %w", k.Name, err)
	}
	return object, err
}

// With is Plain with the field's sample.
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

// WithLeaf is Plain with a value of a leaf that falls under the field.
func (k *Kind) WithLeaf(f *Field, leaf Leaf) (object map[string]any, err error) {
	if object, err = k.Plain(f); err == nil {
		set(object, steps(leaf.Path), leaf.Value)
	}
	return object, err
}

// steps takes a path apart: "a.b[].c{}" is a, b, [], c, {}.
func steps(path string) (out []string) {
	path = strings.NewReplacer("[]", ".[]", "{}", ".{}").Replace(path)
	return strings.Split(path, ".")
}

// set puts a value where the steps lead, and makes what is missing on the way.
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

// Of returns the field under which a path falls: itself, or the nearest above it.
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

// Leaf is a field of a definition below which there is none, with a value that its schema allows.
type Leaf struct {
	Path  string
	Value any
}

// schema is the part of a definition that matters here.
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

// Definitions reads those of a folder of the neighbours. The error is fs.ErrNotExist where there is
// none.
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

// sample is a value that says something.
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
