package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/golden"
)

// What becomes of a field.
const (
	isRead    = "read"
	isRefused = "refused by name"
	isWarned  = "an event names it"
)

// neighbourField is what becomes of a field of spec, and JSON that shows it.
type neighbourField struct{ fate, sample string }

// neighbourKind is a kind of object of a neighbour that Berth serves.
type neighbourKind struct {
	crd string // the definition, below the neighbours' folder
	// base is the spec to which samples are added. ask reads the object: what is understood, what
	// an event tells of, and the error.
	base   string
	ask    func(object []byte) (understood any, told string, err error)
	fields map[string]neighbourField
}

// neighbourKinds holds every field of every kind that is served. docs/dialects.md is written from
// it.
var neighbourKinds = map[string]neighbourKind{
	"PodGroup of scheduling.volcano.sh/v1beta1": {
		"volcano-crds/scheduling.volcano.sh_podgroups.yaml", `"minMember":2`, func(object []byte) (any, string, error) {
			var g volcano.PodGroup
			if err := json.Unmarshal(object, &g); err != nil {
				return nil, "", err
			}
			out, err := ReadVolcanoGroup(&g)
			return out, out.Ignored, err
		}, map[string]neighbourField{
			"minMember": {isRead, `3`}, "minTaskMember": {isRead, `{"a":2}`}, "minResources": {isRead, `{"cpu":"3"}`},
			"queue": {isWarned, `"research"`}, "priorityClassName": {isWarned, `"high"`},
			"networkTopology": {isRefused, `{"mode":"hard"}`}, "subGroupPolicy": {isRefused, `[{"name":"a"}]`},
		},
	},
	"PodGroup of scheduling.sigs.k8s.io/v1alpha1": {
		"koordinator-crds/scheduling.sigs.k8s.io_podgroups.yaml", `"minMember":2`, func(object []byte) (any, string, error) {
			var g sigs.PodGroup
			if err := json.Unmarshal(object, &g); err != nil {
				return nil, "", err
			}
			out, err := ReadKoordinatorGroup(&g)
			return out, out.Ignored, err
		}, map[string]neighbourField{
			"minMember": {isRead, `3`}, "minResources": {isRead, `{"cpu":"3"}`}, "scheduleTimeoutSeconds": {isRead, `30`},
		},
	},
	"Reservation of scheduling.koordinator.sh/v1alpha1": {
		"koordinator-crds/scheduling.koordinator.sh_reservations.yaml",
		`"owners":[{"object":{"name":"p"}}],"template":{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1"}}}]}}`,
		func(object []byte) (any, string, error) {
			var o koordinator.Reservation
			if err := json.Unmarshal(object, &o); err != nil {
				return nil, "", err
			}
			r, err := ReadReservation(&o)
			return []any{r, o.Spec.AllocatePolicy}, "", err
		}, map[string]neighbourField{
			"template":     {isRead, `{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"2"}}}]}}`},
			"owners":       {isRead, `[{"labelSelector":{"matchLabels":{"a":"b"}}}]`},
			"allocateOnce": {isRead, `false`}, "allocatePolicy": {isRead, `"Restricted"`}, "ttl": {isRead, `"1h0m0s"`},
			"expires": {isRead, `"2030-01-01T00:00:00Z"`}, "unschedulable": {isRead, `true`},
			"taints":        {isRead, `[{"key":"a","effect":"NoSchedule"}]`},
			"preAllocation": {isRefused, `true`}, "preAllocationPolicy": {isRefused, `{"enableMultiple":true}`},
		},
	},
}

// TestEveryFieldOfNeighbours feeds each field: what is read changes what is understood, what is
// refused is named by the error, and what has no effect is named by an event.
func TestEveryFieldOfNeighbours(t *testing.T) {
	for name, kind := range neighbourKinds {
		object := func(spec string) []byte {
			return fmt.Appendf(nil, `{"metadata":{"namespace":"ns","name":"x","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{%s}}`, spec)
		}
		plain, told, err := kind.ask(object(kind.base))
		if err != nil || told != "" {
			t.Fatalf("%s: %v, %s", name, err, told)
		}
		for field, f := range kind.fields {
			got, told, err := kind.ask(object(fmt.Sprintf("%s,%q:%s", kind.base, field, f.sample)))
			fate := "passed over in silence"
			switch {
			case err != nil && strings.Contains(err.Error(), "spec."+field):
				fate = isRefused
			case err == nil && strings.Contains(told, "spec."+field):
				fate = isWarned
			case err == nil && !reflect.DeepEqual(got, plain):
				fate = isRead
			}
			if fate != f.fate {
				t.Errorf("%s: spec.%s is %s (%v), want %s", name, field, fate, err, f.fate)
			}
		}
	}
}

// TestNoFieldOfNeighboursIsForgotten holds the table against the definitions that the neighbours
// install.
func TestNoFieldOfNeighboursIsForgotten(t *testing.T) {
	const from = "../../../shared/neighbours"
	if _, err := os.Stat(from); err != nil {
		t.Skip("the neighbours' definitions are not there: ", err)
	}
	for name, kind := range neighbourKinds {
		data, err := os.ReadFile(filepath.Join(from, kind.crd))
		if err != nil {
			t.Fatal(err)
		}
		type schema struct {
			Properties map[string]struct {
				Properties map[string]any `json:"properties"`
			} `json:"properties"`
		}
		var crd struct {
			Spec struct {
				Versions []struct {
					Schema struct {
						Root schema `json:"openAPIV3Schema"`
					} `json:"schema"`
				} `json:"versions"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal(data, &crd); err != nil {
			t.Fatal(err)
		}
		for _, v := range crd.Spec.Versions {
			defined := v.Schema.Root.Properties["spec"].Properties
			if len(defined) == 0 {
				t.Errorf("%s: the definition has no fields", name)
			}
			for field := range defined {
				if _, known := kind.fields[field]; !known {
					t.Errorf("%s: spec.%s is not in the table", name, field)
				}
			}
		}
	}
}

// TestDialectsSayWhatBecomesOfFields holds the table in docs/dialects.md against neighbourKinds.
func TestDialectsSayWhatBecomesOfFields(t *testing.T) {
	const path, begin, end = "../../docs/dialects.md", "<!-- fields: begin -->\n", "<!-- fields: end -->\n"
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(doc), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s: want %q and %q", path, begin, end)
	}
	golden.File(t, path, before+begin+fieldsTable()+end+after)
}

// fieldsTable is the table of docs/dialects.md.
func fieldsTable() string {
	out := "| kind | read | an event names it | refused by name |\n|---|---|---|---|\n"
	for _, name := range slices.Sorted(maps.Keys(neighbourKinds)) {
		by := map[string][]string{}
		for _, field := range slices.Sorted(maps.Keys(neighbourKinds[name].fields)) {
			fate := neighbourKinds[name].fields[field].fate
			by[fate] = append(by[fate], "`"+field+"`")
		}
		out += "| " + name
		for _, fate := range []string{isRead, isWarned, isRefused} {
			out += " | " + strings.Join(by[fate], ", ")
		}
		out += " |\n"
	}
	return strings.ReplaceAll(out, "|  |", "| – |")
}
