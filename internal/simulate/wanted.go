package simulate

import (
	"github.com/berth-dev/berth/internal/demand"
	"github.com/berth-dev/berth/internal/simulate/trace"
)

// wanted computes the demand for nodes (package demand) from the running pods. Nodes of one kind
// with the same GPU model have the same demand.
type wanted struct {
	of     []int // by node: the index of its class in the field all
	all    []class
	tally  demand.Tally[string]
	shapes map[string]*Shape
}

type class struct {
	kind  *numaKind
	model string
	level demand.Level
	takes map[string]bool // by the key of a shape: an empty node could admit the shape
}

func newWanted(kinds []*numaKind, nodes []trace.Node) wanted {
	type key struct {
		kind  *numaKind
		model string
	}
	w, known := wanted{shapes: map[string]*Shape{}}, map[key]int{}
	for i, kind := range kinds {
		k := key{kind, nodes[i].GPUModel}
		at, ok := known[k]
		if !ok {
			at = len(w.all)
			known[k] = at
			w.all = append(w.all, class{kind: kind, model: k.model, takes: map[string]bool{}})
		}
		w.of = append(w.of, at)
	}
	return w
}

func (w *wanted) level(node int) demand.Level { return w.all[w.of[node]].level }

func (w *wanted) add(s *Shape, gpus int64) {
	if s.GPUs == 0 {
		return
	}
	w.shapes[s.key] = s
	w.tally.Add(s.key, gpus)
}

// learn updates the demand if an update is due, and reports whether the demand for any node has
// changed.
func (w *wanted) learn() (changed bool) {
	if !w.tally.Due() {
		return false
	}
	wishes := w.tally.Wishes()
	for i := range w.all {
		c := &w.all[i]
		was := c.level
		c.level = wishes.Level(func(key string) bool { return c.takesShape(w.shapes[key]) })
		changed = changed || c.level != was
	}
	return changed
}

func (c *class) takesShape(s *Shape) bool {
	takes, known := c.takes[s.key]
	if !known {
		takes = s.Takes(c.model) && c.kind.empty.CouldTake(s.ask)
		c.takes[s.key] = takes
	}
	return takes
}
