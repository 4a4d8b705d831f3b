package gangfit

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/plan"
	"github.com/berth-dev/berth/internal/suppose"
)

// counted has nodes with cpus CPUs each. Nodes that wait admit no pod before they have reported.
type counted struct {
	plan.Uncoupled
	cpus  []int64
	waits []int
}

func (c *counted) Nodes(int) (nodes []int) {
	for node := range c.cpus {
		if !slices.Contains(c.waits, node) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

func (c *counted) Node(node int) suppose.Node { return c.Hoped(node) }
func (c *counted) Admits(int, int) bool       { return true }
func (c *counted) Put(int, int)               {}
func (c *counted) Take(int, int)              {}
func (c *counted) Waiting(int) []int          { return c.waits }
func (c *counted) Hopes(int, int) bool        { return true }
func (c *counted) Hoped(node int) suppose.Node {
	return suppose.On(nil, amounts.NewNode(cpus(c.cpus[node]), amounts.Pods))
}

// asking returns a question about members that request each of these CPUs.
func asking(minimum int, each ...int64) *Question {
	q := &Question{Gang: plan.Gang{Minimum: minimum}, Start: minimum}
	for _, n := range each {
		q.Add(plan.Member{Pod: suppose.Pod{Asks: cpus(n)}}, fmt.Append(nil, n))
	}
	return q
}

// TestVerdict: the result for a gang, as a text and as a value.
func TestVerdict(t *testing.T) {
	done := asking(1, 4, 4)
	done.Done, done.Start = 2, 3
	tasks := asking(1, 4, 4)
	tasks.Tasks = map[string]int{"a": 1}
	for name, c := range map[string]struct {
		q     *Question
		nodes counted
		want  string
		whole bool
		fit   int
	}{
		"all":            {asking(2, 4, 4), counted{cpus: []int64{8}}, "all fit now", true, 2},
		"the minimum":    {asking(1, 4, 4), counted{cpus: []int64{7}}, "enough pods fit now: 1 (the gang needs 1)", true, 1},
		"too few":        {asking(2, 4, 4), counted{cpus: []int64{7}}, "1 of 2 pods fit now", false, 1},
		"two have nodes": {done, counted{cpus: []int64{3}}, "2 of 3 pods fit now", false, 2},
		"of a task":      {tasks, counted{cpus: []int64{8}}, "enough pods fit now: 2 (the gang needs 1), but too few of some task", false, 2},
		"a report":       {asking(2, 4, 4), counted{cpus: []int64{4, 4}, waits: []int{1}}, "1 of 2 pods fit now; nodes' next reports will decide on the others", false, 1},
		"no such report": {asking(2, 4, 4), counted{cpus: []int64{4, 3}, waits: []int{1}}, "1 of 2 pods fit now", false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			v := c.q.Ask(&c.nodes)
			if got := v.String(); got != c.want || v.Whole != c.whole || v.Fit != c.fit {
				t.Errorf("%q, whole %t, %d fit: want %q, %t, %d", got, v.Whole, v.Fit, c.want, c.whole, c.fit)
			}
		})
	}
}

// TestWhatAGroupNamesComesFirst: there is no plan if the group's minResources are not free. Single
// pods are looked at only if the sums do not suffice.
func TestWhatAGroupNamesComesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		has, low int64
		want     string
		looks    int
	}{
		"it is free":       {8, 0, "all fit now", 1},
		"it could be":      {8, 8, "all fit now", 2},
		"it could not be":  {7, 7, "minResources asks for 8 CPUs, and 0 are free, 7 could be freed by pods that are ending or of lower priority", 2},
		"there is no such": {7, 0, "minResources asks for 8 CPUs, and 7 are free", 2},
	} {
		t.Run(name, func(t *testing.T) {
			looks, q := 0, asking(1, 4)
			q.Claim = &Claim{Asked: cpus(8), Priority: 1}
			q.Room = func(oneByOne bool) *Room {
				looks++
				r := new(Room)
				r.Offer(cpus(c.has))
				if oneByOne {
					r.Take(&Occupant{Asks: cpus(c.low)})
				} else {
					r.Hold(cpus(c.low))
				}
				return r
			}
			v := q.Ask(&counted{cpus: []int64{8}})
			if v.String() != c.want || looks != c.looks || (v.Short == nil) != v.Whole {
				t.Errorf("%q after %d looks: want %q after %d", v, looks, c.want, c.looks)
			}
		})
	}
}

// TestTooManyKinds: a gang with too many kinds is not planned, and the result says so.
func TestTooManyKinds(t *testing.T) {
	q := &Question{Gang: plan.Gang{Minimum: 1}, Budget: plan.NewBudget(t.Context())}
	for i := range plan.MaxKinds {
		for range 2 {
			if !q.Add(plan.Member{}, fmt.Append(nil, i)) {
				t.Fatalf("%d kinds are too many", i+1)
			}
		}
	}
	if len(q.Kinds) != plan.MaxKinds || q.Kinds[7] != (Kind{First: 14, Size: 2}) || q.Members[15].Kind != 7 {
		t.Errorf("%d kinds, %+v", len(q.Kinds), q.Kinds[7])
	}
	if q.Add(plan.Member{}, []byte("one more")) {
		t.Error("one more kind is planned")
	}
	v := q.Ask(&counted{cpus: []int64{8}})
	if want := "its pods are of more than 256 kinds: "; !v.Cut || v.Whole || len(v.String()) < len(want) || v.String()[:len(want)] != want {
		t.Errorf("%q", v)
	}
}
