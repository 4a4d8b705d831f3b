package ledger

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-dev/berth/placement"
)

// TestLeavingAmidAdmissions fills a node, lets pods leave, and binds other pods meanwhile. The
// kubelet admits the bound pods while the first pods leave at random moments. A report may arrive
// during the first admission, and more pods may be bound after it. No pod is refused, and exact
// promises are kept.
func TestLeavingAmidAdmissions(t *testing.T) {
	promises, exact := 0, 0
	for seed := range uint64(400) {
		l := &leaving{history: newHistory(t, seed), seed: seed, left: map[string]int{}}
		l.fill()
		for range 1 + l.rng.IntN(2) {
			l.dismiss()
		}
		l.place()
		l.admit()
		promises += len(l.promised)
		for _, p := range l.promised {
			if p.Exact {
				exact++
			}
		}
	}
	t.Logf("%d promises, %d of them exact", promises, exact)
	if promises < 400 || exact < 40 {
		t.Error("too few promises for this test")
	}
}

// leaving is a node that pods leave while others are admitted.
type leaving struct {
	*history
	seed   uint64
	coming []string
	// left is when each pod leaves: the number of the admission, in the order of admissions.
	left map[string]int
}

func (l *leaving) fill() {
	for range 3 + l.rng.IntN(3) {
		r := l.request()
		if v := l.k.admit(r); v.OK() {
			l.alive = append(l.alive, r.UID)
			l.n.See(Sighting{UID: r.UID, Request: r})
		}
	}
	l.n.Accept(l.k.report())
}

// dismiss deletes a pod. The scheduler learns about this deletion.
func (l *leaving) dismiss() {
	if len(l.alive) == 0 {
		return
	}
	uid := l.alive[0]
	l.alive = l.alive[1:]
	l.left[uid] = l.rng.IntN(4)
	l.n.See(Sighting{UID: uid, Request: l.requests[uid], Phase: Ending})
}

func (l *leaving) place() {
	for range 5 {
		r := l.request()
		var d placement.Decision
		l.second++
		if a := l.n.Reserve(&Candidate{Request: r, Created: l.second}, &d); !a.OK() {
			continue
		}
		if p, err := l.n.Post(r.UID, &d); err == nil && p.Answer.OK() {
			l.promised[r.UID] = Promise{Decision: d.Clone(), Exact: p.Answer.Exact}
			l.coming = append(l.coming, r.UID)
		}
	}
}

func (l *leaving) admit() {
	for i := 0; i < len(l.coming); i++ {
		uid := l.coming[i]
		var meanwhile []placement.Meanwhile
		for _, gone := range slices.Sorted(maps.Keys(l.left)) {
			if l.left[gone] == i {
				meanwhile = append(meanwhile, placement.Meanwhile{Step: l.rng.IntN(l.k.m.Steps(l.requests[uid])), UID: gone})
			}
		}
		if i == 0 && l.rng.IntN(2) == 0 {
			l.reportAmid(meanwhile)
		}
		story := fmt.Sprintf("seed %d: %s behind %v while %v", l.seed, uid, l.coming[:i], meanwhile)
		v := l.k.admitAmid(l.requests[uid], meanwhile)
		if !v.OK() {
			l.t.Fatalf("%s: the kubelet refuses a pod whose admission was promised: %+v", story, v)
		}
		promise, found := l.promised[uid], l.k.found[uid]
		if promise.Exact && !Same(&promise.Decision, &found) {
			l.t.Fatalf("%s: promised %+v, found %+v", story, promise.Decision, found)
		}
	}
}

// reportAmid makes reports after the admission has begun and these pods have ended. From report to
// report, the kubelet has released the resources of more of them.
func (l *leaving) reportAmid(meanwhile []placement.Meanwhile) {
	over, books := map[string]Fate{}, l.k.State.Clone()
	for _, m := range meanwhile {
		over[m.UID] = Over
		l.n.Gone(m.UID, l.now)
	}
	for range 1 + l.rng.IntN(2) {
		for _, m := range meanwhile {
			if l.rng.IntN(2) == 0 {
				books.Release(m.UID)
				delete(over, m.UID)
			}
		}
		l.k.seq++
		snap := books.Snapshot()
		r, err := NewReport(l.k.seq, l.k.m, &snap, over)
		if err != nil {
			l.t.Fatal(err)
		}
		l.n.Accept(r)
		check(l.t, l.n)
		l.place()
	}
}

// BenchmarkLeavingAmid measures the cost of recording a bound pod while two others leave, on which
// its CPUs depend.
func BenchmarkLeavingAmid(b *testing.B) {
	k := newKubelet(b, model(b, twoSockets, pinning))
	for i := range 3 {
		k.must(cpus(fmt.Sprint("old", i), 4))
	}
	report, rng := k.report(), rand.New(rand.NewPCG(1, 1))
	l := new(Ledger)
	for b.Loop() {
		n := l.Open(nil)
		n.Accept(report)
		for i := range 2 {
			uid := fmt.Sprint("old", i)
			n.See(Sighting{UID: uid, Request: cpus(uid, 4), Phase: Ending})
		}
		var d placement.Decision
		for i := range 2 {
			r := cpus(fmt.Sprint("new", i, rng.IntN(9)), 1)
			if a := n.Reserve(cand(r), &d); a.OK() {
				n.Post(r.UID, &d)
			}
		}
		n.View().Ask(Question{Candidate: cand(cpus("x", 1))})
	}
}
