package fates

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	nodeinfo "github.com/berth-dev/berth/api/nodeinfo/v1alpha1"
	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/jobs"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/fields"
	"github.com/berth-dev/berth/topology"
)

// Silence is the fate of a field that Berth ignores without a message.
const Silence fields.Fate = "passed over in silence"

// answer is the code's reaction to an object: the parsed value, the events, and the error.
type answer struct {
	understood any
	told       string
	err        error
}

// ask asks the code that reads a kind. For a Job it checks only if the type has a field, and if the
// field is refused or named by an event. Tests of internal/jobs check the behaviour of
// berth-controller.
var ask = map[string]func(object []byte) answer{
	"Job of batch.volcano.sh/v1alpha1": func(object []byte) answer {
		var job batch.Job
		if err := json.Unmarshal(object, &job); err != nil {
			return answer{err: err}
		}
		out := answer{&job, strings.Join(jobs.Unserved(&job), "; "), jobs.Refused(&job).ToAggregate()}
		for i := range job.Spec.Tasks { // the Job names the pods
			job.Spec.Tasks[i].Template.Name, job.Spec.Tasks[i].Template.Namespace = "", ""
		}
		return out
	},
	"PodGroup of scheduling.volcano.sh/v1beta1": func(object []byte) answer {
		var g volcano.PodGroup
		if err := json.Unmarshal(object, &g); err != nil {
			return answer{err: err}
		}
		out, err := wire.ReadVolcanoGroup(&g)
		told := out.Ignored
		out.Ignored, out.Queue = "", ""
		return answer{out, told, err}
	},
	"PodGroup of scheduling.sigs.k8s.io/v1alpha1": func(object []byte) answer {
		var g sigs.PodGroup
		if err := json.Unmarshal(object, &g); err != nil {
			return answer{err: err}
		}
		out, err := wire.ReadKoordinatorGroup(&g)
		return answer{out, out.Ignored, err}
	},
	"Reservation of scheduling.koordinator.sh/v1alpha1": func(object []byte) answer {
		var o koordinator.Reservation
		if err := json.Unmarshal(object, &o); err != nil {
			return answer{err: err}
		}
		for i := range o.Spec.Owners { // wire.Reservation.Owns does not compare it
			if c := o.Spec.Owners[i].Controller; c != nil {
				c.BlockOwnerDeletion = nil
			}
		}
		r, err := wire.ReadReservation(&o)
		return answer{[]any{r, o.Spec.AllocatePolicy}, "", err}
	},
	"Device of scheduling.koordinator.sh/v1alpha1": func(object []byte) answer {
		var d koordinator.Device
		if err := json.Unmarshal(object, &d); err != nil {
			return answer{err: err}
		}
		m, err := topology.Parse("package:1 numa:2 core:2 pu:1 mem:4Gi,4Gi")
		if err != nil {
			return answer{err: err}
		}
		out, bare, err := wire.ReadDevice(&d, m)
		return answer{[]any{out, bare}, "", err}
	},
	"Numatopology of nodeinfo.volcano.sh/v1alpha1": func(object []byte) answer {
		var o nodeinfo.Numatopology
		if err := json.Unmarshal(object, &o); err != nil {
			return answer{err: err}
		}
		pod := wire.BoundPod{UID: "u", PodName: wire.PodName{Namespace: "n", Name: "p"}, Started: time.Unix(1_700_000_000, 0), Exclusive: true}
		out, err := wire.ReadNumatopology(&o, &wire.Beside{Pods: []wire.BoundPod{pod}, KubeletVersion: "v1.36.3"})
		return answer{out, "", err}
	},
}

// of returns the fate of the field at the path of an object.
func of(kind *fields.Kind, plain, object map[string]any, path string) (fields.Fate, error) {
	without, err := asked(kind, plain)
	if err != nil || without.err != nil || without.told != "" {
		return "", fmt.Errorf("%s without %s: %w %w %s", kind.Name, path, err, without.err, without.told)
	}
	with, err := asked(kind, object)
	switch {
	case err != nil:
		return "", err
	case with.err != nil && names(with.err.Error(), path):
		return fields.Refused, nil
	case with.err != nil:
		return "", fmt.Errorf("%s: want an error that names this path: %w", path, with.err)
	case names(with.told, path):
		return fields.Told, nil
	case !reflect.DeepEqual(with.understood, without.understood):
		return fields.Read, nil
	}
	return Silence, nil
}

func asked(kind *fields.Kind, object map[string]any) (answer, error) {
	reader := ask[kind.Name]
	if reader == nil {
		return answer{}, fmt.Errorf("kind %s: want a kind that a program reads", kind.Name)
	}
	data, err := json.Marshal(object)
	if err != nil {
		return answer{}, err
	}
	return reader(data), nil
}

// names reports if a text names the field at a path, or a field above it, except for the whole
// spec.
func names(text, path string) bool {
	text = inBrackets(text)
	parts := strings.Split(strings.NewReplacer("[]", "", "{}", "").Replace(path), ".")
	for n := len(parts); n >= 2; n-- {
		if strings.Contains(text, strings.Join(parts[:n], ".")) {
			return true
		}
	}
	return false
}

// inBrackets removes indices and keys in brackets.
func inBrackets(text string) string {
	var out strings.Builder
	depth := 0
	for _, r := range text {
		switch {
		case r == '[':
			depth++
		case r == ']' && depth > 0:
			depth--
		case depth == 0:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// Wrong tries the samples of a kind's table, and describes missing and wrong entries.
func Wrong(kind *fields.Kind) (wrong []string) {
	for i := range kind.Fields {
		f := &kind.Fields[i]
		plain, err := kind.Plain(f)
		object, errWith := kind.With(f)
		if err = errors.Join(err, errWith); err == nil {
			err = compare(kind, f, plain, object, f.Path)
		}
		if err != nil {
			wrong = append(wrong, kind.Name+": "+err.Error())
		}
	}
	return wrong
}

// compare describes how a field's fate differs from the table.
func compare(kind *fields.Kind, f *fields.Field, plain, object map[string]any, path string) error {
	fate, err := of(kind, plain, object, path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if fate == Silence && f.Fate == fields.Idle && f.Why != "" {
		fate = fields.Idle
	}
	if fate != f.Fate {
		return fmt.Errorf("%s: %s, want %s", path, fate, f.Fate)
	}
	return nil
}

// Silent reads the other projects' own definitions, and lists kinds and fields that are in no
// table, and fields whose fate differs from the table. The error is fs.ErrNotExist if the
// definitions do not exist.
func Silent(from string) (silent []string, err error) {
	all, err := fields.Definitions(from)
	if err != nil {
		return nil, err
	}
	for i := range fields.Kinds {
		silent = append(silent, Wrong(&fields.Kinds[i])...)
	}
	for i := range all {
		silent = append(silent, silentOf(&all[i])...)
	}
	return append(silent, silentTemplate(all)...), nil
}

// silentTemplate is Silent for the template of a Reservation. The definition has no schema for it,
// so silentTemplate uses the schema of a Job's pod template.
func silentTemplate(all []fields.Definition) []string {
	of := func(kind string) *fields.Definition {
		return &all[slices.IndexFunc(all, func(d fields.Definition) bool { return d.File == fields.KindNamed(kind).CRD })]
	}
	d := fields.Definition{File: of("Reservation of scheduling.koordinator.sh/v1alpha1").File}
	for _, leaf := range of("Job of batch.volcano.sh/v1alpha1").Leaves {
		if below, ok := strings.CutPrefix(leaf.Path, "spec.tasks[].template"); ok {
			d.Leaves = append(d.Leaves, fields.Leaf{Path: "spec.template" + below, Value: leaf.Value})
		}
	}
	return silentOf(&d)
}

// silentOf is Silent for one definition.
func silentOf(d *fields.Definition) (silent []string) {
	n := slices.IndexFunc(fields.Kinds, func(k fields.Kind) bool { return k.CRD == d.File })
	if n < 0 {
		if !slices.ContainsFunc(wire.UnservedKinds(), func(k wire.UnservedKind) bool { return k.Group == d.Group && k.Resource == d.Resource }) {
			silent = append(silent, d.File+": neither served nor warned of")
		}
		return silent
	}
	kind := &fields.Kinds[n]
	for _, leaf := range d.Leaves {
		f := kind.Of(leaf.Path)
		if f == nil {
			silent = append(silent, kind.Name+": "+leaf.Path+" is in no table")
			continue
		}
		if f.Path == leaf.Path || f.Whole || f.At != "" {
			continue // the table's sample covers it, or the field means something only as a whole
		}
		plain, err := kind.Plain(f)
		object, errWith := kind.WithLeaf(f, leaf)
		if err = errors.Join(err, errWith); err == nil {
			err = compare(kind, f, plain, object, leaf.Path)
		}
		if err != nil {
			silent = append(silent, kind.Name+": "+err.Error())
		}
	}
	return silent
}
