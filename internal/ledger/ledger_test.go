package ledger

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/sim"
	"github.com/berth-dev/berth/topology/shapes"
)

const twoSockets = "package:2 numa:1 core:4 pu:2 mem:16Gi dist:10,21"

// pinning is the configuration of a kubelet that pins CPUs, with the policy single-numa-node.
var pinning = placement.Config{
	CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "single-numa-node",
}

// endingIf returns the phase of a bound pod.
func endingIf(ending bool) Phase {
	if ending {
		return Ending
	}
	return Bound
}

func model(t testing.TB, machine string, cfg placement.Config) *placement.Model {
	t.Helper()
	mach := shapes.Machine(machine)
	view, err := placement.ViewOf(mach)
	if err != nil {
		t.Fatal(err)
	}
	m, err := placement.NewModel(view, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func cpus(uid string, n int64) *placement.Request {
	return &placement.Request{UID: uid, Guaranteed: true, Containers: []placement.ContainerRequest{{
		Name: "c", MilliCPU: n * 1000, Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: 1 << 20}},
	}}}
}

// seconds numbers candidates, so that each is created later than the previous one.
var seconds int64

func cand(r *placement.Request) *Candidate {
	seconds++
	return &Candidate{Request: r, Created: seconds}
}

// kubelet is the real state of a node, which the scheduler does not see.
type kubelet struct {
	*sim.Kubelet
	t     testing.TB
	m     *placement.Model
	seq   int64
	found map[string]placement.Decision // decisions of all pods, including those that are gone
}

func newKubelet(t testing.TB, m *placement.Model) *kubelet {
	return &kubelet{Kubelet: sim.NewKubelet(m), t: t, m: m, found: map[string]placement.Decision{}}
}

func (k *kubelet) admit(r *placement.Request) placement.Verdict { return k.admitAmid(r, nil) }

// admitAmid does the same as admit while other pods end.
func (k *kubelet) admitAmid(r *placement.Request, meanwhile []placement.Meanwhile) placement.Verdict {
	a := k.AdmitAmid(r, meanwhile)
	if a.Verdict.OK() {
		k.found[r.UID] = a.Decision
	}
	return a.Verdict
}

// fates returns a report's data about pods that have ended.
func (k *kubelet) fates() map[string]Fate {
	over := map[string]Fate{}
	for uid := range k.found {
		if k.Ended(uid) {
			over[uid] = Over
		}
	}
	return over
}

func (k *kubelet) report() *Report {
	k.t.Helper()
	k.seq++
	snap := k.State.Snapshot()
	r, err := NewReport(k.seq, k.m, &snap, k.fates())
	if err != nil {
		k.t.Fatal(err)
	}
	return r
}

func (k *kubelet) must(r *placement.Request) {
	k.t.Helper()
	if v := k.admit(r); !v.OK() {
		k.t.Fatalf("%s: %v", r.UID, v)
	}
}

func reserve(t *testing.T, n *Node, r *placement.Request) Answer {
	t.Helper()
	var d placement.Decision
	a := n.Reserve(cand(r), &d)
	check(t, n)
	return a
}

func post(t *testing.T, n *Node, uid string) (Posting, placement.Decision) {
	t.Helper()
	var d placement.Decision
	p, err := n.Post(uid, &d)
	if err != nil {
		t.Fatal(err)
	}
	check(t, n)
	return p, d.Clone()
}

func check(t testing.TB, n *Node) {
	t.Helper()
	if err := n.View().Check(); err != nil {
		t.Fatal(err)
	}
}

func wantOutcome(t *testing.T, what string, got Answer, want Outcome) {
	t.Helper()
	if got.Outcome != want {
		t.Fatalf("%s: %v (%v), want %v", what, got.Outcome, got.Verdict, want)
	}
}

func open(t *testing.T, k *kubelet) *Node {
	n := new(Ledger).Open(nil)
	n.Accept(k.report())
	check(t, n)
	return n
}

func TestNothingIsKnownWithoutAReport(t *testing.T) {
	n := new(Ledger).Open(nil)
	wantOutcome(t, "Admit", n.View().Ask(Question{Candidate: cand(cpus("a", 1))}), Unreported)
	wantOutcome(t, "Reserve", reserve(t, n, cpus("a", 1)), Unreported)
}

func TestPodsInFlightAreCounted(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	inFlight := func(want int) {
		t.Helper()
		if got := n.outlook.changes.InFlight(); got != want {
			t.Errorf("%d pods are in flight, want %d", got, want)
		}
	}
	for i, want := range []Outcome{Admitted, Admitted, Refused} { // 7 and 8 CPUs are free
		wantOutcome(t, fmt.Sprint("pod ", i), reserve(t, n, cpus(fmt.Sprint("p", i), 6)), want)
		inFlight(min(i+1, 2))
	}
	n.Forget("p0")
	wantOutcome(t, "after Forget", n.View().Ask(Question{Candidate: cand(cpus("x", 6))}), Admitted)
	inFlight(1)
	n.Forget("p0")
	check(t, n)
}

func TestAPromiseIsKept(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	a, b := cpus("a", 4), cpus("b", 4)
	reserve(t, n, a)
	reserve(t, n, b)
	// b is ready first. The decision about it is made again, with no pod before it.
	pb, db := post(t, n, "b")
	// a is older. If the kubelet learns about both at once, it admits a first, and b would not get
	// the promised CPUs.
	if pa, _ := post(t, n, "a"); pa.Answer.Outcome != Waiting || !pb.Answer.Exact {
		t.Fatalf("postings %+v, %+v", pb, pa)
	}
	k.must(b)
	if outcomes := n.Accept(k.report()); len(outcomes) != 1 || !outcomes[0].Kept {
		t.Fatalf("outcomes %+v", outcomes)
	}
	pa, da := post(t, n, "a")
	if pb.Turn >= pa.Turn || !pa.Answer.Exact {
		t.Fatalf("postings %+v, %+v", pb, pa)
	}
	k.must(a)
	if outcomes := n.Accept(k.report()); len(outcomes) != 1 || !outcomes[0].Kept {
		t.Fatalf("outcomes %+v", outcomes)
	}
	check(t, n)
	for uid, d := range map[string]placement.Decision{"a": da, "b": db} {
		if f := k.found[uid]; !Same(&d, &f) {
			t.Errorf("%s: promised %+v, found %+v", uid, d, f)
		}
	}
}

// TestEstimate: Sample answers for the order of Reserve until Ask has tried the other orders. Such
// an estimate can only be an admission.
func TestEstimate(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	before := cand(nil).Created
	reserve(t, n, cpus("b", 4)) // on one socket; 3 and 4 CPUs are left
	post(t, n, "b")
	ask := func(r *placement.Request, shape Shape) (Answer, bool) {
		c := &Candidate{Request: r, Shape: shape, Created: before}
		s := n.View().Sample(Question{Candidate: c, Estimate: true})
		if s.Lasts && s.Estimated {
			t.Fatal("an estimate lasts")
		}
		if full := n.View().Ask(Question{Candidate: c}); !s.Estimated && s.Answer != full {
			t.Fatalf("%+v is sure, and Ask says %+v", s.Answer, full)
		}
		return s.Answer, !s.Estimated
	}
	a := cpus("a", 4) // if it were admitted first, b would not get what it was promised
	if got, sure := ask(a, 1); sure || got.Outcome != Admitted || got.Certain || got.Exact {
		t.Errorf("%+v, sure %t: want an estimate", got, sure)
	}
	if got, sure := ask(a, 1); !sure || got.Outcome != Waiting {
		t.Errorf("%+v, sure %t: want what Admit has found out", got, sure)
	}
	if got, sure := ask(cpus("c", 14), 2); !sure || got.Outcome == Admitted {
		t.Errorf("%+v, sure %t: want a refusal to be sure", got, sure)
	}
	k.must(cpus("b", 4))
	n.Accept(k.report())
	if got, sure := ask(a, 1); !sure || got.Outcome != Admitted {
		t.Errorf("%+v, sure %t: want an admission that is sure with nothing in flight", got, sure)
	}
}

func TestOrderOfLanding(t *testing.T) {
	at := func(seconds ...int64) (flight []*pod) {
		for i, s := range seconds {
			flight = append(flight, &pod{uid: string(rune('a' + i)), created: s})
		}
		return flight
	}
	same := func(a, b *pod) bool { return a == b }
	for _, c := range []struct {
		flight []*pod
		want   string // in the order of the search; "" if there are too many
	}{
		{at(), "."}, {at(5), "a"}, {at(1, 2, 3), "abc"}, {at(1, 1), "ab ba"}, {at(2, 1), "ab ba"},
		{at(1, 3, 2), "abc acb"}, {at(3, 2, 1), "abc cba acb"}, {at(1, 1, 2), "abc bac"},
		{at(1, 1, 1, 1, 1), ""},
	} {
		got := ""
		for i, order := range arrivalOrders(c.flight, same) {
			if i > 0 {
				got += " "
			}
			for _, p := range order {
				got += p.uid
			}
			if len(order) == 0 {
				got = "."
			}
		}
		if got != c.want {
			t.Errorf("%d pods: %q, want %q", len(c.flight), got, c.want)
		}
	}
}

func TestAPodThatEndsMakesOthersWait(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	big := cpus("big", 7)
	k.must(big)
	n := open(t, k)
	n.See(Sighting{UID: "big", Request: big})
	k.must(cpus("other", 8))
	n.See(Sighting{UID: "other", Request: cpus("other", 8)})
	n.Accept(k.report())
	wantOutcome(t, "full", n.View().Ask(Question{Candidate: cand(cpus("x", 6))}), Refused)
	n.See(Sighting{UID: "big", Request: big, Phase: Ending})
	wantOutcome(t, "while big ends", n.View().Ask(Question{Candidate: cand(cpus("x", 6))}), Waiting)
	n.Gone("big", time.Time{})
	wantOutcome(t, "big is gone from the API", n.View().Ask(Question{Candidate: cand(cpus("x", 6))}), Waiting)
	k.End("big")
	n.Accept(k.report())
	wantOutcome(t, "the report says that it has ended", n.View().Ask(Question{Candidate: cand(cpus("x", 6))}), Admitted)
	check(t, n)
}

func TestAnEndingPodTakesExactnessOnly(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	k.must(cpus("a", 2))
	n := open(t, k)
	n.See(Sighting{UID: "a", Request: cpus("a", 2), Phase: Ending})
	var d placement.Decision
	a := n.Reserve(cand(cpus("x", 2)), &d)
	if !a.OK() || a.Exact {
		t.Fatalf("%+v: want admitted, not exact", a)
	}
}

// TestAPodOfOursCanEndByItself: if a pod that this scheduler has placed can end at any moment,
// later pods have no certain CPUs, whether the API has shown the pod or not.
func TestAPodOfOursCanEndByItself(t *testing.T) {
	for _, mortal := range []bool{false, true} {
		k := newKubelet(t, model(t, twoSockets, pinning))
		n := open(t, k)
		first := cand(cpus("first", 2))
		first.Mortal = mortal
		var d placement.Decision
		n.Reserve(first, &d)
		post(t, n, "first")
		n.Glance(Glimpse{UID: "first", Ending: false, Mortal: mortal, Asks: asksTheSame}) // as the feed does before it reads a pod
		k.must(cpus("first", 2))
		n.Accept(k.report())
		reserve(t, n, cpus("second", 2))
		if p, _ := post(t, n, "second"); p.Answer.Exact == mortal {
			t.Errorf("the one before can end by itself: %v; exact: %v", mortal, p.Answer.Exact)
		}
	}
}

// TestAPodOfOthersIsNobodysMistake: another scheduler's pod takes promised CPUs, and the scheduler
// learns about that pod in different ways.
func TestAPodOfOthersIsNobodysMistake(t *testing.T) {
	foreign := Sighting{UID: "foreign", Request: cpus("foreign", 2)}
	for _, tc := range []struct {
		name          string
		before, after func(n *Node, k *kubelet) // the kubelet admits our pod
		want          bool
	}{
		{"there is none", nil, nil, false},
		{"from the pod itself", func(n *Node, k *kubelet) { k.must(foreign.Request); n.See(foreign) }, nil, true},
		{"from the report that has both", func(_ *Node, k *kubelet) { k.must(foreign.Request) }, nil, true},
		{"from the report before", func(n *Node, k *kubelet) { k.must(foreign.Request); n.Accept(k.report()); n.See(foreign) }, nil, true},
		{"from the pod, which has left again", func(n *Node, k *kubelet) { k.must(foreign.Request); n.See(foreign) },
			func(n *Node, k *kubelet) {
				k.End("foreign")
				n.Gone("foreign", time.Time{})
				n.ForgetGone(time.Unix(9, 0), time.Second)
			}, true},
	} {
		k := newKubelet(t, model(t, twoSockets, pinning))
		n := open(t, k)
		reserve(t, n, cpus("ours", 2))
		post(t, n, "ours")
		if tc.before != nil {
			tc.before(n, k)
		}
		k.must(cpus("ours", 2))
		if tc.after != nil {
			tc.after(n, k)
		}
		l := n.Accept(k.report())
		if len(l) != 1 || l[0].Contended != tc.want || l[0].Kept == tc.want {
			t.Errorf("%s: %+v, want contended and not kept: %v", tc.name, l, tc.want)
		}
		check(t, n)
	}
}

// TestWhatHoldsNothingIsJudgedLater: a pod that was deleted before its kubelet saw it is admitted
// and released at once. The report may arrive before the deletion.
func TestWhatHoldsNothingIsJudgedLater(t *testing.T) {
	for _, deleted := range []bool{true, false} {
		k := newKubelet(t, model(t, twoSockets, pinning))
		n := open(t, k)
		reserve(t, n, cpus("a", 2))
		post(t, n, "a")
		n.See(Sighting{UID: "a", Request: cpus("a", 2), Turn: 1})
		for i := range 3 {
			k.seq++
			snap := k.State.Snapshot()
			snap.Pods = append(snap.Pods, placement.PodAllocation{UID: "a"})
			r, err := NewReport(k.seq, k.m, &snap, nil)
			if err != nil {
				t.Fatal(err)
			}
			l := n.Accept(r)
			if told := len(l) == 1 && !l[0].Kept; told != (i == 1 && !deleted) {
				t.Errorf("deleted %v, report %d: %+v", deleted, i, l)
			}
			if deleted {
				n.See(Sighting{UID: "a", Request: cpus("a", 2), Phase: Ending})
			}
			check(t, n)
		}
	}
}

// TestWhatMayHaveEndedIsNotJudged: a pod of a Job ends while its kubelet cannot reach the API. It
// had its CPUs and has released them, and the API does not show its end. Reports list it without
// resources until it is deleted. It is judged only if a report lists it with resources.
func TestWhatMayHaveEndedIsNotJudged(t *testing.T) {
	for _, kept := range []bool{true, false} {
		k := newKubelet(t, model(t, twoSockets, pinning))
		n := open(t, k)
		reserve(t, n, cpus("a", 2))
		_, d := post(t, n, "a")
		n.See(Sighting{UID: "a", Request: cpus("a", 2), Turn: 1, Mortal: true})
		for range 3 {
			k.seq++
			snap := k.State.Snapshot()
			snap.Pods = append(snap.Pods, placement.PodAllocation{UID: "a"})
			r, err := NewReport(k.seq, k.m, &snap, nil)
			if err != nil {
				t.Fatal(err)
			}
			if l := n.Accept(r); len(l) > 0 {
				t.Fatalf("a pod that may have ended is judged: %+v", l)
			}
			check(t, n)
		}
		found := d.Containers[0].CPUs.String()
		if !kept {
			found = "14-15"
		}
		if l := n.Accept(k.listing("a", found)); len(l) != 1 || l[0].Kept != kept {
			t.Errorf("with CPUs %s: %+v, want kept: %t", found, l, kept)
		}
	}
}

// TestTheFirstReportTellsNothing: a scheduler that has just started does not know which pods were
// admitted in between.
func TestTheFirstReportTellsNothing(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	before := open(t, k)
	reserve(t, before, cpus("a", 2))
	_, d := post(t, before, "a")
	k.must(cpus("foreign", 2))
	k.must(cpus("a", 2))
	after := new(Ledger).Open(nil)
	after.See(Sighting{UID: "a", Request: cpus("a", 2), Turn: 1, Promise: &Promise{Decision: d, Exact: true}})
	after.See(Sighting{UID: "foreign", Request: cpus("foreign", 2)})
	if l := after.Accept(k.report()); len(l) > 0 {
		t.Errorf("told %+v", l)
	}
	check(t, after)
}

// TestAReportIsWithdrawnBeforePost: without a report, a reserved pod is not posted.
func TestAReportIsWithdrawnBeforePost(t *testing.T) {
	n := open(t, newKubelet(t, model(t, twoSockets, pinning)))
	reserve(t, n, cpus("a", 2))
	n.Withdraw()
	if p, _ := post(t, n, "a"); p.Answer.OK() {
		t.Errorf("posted: %+v", p)
	}
}

func TestTooManyPossibilitiesWait(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	for i := range maxEvents + 1 {
		r := cpus(fmt.Sprint("p", i), 1)
		k.must(r)
		n.See(Sighting{UID: r.UID, Request: r, Phase: Ending})
	}
	n.Accept(k.report())
	wantOutcome(t, "Admit", n.View().Ask(Question{Candidate: cand(cpus("x", 1))}), Waiting)
	check(t, n)
}

func TestAnUnknownOutcomeIsKeptInMind(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	now := time.Unix(100, 0)
	reserve(t, n, cpus("a", 8))
	reserve(t, n, cpus("b", 7))
	post(t, n, "a")
	n.Doubt("a", now)
	n.Forget("a") // Unreserve follows a failed Bind
	n.Forget("b")
	check(t, n)
	wantOutcome(t, "it may have been written", n.View().Ask(Question{Candidate: cand(cpus("x", 8))}), Waiting)
	n.ForgetGone(now.Add(time.Second), 5*time.Second)
	wantOutcome(t, "too early", n.View().Ask(Question{Candidate: cand(cpus("x", 8))}), Waiting)
	n.ForgetGone(now.Add(6*time.Second), 5*time.Second)
	wantOutcome(t, "it was not", n.View().Ask(Question{Candidate: cand(cpus("x", 8))}), Admitted)
	check(t, n)
}

func TestARestartRebuildsTheOrder(t *testing.T) {
	m := model(t, twoSockets, pinning)
	k := newKubelet(t, m)
	before := open(t, k)
	created := map[string]int64{}
	for _, uid := range []string{"a", "b", "c"} {
		reserve(t, before, cpus(uid, 3))
		created[uid] = seconds
		post(t, before, uid)
	}
	after := new(Ledger).Open(nil)
	for i, uid := range []string{"c", "a", "b"} { // in an order that a list may have
		after.See(Sighting{UID: uid, Request: cpus(uid, 3), Created: created[uid], Turn: []int64{3, 1, 2}[i]})
	}
	after.Accept(before.View().Report())
	check(t, after)
	if err := sameWorlds(before.outlook.afterReserved(), after.outlook.afterReserved()); err != nil {
		t.Fatal(err)
	}
	reserve(t, after, cpus("d", 2))
	if p, _ := post(t, after, "d"); p.Turn != 4 || p.Report != before.View().Report().Sequence {
		t.Fatalf("turn %d on report %d, want 4 on %d", p.Turn, p.Report, before.View().Report().Sequence)
	}
}

// TestWhatIsInheritedIsWaitedFor: pods that were bound before an inherited pod may have left, and a
// scheduler that has just started does not know them.
func TestWhatIsInheritedIsWaitedFor(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := new(Ledger).Open(nil)
	n.See(Sighting{UID: "a", Request: cpus("a", 2), Created: 1, Turn: 2, Inherited: true})
	n.Accept(k.report())
	check(t, n)
	x := &Candidate{Request: cpus("x", 2), Created: 2}
	wantOutcome(t, "where a lands is not known", n.View().Ask(Question{Candidate: x}), Waiting)
	k.must(cpus("a", 2))
	n.Accept(k.report())
	check(t, n)
	wantOutcome(t, "a has landed", n.View().Ask(Question{Candidate: x}), Admitted)
}

func TestTrialsChangeNothing(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	k.must(cpus("a", 7))
	k.must(cpus("b", 8))
	n := open(t, k)
	n.See(Sighting{UID: "a", Request: cpus("a", 7)})
	n.See(Sighting{UID: "b", Request: cpus("b", 8)})
	for _, c := range []struct {
		trial Trial
		asked int64
		want  Outcome
	}{
		{Trial{}, 1, Refused},
		{Trial{Without: []string{"a"}}, 7, Admitted},
		{Trial{Without: []string{"a"}}, 8, Refused},
		{Trial{Without: []string{"a", "b"}}, 8, Admitted},
		{Trial{Without: []string{"a"}, With: []*placement.Request{cpus("nominated", 7)}}, 1, Refused},
		{Trial{Without: []string{"a"}, With: []*placement.Request{cpus("nominated", 6)}}, 1, Admitted},
		{Trial{With: []*placement.Request{cpus("nominated", 6)}}, 1, Refused},
	} {
		wantOutcome(t, fmt.Sprintf("%+v", c.trial), n.View().Ask(Question{Candidate: cand(cpus("x", c.asked)), Trial: &c.trial}), c.want)
		check(t, n)
	}
	wantOutcome(t, "afterwards", n.View().Ask(Question{Candidate: cand(cpus("x", 1))}), Refused)
}

// TestNobodyIsEvictedForWhatIsLeavingAnyway: a pod that was deleted from the API still has its
// CPUs. The search for victims counts these CPUs as free.
func TestNobodyIsEvictedForWhatIsLeavingAnyway(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	for _, r := range []*placement.Request{cpus("a", 4), cpus("b", 3), cpus("c", 4), cpus("d", 4)} { // NUMA 0: a, b; NUMA 1: c, d
		k.must(r)
	}
	n := open(t, k)
	for _, r := range []*placement.Request{cpus("a", 4), cpus("b", 3), cpus("c", 4), cpus("d", 4)} {
		n.See(Sighting{UID: r.UID, Request: r})
	}
	high := cand(cpus("high", 8))
	wantOutcome(t, "c is there", n.View().Ask(Question{Candidate: high, Trial: &Trial{Without: []string{"d"}}}), Refused)
	n.Gone("c", time.Time{})
	wantOutcome(t, "c is leaving", n.View().Ask(Question{Candidate: high, Trial: &Trial{Without: []string{"d"}}}), Admitted)
	wantOutcome(t, "d stays", n.View().Ask(Question{Candidate: high, Trial: &Trial{Without: []string{"a", "b"}}}), Refused)
	wantOutcome(t, "nobody evicted", n.View().Ask(Question{Candidate: high}), Refused)
	wantOutcome(t, "c still holds its CPUs", n.View().Ask(Question{Candidate: cand(cpus("x", 4))}), Waiting)
	check(t, n)
}

func TestShapes(t *testing.T) {
	var l Ledger
	a, b, c := l.Shape(cpus("a", 1)), l.Shape(cpus("b", 1)), l.Shape(cpus("a", 2))
	if a != b || a == c || a == 0 {
		t.Fatalf("shapes %d, %d, %d", a, b, c)
	}
	near := cpus("d", 1)
	near.Rules.Claimed = &placement.Claimed{Requests: []placement.ClaimRequest{{Users: []string{"c"}, N: 1}}}
	if d := l.Shape(near); d == a {
		t.Errorf("near devices: shape %d, as without", d)
	}
}

// TestShapesKnowEveryField fails when a request gets a field that requestKey does not write.
func TestShapesKnowEveryField(t *testing.T) {
	for typ, want := range map[reflect.Type]int{
		reflect.TypeFor[placement.Request](): 7, reflect.TypeFor[placement.Rules](): 12, reflect.TypeFor[placement.DeviceRules](): 6, reflect.TypeFor[placement.ContainerRequest](): 6,
		reflect.TypeFor[placement.LevelRequest]():  3,
		reflect.TypeFor[placement.MemoryRequest](): 3, reflect.TypeFor[placement.DeviceRequest](): 3,
	} {
		if typ.NumField() != want {
			t.Errorf("%v has %d fields, requestKey was written for %d", typ, typ.NumField(), want)
		}
	}
}

func BenchmarkAdmitRepeated(b *testing.B) {
	k := newKubelet(b, model(b, twoSockets, pinning))
	l := new(Ledger)
	n := l.Open(nil)
	n.Accept(k.report())
	r := cpus("x", 4)
	c := &Candidate{Request: r, Shape: l.Shape(r)}
	for b.Loop() {
		if a := n.View().Ask(Question{Candidate: c}); !a.OK() {
			b.Fatal(a)
		}
	}
}
