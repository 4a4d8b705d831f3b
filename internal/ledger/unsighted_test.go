package ledger

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/placement"
)

// TestPodsThatOnlyAReportNames: such pods may end at any moment. The node admits a pod only if it
// fits with and without any of them, and the answer is exact only if all these cases agree. Explain
// reports the state with all of them.
func TestPodsThatOnlyAReportNames(t *testing.T) {
	for seed := range uint64(*runs) {
		h := newHistory(t, seed)
		var names []string
		for range 1 + h.rng.IntN(3) {
			r := h.request()
			if v := h.k.admit(r); v.OK() {
				names = append(names, r.UID)
			}
		}
		h.n.Accept(h.k.report())
		for range 8 {
			r := h.request()
			var d placement.Decision
			v := placement.Decide(h.k.State, r, &d)
			a := h.n.View().Ask(Question{Candidate: cand(r)})
			if refusal, ok := h.n.View().Explain(r); ok && refusal.Reason != v.Reason {
				t.Fatalf("seed %d: explained as %v, refused as %v", seed, refusal.Reason, v.Reason)
			}
			if a.Outcome == Waiting && a.Wait != Undecided {
				continue
			}
			if got, want := a.Outcome, h.outcomeOverSubsets(names, r, &v, &d, a.Exact); got != want {
				t.Fatalf("seed %d: %v, want %v", seed, fmt.Sprintf("%+v", a), want)
			}
		}
	}
}

// outcomeOverSubsets asks the kubelet's own state with every subset of the pods released.
func (h *history) outcomeOverSubsets(names []string, r *placement.Request, v *placement.Verdict, d *placement.Decision, exact bool) Outcome {
	yes, no := 0, 0
	for set := range 1 << len(names) {
		s := h.k.State.Clone()
		for _, uid := range subset(names, set) {
			s.Release(uid)
		}
		var other placement.Decision
		w := placement.Decide(s, r, &other)
		if w.OK() {
			yes++
		} else {
			no++
		}
		if exact && (!w.OK() || !Same(d, &other)) {
			h.t.Errorf("exact, but without %v it is %v", subset(names, set), w)
		}
	}
	switch {
	case no == 0:
		return Admitted
	case yes == 0:
		return Refused
	}
	return Waiting
}
