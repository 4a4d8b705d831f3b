// Package diff lists the differences between two results of a case (test/replay/cases).
package diff

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/test/replay/cases"
	"github.com/berth-dev/berth/topology"
)

// Difference is one difference between two results of a case.
type Difference struct {
	Case string
	// Event is the index in Case.Events; -1 for the case as a whole.
	Event int
	// Field is the path of the field that differs: "admitted", "reason", "containers[c0].cpus",
	// "state.defaultCPUs".
	Field string
	// Want and Got are JSON.
	Want, Got string
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: event %d: %s: want %s, got %s", d.Case, d.Event, d.Field, d.Want, d.Got)
}

// Results returns where got differs from want. Messages, times and the order of blocks and devices
// do not count. If want marks the case as nondeterministic, only the start of the kubelet is
// compared, because another run of the kubelet would differ too.
func Results(want, got *cases.Result) []Difference {
	d := differ{id: want.ID, event: -1}
	d.value("id", want.ID, got.ID)
	d.value("startupError", want.StartupError != "", got.StartupError != "")
	if want.Nondeterministic || d.found != nil {
		return d.found
	}
	d.events("", want.Events, got.Events)
	return d.found
}

type differ struct {
	id    string
	event int
	found []Difference
}

// value notes a difference of two values, compared by their JSON; it reports whether they are
// equal.
func (d *differ) value(field string, want, got any) bool {
	w, g := text(want), text(got)
	if w == g {
		return true
	}
	d.found = append(d.found, Difference{Case: d.id, Event: d.event, Field: field, Want: w, Got: g})
	return false
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// events compares lists of events; inside a restart, prefix is "readmit" and the event keeps its
// number.
func (d *differ) events(prefix string, want, got []cases.EventResult) {
	for i := range min(len(want), len(got)) {
		if prefix == "" {
			d.event = i
			d.one("", &want[i], &got[i])
		} else {
			d.one(fmt.Sprintf("%s[%s].", prefix, want[i].UID), &want[i], &got[i])
		}
	}
	if prefix == "" {
		d.event = -1
	}
	d.value(prefix+"events", len(want), len(got))
}

func (d *differ) one(at string, want, got *cases.EventResult) {
	d.value(at+"type", want.Type, got.Type)
	d.value(at+"uid", want.UID, got.UID)
	d.value(at+"panic", want.Panic != "", got.Panic != "")
	if !d.value(at+"admitted", want.Admitted, got.Admitted) {
		return
	}
	if want.Admitted != nil && !*want.Admitted {
		d.value(at+"reason", want.Reason, got.Reason)
	}
	d.containers(at, want.Containers, got.Containers)
	if len(want.Readmit)+len(got.Readmit) > 0 {
		d.events("readmit", want.Readmit, got.Readmit)
	}
	d.state(at+"state", want.State, got.State)
}

func (d *differ) containers(at string, want, got []cases.ContainerResult) {
	if !d.value(at+"containers", names(want), names(got)) {
		return
	}
	for i := range want {
		w, g, at := &want[i], &got[i], fmt.Sprintf("%scontainers[%s].", at, want[i].Name)
		d.value(at+"hint", sortedHint(w.Hint), sortedHint(g.Hint))
		d.value(at+"cpus", w.CPUs, g.CPUs)
		d.value(at+"memory", sortedBlocks(w.Memory), sortedBlocks(g.Memory))
		d.value(at+"devices", deviceIDs(w.Devices), deviceIDs(g.Devices))
	}
}

func (d *differ) state(at string, want, got *cases.State) {
	if !d.value(at, want != nil, got != nil) || want == nil {
		return
	}
	d.value(at+".defaultCPUs", want.DefaultCPUs, got.DefaultCPUs)
	if len(want.Memory) != len(got.Memory) {
		d.value(at+".memory", want.Memory, got.Memory)
		return
	}
	for _, id := range sortedKeys(want.Memory) {
		w, g := want.Memory[id], got.Memory[id]
		w.Cells, g.Cells = sorted(w.Cells), sorted(g.Cells)
		d.value(fmt.Sprintf("%s.memory[%d]", at, id), w, g)
	}
}

func names(cs []cases.ContainerResult) []string {
	out := []string{}
	for i := range cs {
		out = append(out, cs[i].Name)
	}
	return out
}

func sorted(ids []topology.NUMAID) []topology.NUMAID {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return ids
}

func sortedKeys[V any](m map[topology.NUMAID]V) []topology.NUMAID {
	out := []topology.NUMAID{}
	for id := range m {
		out = append(out, id)
	}
	return sorted(out)
}

func sortedHint(h cases.Hint) cases.Hint {
	if h.NUMA != nil {
		h.NUMA = sorted(h.NUMA)
	}
	return h
}

func sortedBlocks(bs []cases.MemoryBlock) []cases.MemoryBlock {
	out := []cases.MemoryBlock{}
	for _, b := range bs {
		b.NUMA = sorted(b.NUMA)
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b cases.MemoryBlock) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), slices.Compare(a.NUMA, b.NUMA), cmp.Compare(a.Size, b.Size))
	})
	return out
}

// deviceIDs leaves out resources without devices, and the nodes, which follow from the device.
func deviceIDs(m map[string][]cases.DeviceOnNodes) map[string][]string {
	out := map[string][]string{}
	for resource, devices := range m {
		for _, dev := range devices {
			out[resource] = append(out[resource], dev.ID)
		}
		slices.Sort(out[resource])
	}
	return out
}
