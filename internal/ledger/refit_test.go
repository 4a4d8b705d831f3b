package ledger

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// resizable is a node on which Berth decides, and the decisions that its agent carries out. It has
// one NUMA node with CPUs 1 to 5 for pods.
type resizable struct {
	t   *testing.T
	m   *placement.Model
	n   *Node
	seq int64
	// api has the newest decision about each pod, carried the decision that its agent carries out.
	api, carried map[string]generationed
}

type generationed struct {
	generation uint64
	d          placement.Decision
	asks       *placement.Request
}

func (g generationed) held() placement.PodAllocation { return *g.d.Held() }

func newResizable(t *testing.T) *resizable {
	r := &resizable{t: t, m: model(t, "package:1 numa:1 core:6 pu:1 mem:8Gi", obeying), n: new(Ledger).Open(nil), api: map[string]generationed{}, carried: map[string]generationed{}}
	r.report()
	return r
}

// report gives the ledger a report of the decisions that the agent carries out, or of found
// instead.
func (r *resizable) report(found ...placement.PodAllocation) {
	r.t.Helper()
	r.seq++
	var snap placement.Snapshot
	for _, uid := range slices.Sorted(maps.Keys(r.carried)) {
		p := r.carried[uid].held()
		if r.carried[uid].generation > 1 {
			p.Generation = r.carried[uid].generation
		}
		if at := slices.IndexFunc(found, func(f placement.PodAllocation) bool { return f.UID == uid }); at >= 0 {
			p = found[at]
		}
		snap.Pods = append(snap.Pods, p)
	}
	report, err := NewReport(r.seq, r.m, &snap, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.n.Accept(report)
}

// bind places a pod and makes it run.
func (r *resizable) bind(uid string, n int64) {
	r.t.Helper()
	var d placement.Decision
	asks := cpus(uid, n)
	if a := r.n.Reserve(cand(asks), &d); !a.OK() {
		r.t.Fatalf("%s: %+v", uid, a)
	}
	post(r.t, r.n, uid)
	r.api[uid] = generationed{1, d.Clone(), asks}
	r.carried[uid] = r.api[uid]
	r.see(uid)
}

// see shows the pod as it is in the API.
func (r *resizable) see(uid string) {
	g := r.api[uid]
	r.n.See(Sighting{UID: uid, Request: g.asks, Created: 1, Turn: 1, Promise: &Promise{Decision: g.d, Exact: true}, Generation: g.generation})
}

// refit requests n CPUs, and returns the decision.
func (r *resizable) refit(uid string, n int64, want RefitOutcome) placement.Decision {
	r.t.Helper()
	var d placement.Decision
	got := r.n.Refit(cpus(uid, n), &d)
	if got.Outcome != want {
		r.t.Fatalf("%s to %d CPUs: %+v, want %d", uid, n, got, want)
	}
	check(r.t, r.n)
	return d
}

// write stores the decision in the API, and tells the ledger if tell is true.
func (r *resizable) write(uid string, n int64, d *placement.Decision, tell bool) {
	r.api[uid] = generationed{r.api[uid].generation + 1, d.Clone(), cpus(uid, n)}
	if tell {
		r.n.Refitted(uid)
	}
}

func (r *resizable) free(when string, want int64) {
	r.t.Helper()
	for n := int64(6); n >= 1; n-- {
		if a := r.n.View().Ask(Question{Candidate: cand(cpus("probe", n))}); a.OK() {
			if n != want {
				r.t.Errorf("%s: %d CPUs are free, want %d", when, n, want)
			}
			return
		}
	}
	if want != 0 {
		r.t.Errorf("%s: no CPU is free, want %d", when, want)
	}
}

func TestAPodGrows(t *testing.T) {
	r := newResizable(t)
	r.bind("a", 2)
	r.refit("a", 3, RefitWaits) // no report lists it
	r.report()
	r.refit("a", 2, RefitSame)
	r.refit("a", 6, RefitRefused)
	d := r.refit("a", 4, RefitDecided)
	r.free("while it is written", 1)
	r.refit("a", 3, RefitWaits)
	r.n.NotRefitted("a")
	r.free("it was not written", 3)
	d = r.refit("a", 4, RefitDecided)
	r.write("a", 4, &d, true)
	r.free("written", 1)
	r.report()
	r.refit("a", 5, RefitWaits) // the agent does not know the decision
	r.carried["a"] = r.api["a"]
	r.report()
	r.free("carried out", 1)
	r.refit("a", 5, RefitDecided)
}

func TestAPodShrinks(t *testing.T) {
	r := newResizable(t)
	r.bind("a", 4)
	r.report()
	d := r.refit("a", 1, RefitDecided)
	r.free("while it is written", 1)
	r.write("a", 1, &d, true)
	r.free("before the report", 1)
	r.report()
	r.free("the report is older", 1)
	late := r.carried["a"].held()
	late.Generation = 2
	r.carried["a"] = r.api["a"]
	r.report(late)
	r.free("the agent knows, and it has not moved", 1)
	more := *d.Held()
	more.Generation, more.Containers = 2, slices.Clone(more.Containers)
	more.Containers[0].Memory = []placement.MemoryBlock{{Resource: "memory", NUMA: 1, Bytes: 7 << 30}}
	r.report(more)
	big := cpus("big", 1)
	big.Containers[0].Memory = []placement.MemoryRequest{{Resource: "memory", Bytes: 2 << 30}}
	wantOutcome(t, "its memory limit is still high", r.n.View().Ask(Question{Candidate: cand(big)}), Refused)
	r.report()
	r.free("moved", 4)
	wantOutcome(t, "its memory limit is low", r.n.View().Ask(Question{Candidate: cand(big)}), Admitted)
}

// TestAResizeInDoubt: until the API shows which decision it has, both decisions count. A new
// scheduler counts the newest decision and the resources in the report. An older decision changes
// nothing.
func TestAResizeInDoubt(t *testing.T) {
	r := newResizable(t)
	r.bind("a", 2)
	r.report()
	first := r.api["a"]
	d := r.refit("a", 4, RefitDecided)
	r.see("a") // another field has changed
	r.free("in doubt", 1)
	r.write("a", 4, &d, false)
	r.see("a")
	r.free("shown", 1)
	r.carried["a"] = r.api["a"]
	r.report()
	d = r.refit("a", 1, RefitDecided)
	r.write("a", 1, &d, false)

	again := new(Ledger).Open(nil)
	old := r.n
	r.n = again
	r.report()
	r.see("a")
	r.free("a new scheduler, an old report", 1)
	r.carried["a"] = r.api["a"]
	r.report()
	r.free("a new scheduler", 4)
	newest := r.api["a"]
	r.api["a"] = first
	r.see("a")
	r.free("an older decision", 4)
	r.n, r.api["a"] = old, newest
	if r.n.Glance(Glimpse{UID: "a", Generation: 3, Asks: asksTheSame}) {
		t.Error("a glance takes the decision for one that is known")
	}
	r.see("a")
	if !r.n.Glance(Glimpse{UID: "a", Generation: 3, Asks: asksTheSame}) {
		t.Error("a glance does not know the decision")
	}
	r.report()
	r.free("the old scheduler", 4)
}

// TestRefitHistories: whatever happens to decisions, no other pod gets a CPU on which a pod may
// run.
func TestRefitHistories(t *testing.T) {
	grown, shrunk := 0, 0
	for seed := range uint64(*runs) {
		rng := rand.New(rand.NewPCG(seed, 62))
		r := newResizable(t)
		r.bind("a", 1+rng.Int64N(3))
		r.bind("b", 1)
		r.report()
		doubt := map[string]bool{}
		for range 150 {
			uid := []string{"a", "b"}[rng.IntN(2)]
			switch rng.IntN(7) {
			case 0, 1:
				var d placement.Decision
				n := 1 + rng.Int64N(5)
				if r.n.Refit(cpus(uid, n), &d).Outcome != RefitDecided {
					break
				}
				switch had := r.api[uid].d.Containers[0].CPUs; rng.IntN(3) {
				case 0:
					r.n.NotRefitted(uid)
				default:
					if d.Containers[0].CPUs.Len() > had.Len() {
						grown++
					} else {
						shrunk++
					}
					told := rng.IntN(2) == 0
					r.write(uid, n, &d, told)
					doubt[uid] = !told
				}
			case 2:
				r.see(uid)
			case 3:
				r.carried[uid] = r.api[uid]
			case 4:
				r.report()
			case 5: // the agent knows the decision, but has not moved the container
				late := r.carried[uid].held()
				r.carried[uid] = r.api[uid]
				late.Generation = r.api[uid].generation
				for i, c := range r.carried[uid].d.Containers {
					late.Containers[i].CPUs = late.Containers[i].CPUs.Or(&c.CPUs)
				}
				r.report(late)
			case 6:
				if rng.IntN(5) == 0 {
					r.n = new(Ledger).Open(nil)
					r.report()
					r.see("a")
					r.see("b")
				}
			}
			r.apart(fmt.Sprintf("seed %d", seed))
		}
	}
	if grown < 20 || shrunk < 20 {
		t.Errorf("grown %d, shrunk %d: the test sees too little", grown, shrunk)
	}
}

// apart fails if two pods may run on one CPU, or if the ledger would give a pod's CPU to another
// pod.
func (r *resizable) apart(when string) {
	r.t.Helper()
	check(r.t, r.n)
	var all topology.CPUSet
	for _, uid := range []string{"a", "b"} {
		may := r.api[uid].d.Containers[0].CPUs
		may = may.Or(&r.carried[uid].d.Containers[0].CPUs)
		if both := may.And(&all); !both.IsEmpty() {
			r.t.Fatalf("%s: both may run on CPUs %s", when, both)
		}
		all = all.Or(&may)
	}
	snap, ok := r.n.View().Snapshot()
	if !ok {
		r.t.Fatal("no state")
	}
	if left := snap.SharedCPUs.And(&all); !left.IsEmpty() {
		r.t.Fatalf("%s: CPUs %s are free, and a pod may run there", when, left)
	}
}
