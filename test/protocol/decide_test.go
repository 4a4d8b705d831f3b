package protocol

import (
	"fmt"
	"slices"
	"testing"
)

func TestFit(t *testing.T) {
	for _, c := range []struct {
		pod        Pod
		used, want CPUs
	}{
		{Pod{CPUs: 2}, 0, 0b0011},
		{Pod{CPUs: 2}, 0b0001, 0b1100},
		{Pod{CPUs: 2}, 0b0101, 0}, // two CPUs are free, on two NUMA nodes
		{Pod{CPUs: 1}, 0b0001, 0b0010},
		{Pod{CPUs: 1}, 0b0011, 0b0100},
		{Pod{CPUs: 1, Device: true}, 0b0011, 0},
		{Pod{CPUs: 1}, 0b1111, 0},
	} {
		if got := fit(c.pod, c.used); got != c.want {
			t.Errorf("fit(%v, used %v) = %v, want %v", c.pod, c.used, got, c.want)
		}
	}
}

func TestOrders(t *testing.T) {
	sameSecond := NewModel(Config{Pods: twins, Rules: AllRules})
	cAfter := NewModel(Config{Pods: trio, Rules: AllRules})
	for _, c := range []struct {
		m    *Model
		todo []PodID
		want string
	}{
		{sameSecond, []PodID{1, 0}, "[[a b] [b a]]"},
		{sameSecond, []PodID{0, 1, 2}, "[[a b c] [a c b] [b a c] [b c a] [c a b] [c b a]]"},
		{cAfter, []PodID{0, 2}, "[[a c]]"},
		{cAfter, []PodID{2, 0}, "[[a c] [c a]]"},
		{cAfter, []PodID{2, 0, 1}, "[[a b c] [a c b] [b a c] [c a b] [c b a]]"},
	} {
		got := c.m.orders(c.todo)
		if !slices.Equal(got[0], c.todo) {
			t.Errorf("orders(%v) begins with %v, want the order of the Bindings", c.todo, got[0])
		}
		if s := sorted(got); s != c.want {
			t.Errorf("orders(%v) = %s, want %s", c.todo, s, c.want)
		}
	}
}

func sorted(orders [][]PodID) string {
	slices.SortFunc(orders, slices.Compare[[]PodID])
	return fmt.Sprint(slices.CompactFunc(orders, slices.Equal[[]PodID]))
}

// TestCautiousIsNeverBolder compares cautious with the enumeration on every question that the small
// model can ask.
func TestCautiousIsNeverBolder(t *testing.T) {
	m := NewModel(Config{Pods: trio, Nodes: kubelets, Rules: AllRules})
	asked, agreed := 0, 0
	for _, q := range questions() {
		all, exact := m.cautious(q)
		o := m.enumerate(q, true)
		if all && !o.all || all && exact && !o.same {
			t.Errorf("%+v: cautious says %v, exact %v; enumerated %+v", q, all, exact, o)
		}
		asked++
		agreed += count(all == o.all)
	}
	t.Logf("%d questions, %d times the same answer", asked, agreed)
	if asked == 0 || agreed == asked {
		t.Errorf("%d of %d answers agree: the comparison proves nothing", agreed, asked)
	}
}

// questions returns the questions in which the enumeration also admits each pod ahead.
func questions() []question {
	m := NewModel(Config{Pods: trio, Nodes: kubelets, Rules: AllRules})
	all := alone()
	for i := 0; i < len(all); i++ {
		q := all[i]
		o := m.enumerate(q, true)
		if !o.all {
			continue
		}
		for p := PodID(0); p < Pods; p++ {
			if q.held[p] == 0 && !slices.Contains(q.todo[:q.n], p) {
				next := q
				next.expect(p, promise{}, false)
				next.planned[q.pod] = o.first
				next.pod = p
				if o.same {
					next.exact.Add(q.pod)
				}
				all = append(all, next)
			}
		}
	}
	return all
}

// alone returns the questions without pods ahead: every pod, with every other pod on all possible
// CPUs.
func alone() []question {
	var all []question
	places := []CPUs{0, 0b0001, 0b0010, 0b0100, 0b1000, 0b0011, 0b1100}
	for p := PodID(0); p < Pods; p++ {
		x, y := (p+1)%Pods, (p+2)%Pods
		for _, cx := range places {
			for _, cy := range places {
				if cx&cy == 0 {
					q := question{pod: p}
					q.held[x], q.held[y] = cx, cy
					q.expect(p, promise{}, false)
					all = append(all, q)
				}
			}
		}
	}
	return all
}
