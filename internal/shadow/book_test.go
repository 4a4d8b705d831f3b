package shadow

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

var noon = time.Unix(1_760_000_000, 0)

func bound(uid string, rejected bool) Record {
	r := Record{Bound: noon, Pod: Pod{UID: uid, Namespace: "d", Name: uid, Node: "n", Scheduler: "default-scheduler", Pinned: true}}
	r.Expected = &Answer{Outcome: Admitted, Certainty: "exact"}
	if rejected {
		r.Expected = &Answer{Outcome: Rejected, Reason: "TopologyAffinityError"}
	}
	return r
}

// outcome returns a ledger's outcome for pod p.
func outcome(o ledger.PromiseOutcome) *ledger.PromiseOutcome {
	o.UID = "p"
	return &o
}

// TestForeseen: a late prediction counts if the kubelet's answer is not known yet.
func TestForeseen(t *testing.T) {
	for name, c := range map[string]struct {
		why    Reason
		before func(*Book)
		taken  bool
	}{
		"undecided":              {Undecided, func(*Book) {}, true},
		"the API shows it":       {Undecided, func(b *Book) { b.Admitted("p", 5, noon) }, false},
		"the API shows a reason": {Undecided, func(b *Book) { b.Refused("p", "TopologyAffinityError", 5, noon) }, false},
		"not judged anyway":      {KubeletRestarted, func(*Book) {}, false},
		"predicted before":       {"", func(*Book) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, r := NewBook(), bound("p", false)
			b.Bound(Record{Bound: r.Bound, Pod: r.Pod, Detail: "too much"}, c.why)
			c.before(b)
			if got := b.Foreseen(&r); got != c.taken {
				t.Fatalf("taken: %v", got)
			}
			if !c.taken {
				return
			}
			if b.Undecided("p") != nil {
				t.Error("still undecided")
			}
			if closed := b.Settled(outcome(ledger.PromiseOutcome{Exact: true, Kept: true}), noon); closed == nil || closed.Result != Exact || closed.Detail != "" {
				t.Errorf("%+v", closed)
			}
		})
	}
}

// TestBook has all outcomes of a prediction. Each case has the state after its last step.
func TestBook(t *testing.T) {
	const tae = "TopologyAffinityError"
	for name, c := range map[string]struct {
		rejected, shared bool
		why              Reason
		do               func(*Book)
		result           Result
		reason           Reason
	}{
		"nothing yet":    {do: func(*Book) {}},
		"as predicted":   {do: func(b *Book) { b.Settled(outcome(ledger.PromiseOutcome{Exact: true, Kept: true}), noon) }, result: Exact},
		"by verdict":     {do: func(b *Book) { b.Settled(outcome(ledger.PromiseOutcome{}), noon) }, result: ByVerdict},
		"something else": {do: func(b *Book) { b.Settled(outcome(ledger.PromiseOutcome{Exact: true}), noon) }, result: Wrong},
		"contended":      {do: func(b *Book) { b.Settled(outcome(ledger.PromiseOutcome{Exact: true, Contended: true}), noon) }, result: NotJudged, reason: Contended},
		"a refusal counts when the agent is heard": {rejected: true, do: func(b *Book) {
			b.Refused("p", tae, 5, noon)
			b.Settled(outcome(ledger.PromiseOutcome{Foretold: true, Refused: true}), noon)
		}},
		"foretold": {rejected: true, do: func(b *Book) {
			b.Refused("p", tae, 5, noon)
			b.Settled(outcome(ledger.PromiseOutcome{Foretold: true, Refused: true}), noon)
			b.Gone("p", noon)
			b.Alive("other", 6, noon)
			b.Alive("n", 6, noon)
		}, result: Foretold},
		"either, and admitted": {do: func(b *Book) { b.Settled(outcome(ledger.PromiseOutcome{Either: true, Kept: true}), noon) }, result: Either},
		"either, and refused": {do: func(b *Book) {
			b.Refused("p", tae, 5, noon)
			b.Settled(outcome(ledger.PromiseOutcome{Either: true, Refused: true}), noon)
			b.Alive("n", 6, noon)
		}, result: Either},
		"missed": {do: func(b *Book) {
			b.Refused("p", tae, 5, noon)
			b.Settled(outcome(ledger.PromiseOutcome{Exact: true, Refused: true}), noon)
			b.Alive("n", 6, noon)
		}, result: Missed},
		"false alarm": {rejected: true, do: func(b *Book) {
			b.Admitted("p", 5, noon)
			b.Settled(outcome(ledger.PromiseOutcome{Foretold: true}), noon)
			b.Gone("p", noon)
			b.Alive("n", 6, noon)
		}, result: FalseAlarm},
		"an alarm of which the agent may not know yet": {rejected: true, do: func(b *Book) {
			b.Admitted("p", 5, noon)
			b.Settled(outcome(ledger.PromiseOutcome{Foretold: true}), noon)
			b.Alive("n", 4, noon)
		}},
		"no alarm: the kubelet restarted before": {rejected: true, do: func(b *Book) {
			b.Admitted("p", 5, noon)
			b.Settled(outcome(ledger.PromiseOutcome{Foretold: true}), noon)
			b.Doubt("n", KubeletRestarted, noon)
		}, result: NotJudged, reason: KubeletRestarted},
		"a refusal of which the agent may not know yet": {do: func(b *Book) {
			b.Refused("p", tae, 5, noon)
			b.Settled(outcome(ledger.PromiseOutcome{Refused: true}), noon)
			b.Alive("n", 4, noon)
		}},
		"refused for something else": {do: func(b *Book) {
			b.Refused("p", "OutOfcpu", 5, noon)
			b.Settled(outcome(ledger.PromiseOutcome{Refused: true}), noon)
			b.Alive("n", 6, noon)
		}, result: NotJudged, reason: OtherRule},
		"the kubelet restarted before": {do: func(b *Book) { b.Doubt("n", KubeletRestarted, noon) }, result: NotJudged, reason: KubeletRestarted},
		"the kubelet restarted, and a refusal is told first": {do: func(b *Book) {
			b.Refused("p", tae, 5, noon)
			b.Settled(outcome(ledger.PromiseOutcome{Refused: true}), noon)
			b.Doubt("n", KubeletRestarted, noon)
			b.Alive("n", 6, noon)
		}, result: NotJudged, reason: KubeletRestarted},
		"another node's kubelet restarted": {do: func(b *Book) { b.Doubt("m", KubeletRestarted, noon) }},
		"deleted before the answer":        {do: func(b *Book) { b.Gone("p", noon) }, result: NotJudged, reason: NeverSeen},
		"admitted, and gone before a report": {do: func(b *Book) {
			b.Admitted("p", 5, noon)
			b.Gone("p", noon)
			b.Alive("n", 6, noon)
		}, result: ByVerdict},
		"admitted, and gone before a report, by a kubelet that restarted": {do: func(b *Book) {
			b.Admitted("p", 5, noon)
			b.Gone("p", noon)
			b.Doubt("n", KubeletRestarted, noon)
		}, result: NotJudged, reason: KubeletRestarted},
		"no answer":                     {do: func(b *Book) { b.Expire(noon.Add(patience)) }, result: NotJudged, reason: NoAnswer},
		"no answer yet":                 {do: func(b *Book) { b.Expire(noon.Add(patience - 1)) }},
		"no agent, admitted":            {why: NoAgent, do: func(b *Book) { b.Admitted("p", 5, noon) }, result: NotJudged, reason: NoAgent},
		"late agent, refused":           {why: LateAgent, do: func(b *Book) { b.Refused("p", tae, 5, noon) }, result: NotJudged, reason: LateAgent},
		"older agent, a report":         {why: OlderAgent, do: func(b *Book) { b.Settled(outcome(ledger.PromiseOutcome{Exact: true}), noon) }, result: NotJudged, reason: OlderAgent},
		"clocks, and a restart":         {why: Clocks, do: func(b *Book) { b.Doubt("n", KubeletRestarted, noon) }, result: NotJudged, reason: Clocks},
		"shared, admitted":              {shared: true, do: func(b *Book) { b.Admitted("p", 5, noon) }, result: Exact},
		"shared, refused by a manager":  {shared: true, do: func(b *Book) { b.Refused("p", tae, 5, noon); b.Alive("n", 6, noon) }, result: Missed},
		"shared, refused for its share": {shared: true, do: func(b *Book) { b.Refused("p", "OutOfcpu", 5, noon); b.Alive("n", 6, noon) }, result: NotJudged, reason: OtherRule},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBook()
			r := bound("p", c.rejected)
			r.Pinned = !c.shared
			if closed := b.Bound(r, c.why); closed != nil {
				t.Fatalf("closed at once: %+v", closed)
			}
			c.do(b)
			v := b.View(noon)
			checkTally(t, &v.Total, v.Open)
			if c.result == "" {
				if v.Open != 1 || v.Total.Judged+unjudged(&v.Total) != 0 {
					t.Errorf("%+v: want it open", v)
				}
				return
			}
			if got := resultIn(&v.Total); got != c.result || c.reason != "" && v.Total.NotJudged[c.reason] != 1 {
				t.Errorf("%s, %+v: want %s %s", got, v.Total, c.result, c.reason)
			}
		})
	}
}

// unjudged returns the number of pods that were not judged.
func unjudged(t *Tally) (n int) {
	for _, m := range t.NotJudged {
		n += m
	}
	return n
}

// resultIn returns the result of the only judged pod.
func resultIn(t *Tally) Result {
	for result, n := range map[Result]int{Exact: t.Exact, ByVerdict: t.ByVerdict, Either: t.Either, Wrong: t.Wrong, Foretold: t.Foretold, Missed: t.Missed, FalseAlarm: t.FalseAlarms, NotJudged: unjudged(t)} {
		if n == 1 {
			return result
		}
	}
	return ""
}

// checkTally checks that the sums agree.
func checkTally(t *testing.T, c *Tally, open int) {
	t.Helper()
	if c.Judged != c.Exact+c.ByVerdict+c.Either+c.Wrong+c.Foretold+c.Missed+c.FalseAlarms || c.Pods != c.Judged+unjudged(c)+open {
		t.Errorf("%d open, %+v: the sums differ", open, c)
	}
}

// TestBookAtRandom: in whatever order events come, each pod is counted once, the amount of data is
// limited, and pods that are not judged count neither as right nor as wrong.
func TestBookAtRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b, now := NewBook(), noon
	reasons := []string{"TopologyAffinityError", "OutOfcpu", "UnexpectedAdmissionError"}
	came, unjudged := 0, map[string]bool{}
	for i := range 60_000 {
		uid := fmt.Sprint("p", rng.IntN(400))
		now = now.Add(time.Duration(rng.IntN(200)) * time.Millisecond)
		switch rng.IntN(9) {
		case 0, 1, 2:
			r := bound(uid, rng.IntN(3) == 0)
			r.Bound, r.Node, r.Pinned, r.Scheduler = now, fmt.Sprint("n", rng.IntN(20)), rng.IntN(4) > 0, fmt.Sprint("s", rng.IntN(100))
			var why Reason
			if rng.IntN(4) == 0 {
				why = Reasons[rng.IntN(len(Reasons))].Reason
			}
			if e := b.open[uid]; e == nil || e.Node != r.Node {
				came++
				unjudged[uid] = why != ""
			}
			b.Bound(r, why)
		case 3:
			b.Admitted(uid, uint64(i), now)
		case 4:
			b.Refused(uid, reasons[rng.IntN(len(reasons))], uint64(i), now)
		case 5:
			o := ledger.PromiseOutcome{UID: uid, Exact: rng.IntN(2) == 0, Refused: rng.IntN(2) == 0, Foretold: rng.IntN(2) == 0, Kept: rng.IntN(2) == 0, Either: rng.IntN(3) == 0, Contended: rng.IntN(4) == 0}
			if r := b.Settled(&o, now); r != nil && unjudged[uid] && r.Result != NotJudged {
				t.Fatalf("%+v: want it not judged", r)
			}
		case 6:
			if rng.IntN(200) == 0 {
				b.Doubt(fmt.Sprint("n", rng.IntN(20)), KubeletRestarted, now)
			}
			b.Alive(fmt.Sprint("n", rng.IntN(20)), uint64(i-rng.IntN(20)), now)
		case 7:
			b.Gone(uid, now)
		case 8:
			if rng.IntN(100) == 0 {
				b.Expire(now)
			}
		}
		if i%500 == 0 {
			v := b.View(now)
			checkTally(t, &v.Total, v.Open)
			if v.Total.Pods != came || len(v.Total.Placed) > maxPlacers+1 || len(v.Pods) > maxNotable || v.Open > maxOpen {
				t.Fatalf("%d pods came: %+v", came, v.Total)
			}
		}
	}
	onNodes := 0
	for _, some := range b.onNode {
		onNodes += len(some)
	}
	if onNodes != len(b.open) {
		t.Errorf("%d open entries, and %d on nodes", len(b.open), onNodes)
	}
	if v := b.View(now); v.Total.Foretold == 0 || v.Total.Missed == 0 || v.Total.NotJudged[KubeletRestarted] == 0 {
		t.Errorf("%+v: want some of everything", v.Total)
	}
}

// TestBookIsBounded: the number of kept pods whose kubelets do not answer is limited.
func TestBookIsBounded(t *testing.T) {
	b := NewBook()
	for i := range maxOpen + 3 {
		b.Bound(bound(fmt.Sprint(i), false), "")
	}
	v := b.View(noon)
	if v.Open != maxOpen || v.Total.NotJudged[TooMany] != 3 {
		t.Errorf("%d open, %v", v.Open, v.Total.NotJudged)
	}
	for i := range maxOpen {
		b.Refused(fmt.Sprint(i), "TopologyAffinityError", 5, noon)
		o := ledger.PromiseOutcome{UID: fmt.Sprint(i), Foretold: true, Refused: true}
		b.Settled(&o, noon)
	}
	b.Alive("n", 6, noon)
	if v := b.View(noon); v.Open != 0 || len(v.Pods) != maxNotable || v.Pods[0].UID == "0" || len(b.onNode) != 0 {
		t.Errorf("%d open, %d listed", v.Open, len(v.Pods))
	}
}

// TestDay: pods older than a day count only in the total.
func TestDay(t *testing.T) {
	b := NewBook()
	for i, age := range []time.Duration{30 * time.Hour, 25 * time.Hour, 20 * time.Hour, 0} {
		r := bound(fmt.Sprint(i), false)
		r.Bound = noon.Add(-age)
		b.Bound(r, "")
		b.Settled(&ledger.PromiseOutcome{UID: r.UID, Exact: true, Kept: true}, r.Bound)
	}
	if v := b.View(noon); v.Day.Exact != 2 || v.Total.Exact != 4 {
		t.Errorf("%d and %d, want 2 and 4", v.Day.Exact, v.Total.Exact)
	}
	if v := b.View(noon.Add(48 * time.Hour)); v.Day.Pods != 0 || v.Total.Pods != 4 {
		t.Errorf("two days later %+v", v.Day)
	}
}

// TestPlacersAreBounded: scheduler names that tenants invent do not remove the real scheduler's.
func TestPlacersAreBounded(t *testing.T) {
	b := NewBook()
	bind := func(uid, scheduler string) {
		r := bound(uid, false)
		r.Scheduler = scheduler
		b.Bound(r, "")
	}
	for i := range 3 * maxPlacers {
		bind(fmt.Sprint("invented", i), fmt.Sprint("invented", i))
	}
	for i := range 5 {
		bind(fmt.Sprint("real", i), "default-scheduler")
	}
	for i := range 3 * maxPlacers {
		bind(fmt.Sprint("again", i), fmt.Sprint("again", i))
	}
	v := b.View(noon)
	sum := 0
	for _, n := range v.Day.Placed {
		sum += n
	}
	if got := v.Day.Placed["default-scheduler"]; got != 5 || len(v.Day.Placed) > maxPlacers+1 || sum != v.Day.Pinned {
		t.Errorf("%v of %d pods: want 5 of default-scheduler", v.Day.Placed, v.Day.Pinned)
	}
}

func TestSentence(t *testing.T) {
	for want, c := range map[string]Tally{
		"No scheduler placed a pinned pod.":                                                                                {Pods: 3, Rejected: 1},
		"b, a, c, others placed 14 pinned pods; none was rejected.":                                                        {Pinned: 14, Rejected: 2, Placed: map[string]int{"a": 4, "b": 5, "c": 3, "d": 1, "e": 1}},
		"kube-scheduler placed 1 pinned pod; none was rejected.":                                                           {Pinned: 1, Placed: map[string]int{"default-scheduler": 1}},
		"kube-scheduler placed 812 pinned pods; 31 were rejected; Berth would have placed 30 rejected pods elsewhere.":     {Pinned: 812, Rejected: 35, RejectedPinned: 31, Elsewhere: 30, Placed: map[string]int{"default-scheduler": 812}},
		"volcano, kube-scheduler placed 9 pinned pods; 1 was rejected; Berth would have placed 0 rejected pods elsewhere.": {Pinned: 9, Rejected: 1, RejectedPinned: 1, Placed: map[string]int{"default-scheduler": 2, "volcano": 7}},
	} {
		if got := c.Sentence(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestViewIsJSON: the JSON has [] instead of null for lists, and is read back without changes.
func TestViewIsJSON(t *testing.T) {
	b := NewBook()
	r := bound("p", false)
	r.Instead = &Elsewhere{Node: "m", NUMANodes: "0", Why: WhyRejected}
	b.Bound(r, "")
	b.Refused("p", "TopologyAffinityError", 5, noon)
	b.Settled(outcome(ledger.PromiseOutcome{Refused: true}), noon)
	b.Alive("n", 6, noon)
	b.Captured("p", "missed-p.berth")
	data, err := json.Marshal(b.View(noon))
	var back View
	if err == nil {
		err = json.Unmarshal(data, &back)
	}
	if err != nil || back.Total.Elsewhere != 1 || back.Pods[0].Capture != "missed-p.berth" || !strings.Contains(string(data), `"missed":1`) {
		t.Errorf("%s: %v", data, err)
	}
}

func TestHeld(t *testing.T) {
	d := placement.Decision{Containers: []placement.ContainerDecision{{Name: "none"}, {Name: "c", CPUs: topology.NewCPUSet(1, 2, 3),
		Devices: []placement.DeviceAllocation{{Resource: "gpu", IDs: []string{"a", "b"}}}}}}
	got := Decided(&d)
	if len(got) != 1 || got[0] != (Held{Name: "c", CPUs: "1-3", Devices: "gpu a,b"}) {
		t.Errorf("%+v", got)
	}
}
