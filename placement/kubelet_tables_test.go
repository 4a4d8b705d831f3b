package placement

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// recordedHint is a TopologyHint; NUMA nil is the kubelet's nil affinity.
type recordedHint struct {
	NUMA      []topology.NUMAID
	Preferred bool
}

// recordedMerge is a call of Policy.Merge in the kubelet's own tests (test/conformance/tables).
type recordedMerge struct {
	Call string
	In   struct {
		Policy    string
		Nodes     []topology.NUMAID
		Lists     [][]recordedHint
		Distances map[topology.NUMAID][]uint64
	}
	Out struct {
		Hint  recordedHint
		Admit bool
	}
}

// TestMergeTables merges the hints of the kubelet's own tests: see make conformance-tables.
func TestMergeTables(t *testing.T) {
	name := os.Getenv("BERTH_TABLES")
	if name == "" {
		t.Skip("run make conformance-tables")
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<26)
	agreed := 0
	for s.Scan() {
		var r recordedMerge
		if err := json.Unmarshal(s.Bytes(), &r); err != nil || r.Call != "merge" {
			continue
		}
		if err := r.check(); err != nil {
			t.Errorf("%v\n%.2000s", err, s.Bytes())
			continue
		}
		agreed++
	}
	if t.Logf("%d merges agreed", agreed); agreed == 0 || s.Err() != nil {
		t.Errorf("no merges recorded (%v)", s.Err())
	}
}

func (r *recordedMerge) check() error {
	space, err := hint.NewSpace(topology.NewNUMASet(r.In.Nodes...))
	if err != nil {
		return err
	}
	var g merger
	g.init(space)
	rules := mergeRules{single: r.In.Policy == "single-numa-node", distance: r.distances(space)}
	lists := make([]hint.List, len(r.In.Lists))
	for i, l := range r.In.Lists {
		lists[i] = listOf(space, l, rules.single)
	}
	h, admit := g.preferred(lists, rules)
	switch {
	case admit && rules.single && h.Mask == space.All():
		h = hint.Hint{Any: true, Preferred: true}
	case !admit && r.In.Policy == "best-effort":
		h, admit = g.unpreferred(lists, rules), true
	}
	if admit != r.Out.Admit {
		return fmt.Errorf("want admit %v, got %v", r.Out.Admit, admit)
	}
	want := hintOf(space, r.Out.Hint)
	if admit && h != want {
		return fmt.Errorf("want %v, got %v", want, h)
	}
	return nil
}

func hintOf(space *hint.Space, h recordedHint) hint.Hint {
	if h.NUMA == nil {
		return hint.Hint{Any: true, Preferred: h.Preferred}
	}
	return hint.Hint{Mask: space.Compact(topology.NewNUMASet(h.NUMA...)), Preferred: h.Preferred}
}

// listOf returns a list of hints. In the kubelet's tests, a list with a nil affinity has no other
// hint.
func listOf(space *hint.Space, hints []recordedHint, single bool) hint.List {
	l := space.NewList()
	switch {
	case hints == nil || slices.ContainsFunc(hints, func(h recordedHint) bool { return h.NUMA == nil && h.Preferred }):
		l.Reset(hint.NoPreference)
		return l
	case len(hints) == 0 || single && hints[0].NUMA == nil:
		l.Reset(hint.Impossible)
		return l
	}
	l.Reset(hint.Masks)
	for _, h := range hints {
		m := space.Compact(topology.NewNUMASet(h.NUMA...))
		l.Offered.Add(m)
		if h.Preferred {
			l.Preferred.Add(m)
		}
	}
	return l
}

func (r *recordedMerge) distances(space *hint.Space) []uint64 {
	if r.In.Distances == nil || r.In.Policy == "single-numa-node" {
		return nil
	}
	sums := make([]uint64, len(space.BySize())+1)
	for _, mask := range space.BySize() {
		for i := range mask.All() {
			for j := range mask.All() {
				sums[mask] += r.In.Distances[space.ID(i)][space.ID(j)]
			}
		}
	}
	return sums
}
