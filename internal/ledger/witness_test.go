package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/placement"
)

// bystander is a history in which other schedulers bind all pods, and the ledger only observes.
type bystander struct {
	*history
	results map[Result]int
	waits   int
	// written is the length of the log when each report in flight was written. newest is the length
	// for the last report that was delivered.
	written []int
	newest  int
	// late are statuses that the kubelet has not written yet. foreseen counts the expectations that
	// came with a report.
	late     []write
	foreseen int
}

// status makes the kubelet write a pod's status later. Other statuses may be written before it.
func (b *bystander) status(verb, uid string) { b.late = append(b.late, write{verb, uid}) }

func (b *bystander) writeStatus() {
	if len(b.late) > 0 {
		at := b.rng.IntN(len(b.late))
		b.log = append(b.log, b.late[at])
		b.late = slices.Delete(b.late, at, at+1)
	}
}

// settle records outcomes. No expectation may turn out wrong.
func (b *bystander) settle(outcomes ...*PromiseOutcome) {
	for _, o := range outcomes {
		if o == nil {
			continue
		}
		result := o.Result()
		b.results[result]++
		if !slices.Contains([]Result{ResultKept, ResultForetold, ResultContended, ResultEither}, result) {
			b.fail("%s: %s: %+v", o.UID, result, o)
		}
	}
}

// bind binds a pod, unless so many pods are in flight that there would be no expectation.
func (b *bystander) bind() {
	if census := b.n.View().Census(); census.InFlight()+census.Ending < 4 {
		b.log = append(b.log, write{"bind", b.request().UID})
	}
}

// kubeletHears makes the kubelet read one write, and answer.
func (b *bystander) kubeletHears() {
	if b.kubeletAt == len(b.log) {
		return
	}
	w := b.log[b.kubeletAt]
	b.kubeletAt++
	switch w.verb {
	case "bind":
		if v := b.k.admit(b.requests[w.uid]); v.OK() {
			b.alive = append(b.alive, w.uid)
			b.status("admitted", w.uid)
		} else {
			b.status("refused", w.uid)
		}
	case "delete":
		if slices.Contains(b.alive, w.uid) {
			b.ending = append(b.ending, w.uid)
		} else {
			b.log = append(b.log, write{"gone", w.uid})
		}
	}
}

func (b *bystander) stop() {
	if len(b.ending) == 0 {
		return
	}
	uid := b.ending[0]
	b.ending = b.ending[1:]
	b.alive = slices.DeleteFunc(b.alive, func(other string) bool { return other == uid })
	b.k.End(uid)
	b.log = append(b.log, write{"ended", uid}, write{"gone", uid})
}

// hears makes the ledger read one write.
func (b *bystander) hears() {
	if b.seen == len(b.log) {
		return
	}
	w := b.log[b.seen]
	b.seen++
	s := Sighting{UID: w.uid, Request: b.requests[w.uid], Created: b.created[w.uid]}
	var o *PromiseOutcome
	switch w.verb {
	case "bind":
		s.After = b.seen > b.newest && b.rng.IntN(4) > 0
		e, _ := b.n.Witness(&s)
		if e.Answer.Outcome == Waiting {
			b.waits++
		}
	case "delete", "ended":
		if s.Phase = Ending; w.verb == "ended" {
			s.Phase = Ended
		}
		_, o = b.n.See(s)
	case "admitted", "refused":
		o = b.n.Answered(w.uid, w.verb == "admitted")
	case "gone":
		b.now = b.now.Add(time.Second)
		o = b.n.Gone(w.uid, b.now)
	}
	b.settle(o)
}

func (b *bystander) hearReport() {
	if len(b.reports) == 0 {
		return
	}
	r := b.reports[0]
	b.newest, b.reports, b.written = b.written[0], b.reports[1:], b.written[1:]
	for _, o := range b.n.Accept(r) {
		b.settle(&o)
	}
	b.foreseen += len(b.n.Foresee())
}

func (b *bystander) random() {
	report := func() { b.reports, b.written = append(b.reports, b.k.report()), append(b.written, len(b.log)) }
	steps := []func(){
		b.bind, b.bind, b.deleteOne, b.kubeletHears, b.kubeletHears, b.kubeletHears, b.stop, b.stop, b.k.ReleaseEnded, report, report,
		b.hearReport, b.hearReport, b.hearReport, b.hears, b.hears, b.hears, b.hears, b.writeStatus, b.writeStatus,
	}
	steps[b.rng.IntN(len(steps))]()
	if err := b.n.View().Check(); err != nil {
		b.fail("%v", err)
	}
}

// TestWitnessIsNotWrong: whatever is late, a certain expectation comes true.
func TestWitnessIsNotWrong(t *testing.T) {
	all, waits, foreseen := map[Result]int{}, 0, 0
	for seed := range *runs {
		b := &bystander{history: newHistory(t, uint64(seed)), results: all}
		for range 120 {
			b.random()
		}
		waits, foreseen = waits+b.waits, foreseen+b.foreseen
	}
	t.Logf("%v, %d not decided, %d of these later", all, waits, foreseen)
	if foreseen < *runs/10 {
		t.Errorf("%d expectations came with a report: want more", foreseen)
	}
	if all[ResultKept] < 2**runs || all[ResultForetold] < *runs/2 || all[ResultContended] > all[ResultKept]/5 {
		t.Errorf("%v: want more kept and foretold, and fewer contended", all)
	}
}

// TestWitness checks the ledger's expectations about pods that other schedulers bind.
func TestWitness(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	witness := func(uid string, count int64) Expectation {
		t.Helper()
		e, first := n.Witness(&Sighting{UID: uid, Request: cpus(uid, count), Created: 1})
		check(t, n)
		if !first {
			t.Fatalf("%s was known before", uid)
		}
		return e
	}
	// Each of two NUMA nodes has eight CPUs. One CPU is reserved.
	for _, c := range []struct {
		uid   string
		cpus  int64
		exact bool
		want  Outcome
	}{{"a", 4, true, Admitted}, {"b", 8, true, Admitted}, {"c", 4, false, Refused}, {"d", 3, true, Admitted}, {"e", 1, false, Refused}} {
		e := witness(c.uid, c.cpus)
		wantOutcome(t, c.uid, e.Answer, c.want)
		if e.Answer.Exact && e.Answer.OK() != c.exact {
			t.Errorf("%s: exact %v", c.uid, e.Answer.Exact)
		}
		if v := k.admit(cpus(c.uid, c.cpus)); v.OK() != (c.want == Admitted) {
			t.Fatalf("%s: the kubelet says %v", c.uid, v)
		}
	}
	if _, first := n.Witness(&Sighting{UID: "a", Request: cpus("a", 4)}); first {
		t.Error("a was taken in twice")
	}
	for uid, want := range map[string]Result{"c": ResultForetold, "e": ResultFalseAlarm} {
		if o := n.Answered(uid, want == ResultFalseAlarm); o == nil || o.Result() != want {
			t.Errorf("%s: %+v, want %s", uid, o, want)
		}
	}
	if o := n.Answered("a", true); o != nil {
		t.Errorf("an admission that was expected: %+v", o)
	}
	for _, o := range n.Accept(k.report()) {
		if o.Result() != ResultKept || !o.Exact {
			t.Errorf("%s: %s", o.UID, o.Result())
		}
	}
	check(t, n)
	if o := n.Answered("nobody", false); o != nil {
		t.Errorf("a pod that is not known: %+v", o)
	}
}

// TestWitnessOfPodsThatMayEnd: if a pod may have ended, a refusal does not count as a wrong
// expectation.
func TestWitnessOfPodsThatMayEnd(t *testing.T) {
	for _, mortal := range []bool{false, true} {
		k := newKubelet(t, model(t, twoSockets, pinning))
		n := open(t, k)
		for _, uid := range []string{"a", "b"} {
			n.Witness(&Sighting{UID: uid, Request: cpus(uid, 7), Mortal: mortal})
			k.must(cpus(uid, 7))
		}
		n.Accept(k.report())
		e, _ := n.Witness(&Sighting{UID: "c", Request: cpus("c", 7)})
		wantOutcome(t, "c", e.Answer, Refused)
		o, want := n.Answered("c", true), ResultFalseAlarm
		if mortal {
			want = ResultContended
		}
		if o == nil || o.Result() != want {
			t.Errorf("mortal %v: %+v, want %s", mortal, o, want)
		}
	}
}

// TestWitnessLooksFurther: a witness tries more possibilities than a scheduler, because a scheduler
// can make pods wait for a report. Their number is bounded too.
func TestWitnessLooksFurther(t *testing.T) {
	for _, c := range []struct {
		ending int
		want   Outcome
	}{{maxEvents + 1, Admitted}, {maxEvents + 5, Waiting}} {
		k := newKubelet(t, model(t, twoSockets, pinning))
		n := open(t, k)
		n.Witness(&Sighting{UID: "first", Request: cpus("first", 1)})
		k.must(cpus("first", 1))
		for i := range c.ending {
			r := cpus(fmt.Sprint("p", i), 1)
			k.must(r)
			n.See(Sighting{UID: r.UID, Request: r, Phase: Ending})
		}
		n.Accept(k.report())
		e, _ := n.Witness(&Sighting{UID: "x", Request: cpus("x", 2), After: true})
		if wantOutcome(t, fmt.Sprint(c.ending, " are ending"), e.Answer, c.want); c.want == Waiting && e.Answer.Wait != ManyEvents {
			t.Errorf("it waits for %v", e.Answer.Wait)
		}
		check(t, n)
	}
}

// TestForesee: if too much is unknown when a pod is bound, a later report gives an expectation,
// unless its kubelet's answer is known by then.
func TestForesee(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*Node, *kubelet) // events before the report
		want   int
	}{
		"the report lists the pods before it": {func(*Node, *kubelet) {}, 1},
		"the API shows its answer":            {func(n *Node, _ *kubelet) { n.Answered("x", true) }, 0},
		"the report lists it":                 {func(_ *Node, k *kubelet) { k.must(cpus("x", 2)) }, 0},
		"the report lists a pod after it": {func(n *Node, k *kubelet) {
			n.Witness(&Sighting{UID: "later", Request: cpus("later", 1), After: true})
			k.must(cpus("later", 1))
		}, 0},
		"the report lists a pod that the API has not shown": {func(_ *Node, k *kubelet) { k.must(cpus("unknown", 1)) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			config := pinning
			config.MemoryManagerPolicy, config.ReservedMemory = "Static", []placement.ReservedMemory{{NUMA: 0, Limits: map[string]uint64{"memory": 1 << 30}}}
			k := newKubelet(t, model(t, "package:2 numa:1 core:16 pu:2 mem:16Gi", config))
			n := open(t, k)
			var flight []*placement.Request
			for i := range maxEvents + 5 { // the moment when the init container ends is not known
				r := cpus(fmt.Sprint("p", i), 1)
				init := r.Containers[0]
				init.Name, init.Kind = "init", placement.Init
				r.Containers = append([]placement.ContainerRequest{init}, r.Containers...)
				flight = append(flight, r)
				n.Witness(&Sighting{UID: r.UID, Request: r, After: true})
			}
			e, _ := n.Witness(&Sighting{UID: "x", Request: cpus("x", 2), After: true})
			if wantOutcome(t, "x, behind so many", e.Answer, Waiting); e.Answer.Wait != ManyEvents {
				t.Errorf("it waits for %v", e.Answer.Wait)
			}
			for _, r := range flight {
				k.must(r)
				k.State.Start(r.UID, []string{"c"})
			}
			c.before(n, k)
			n.Accept(k.report())
			all := n.Foresee()
			check(t, n)
			if len(all) != c.want {
				t.Fatalf("%+v: want %d", all, c.want)
			}
			if c.want == 0 {
				return
			}
			if all[0].UID != "x" || !all[0].Answer.OK() {
				t.Errorf("%+v", all[0])
			}
			if again := n.Foresee(); len(again) > 0 {
				t.Errorf("foreseen twice: %+v", again)
			}
			k.must(cpus("x", 2))
			for _, o := range n.Accept(k.report()) {
				if o.UID != "x" || o.Result() != ResultKept {
					t.Errorf("%s: %s", o.UID, o.Result())
				}
			}
		})
	}
}

// TestWitnessAfterRefusals: no report shows that a kubelet has refused pods. So several pods in
// flight may have been admitted or refused before another pod left.
func TestWitnessAfterRefusals(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	bind := func(uid string) Expectation {
		e, _ := n.Witness(&Sighting{UID: uid, Request: cpus(uid, 7), After: true})
		check(t, n)
		return e
	}
	for _, uid := range []string{"leaves", "stays"} {
		bind(uid)
		k.must(cpus(uid, 7))
	}
	n.Accept(k.report())
	for _, uid := range []string{"a", "b"} {
		wantOutcome(t, uid, bind(uid).Answer, Refused)
		if v := k.admit(cpus(uid, 7)); v.OK() {
			t.Fatalf("%s: %v", uid, v)
		}
	}
	n.See(Sighting{UID: "leaves", Request: cpus("leaves", 7), Phase: Ended})
	k.End("leaves")
	k.ReleaseEnded()
	n.Accept(k.report())
	if e := bind("c"); e.Answer.Wait != Undecided || len(e.Either) != 1 {
		t.Errorf("c: %+v: want it undecided, because it takes what a or b would take", e.Answer)
	}
}

// TestWitnessOfPodsAfterAnEnd: a kubelet has released a pod that ended before the Binding of
// another pod, whatever the last report lists.
func TestWitnessOfPodsAfterAnEnd(t *testing.T) {
	for phase, want := range map[Phase]Outcome{Ending: Waiting, Ended: Admitted} {
		k := newKubelet(t, model(t, twoSockets, pinning))
		n := open(t, k)
		for _, uid := range []string{"leaves", "stays"} {
			n.Witness(&Sighting{UID: uid, Request: cpus(uid, 7), After: true})
			k.must(cpus(uid, 7))
		}
		n.Accept(k.report())
		n.See(Sighting{UID: "leaves", Request: cpus("leaves", 7), Phase: phase})
		e, _ := n.Witness(&Sighting{UID: "x", Request: cpus("x", 7), After: true})
		wantOutcome(t, fmt.Sprint("phase ", phase), e.Answer, want)
		check(t, n)
	}
}

// TestWitnessWithoutAReport: there is no expectation, and the pod counts after the next report.
func TestWitnessWithoutAReport(t *testing.T) {
	n := new(Ledger).Open(nil)
	e, first := n.Witness(&Sighting{UID: "a", Request: cpus("a", 4)})
	if !first || e.Answer.Outcome != Unreported {
		t.Errorf("%+v, first %v", e.Answer, first)
	}
	k := newKubelet(t, model(t, twoSockets, pinning))
	if out := n.Accept(k.report()); len(out) > 0 {
		t.Errorf("outcomes %+v", out)
	}
	e, _ = n.Witness(&Sighting{UID: "b", Request: cpus("b", 8)})
	wantOutcome(t, "b", e.Answer, Admitted)
	e, _ = n.Witness(&Sighting{UID: "c", Request: cpus("c", 4)})
	wantOutcome(t, "c, after a and b", e.Answer, Refused)
}

// TestResults: the promise, the node's answer, and the name of the outcome.
func TestResults(t *testing.T) {
	for want, all := range map[Result][]PromiseOutcome{
		ResultKept:         {{Kept: true, Exact: true}, {Kept: true}, {}, {Contended: true}},
		ResultMispredicted: {{Exact: true}, {Either: true}},
		ResultRefused:      {{Refused: true}, {Refused: true, Exact: true}},
		ResultForetold:     {{Foretold: true, Refused: true}, {Foretold: true, Refused: true, Contended: true}},
		ResultEither:       {{Either: true, Refused: true}, {Either: true, Kept: true, Contended: true}},
		ResultFalseAlarm:   {{Foretold: true}, {Foretold: true, Kept: true}},
		ResultContended:    {{Exact: true, Contended: true}, {Refused: true, Contended: true}, {Foretold: true, Contended: true}},
	} {
		for _, o := range all {
			if got := o.Result(); got != want {
				t.Errorf("%+v: %s, want %s", o, got, want)
			}
		}
	}
}
