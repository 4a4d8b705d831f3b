package ledger

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/placement"
)

// amountsOf returns the kubelet's next report, as a report with only amounts.
func amountsOf(k *kubelet) *Report {
	r := k.report()
	r.Amounts = true
	return r
}

// TestAmountsAreNeverExact: after a report with only amounts, pods are counted one by one and in no
// order. They are admitted, but not with certainty.
func TestAmountsAreNeverExact(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := new(Ledger).Open(nil)
	n.Accept(amountsOf(k))
	for i := range 9 { // more strangers than the limit of events
		n.See(Sighting{UID: fmt.Sprint("s", i), Request: cpus(fmt.Sprint("s", i), 1), Created: int64(9 - i), Inherited: true, Phase: endingIf(i == 0)})
	}
	c := &Candidate{Request: cpus("x", 4), Created: 1, Shape: 1}
	for name, a := range map[string]Answer{
		"asked": n.View().Ask(Question{Candidate: c}), "estimated": n.View().Sample(Question{Candidate: c, Estimate: true}).Answer,
		"under a trial": n.View().Ask(Question{Candidate: c, Trial: &Trial{Without: []string{"s1", "s2"}}}),
		"reserved":      n.Reserve(c, new(placement.Decision)),
	} {
		if !a.OK() || a.Exact || !a.Amounts {
			t.Errorf("%s: %+v", name, a)
		}
	}
	posting, err := n.Post("x", new(placement.Decision))
	if err != nil || !posting.Answer.OK() || posting.Answer.Exact || !posting.Answer.Amounts {
		t.Errorf("posted: %+v, %v", posting, err)
	}
	if a := n.View().Ask(Question{Candidate: cand(cpus("y", 4))}); a.Outcome != Refused {
		t.Errorf("13 of 15 CPUs are charged, and 4 more: %+v", a)
	}
	if a := n.View().Ask(Question{Candidate: cand(cpus("y", 4)), Trial: &Trial{Without: []string{"s1", "s2", "s3", "x"}}}); !a.OK() {
		t.Errorf("4 CPUs without 4 of the pods: %+v", a)
	}
	check(t, n)
}

// TestFromAmountsToTheFullReport: an agent begins to report while pods run and are in flight, and
// stops again. No pod is counted twice, and none is lost.
func TestFromAmountsToTheFullReport(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := new(Ledger).Open(nil)
	n.Accept(amountsOf(k))
	for i, r := range []*placement.Request{cpus("a", 4), cpus("b", 4)} {
		if a := n.Reserve(&Candidate{Request: r, Created: int64(i)}, new(placement.Decision)); !a.OK() {
			t.Fatal(a)
		}
		post(t, n, r.UID)
	}
	k.must(cpus("a", 4)) // b is still in flight
	free := func(when string, fits, not int64) {
		t.Helper()
		check(t, n)
		if a := n.View().Ask(Question{Candidate: cand(cpus("x", fits))}); !a.OK() {
			t.Errorf("%s: %d CPUs: %+v", when, fits, a)
		}
		if a := n.View().Ask(Question{Candidate: cand(cpus("x", not))}); a.OK() {
			t.Errorf("%s: %d CPUs: %+v", when, not, a)
		}
	}
	free("on amounts", 4, 5)
	for _, o := range n.Accept(k.report()) {
		if o.Exact || o.Refused {
			t.Errorf("amounts promise no CPUs: %+v", o)
		}
	}
	free("on the full report", 4, 5)
	n.Withdraw()
	n.Accept(amountsOf(k))
	free("on amounts again", 4, 5)
	k.must(cpus("b", 4))
	n.Accept(k.report())
	free("with both", 4, 5)
}

// TestAnUnsureReportIsNeverExact: if the kubelet may follow other rules, pods are admitted and have
// an order, but no CPUs are promised.
func TestAnUnsureReportIsNeverExact(t *testing.T) {
	for _, unsure := range []bool{false, true} {
		k := newKubelet(t, model(t, twoSockets, pinning))
		n := new(Ledger).Open(nil)
		r := k.report()
		r.Unsure = unsure
		n.Accept(r)
		c := &Candidate{Request: cpus("x", 4), Created: 1, Shape: 1}
		for name, a := range map[string]Answer{
			"asked": n.View().Ask(Question{Candidate: c}), "under a trial": n.View().Ask(Question{Candidate: c, Trial: &Trial{Without: []string{"y"}}}),
			"reserved": n.Reserve(c, new(placement.Decision)),
		} {
			if !a.OK() || a.Exact == unsure || a.Amounts {
				t.Errorf("unsure %v, %s: %+v", unsure, name, a)
			}
		}
		posting, err := n.Post("x", new(placement.Decision))
		if err != nil || !posting.Answer.OK() || posting.Answer.Exact == unsure {
			t.Errorf("unsure %v, posted: %+v, %v", unsure, posting, err)
		}
		check(t, n)
	}
}
