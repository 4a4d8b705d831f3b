package conformance

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/conformance/diff"
	"github.com/berth-dev/berth/test/conformance/oracle"
	"github.com/berth-dev/berth/test/replay/cases"
)

// Comparison is the result of the comparison of two answers to a case.
type Comparison struct {
	// Admissions is the number of admissions, readmissions included, that were compared in full;
	// Admitted is how many of them the kubelet admitted.
	Admissions int `json:"admissions"`
	Admitted   int `json:"admitted"`
	// Chance means that the answers begin to differ at an event for which the engine predicts a
	// random choice. Left is the number of admissions from that event on, which prove nothing.
	Chance bool `json:"chance,omitempty"`
	Left   int  `json:"left,omitempty"`
	// Declined means that the engine does not predict a kubelet with this machine and
	// configuration.
	Declined bool `json:"declined,omitempty"`
	// Defect is "hung" or "crashed" if the kubelet hung or crashed as the engine predicted.
	Defect oracle.Outcome `json:"defect,omitempty"`
	// NotStarted means that the kubelet refused the configuration.
	NotStarted bool `json:"notStarted,omitempty"`
	// Differences is empty when the engine is right.
	Differences []diff.Difference `json:"differences,omitempty"`
}

// Compare compares an engine's answer with the kubelet's, event by event, up to the first
// difference. A difference is excused if the engine predicts a random choice for that event.
func Compare(told *oracle.Told, got *cases.Result) Comparison {
	var c Comparison
	want := &told.Result
	w, g := *want, *got
	w.Events, g.Events = nil, nil
	if c.Differences = diff.Results(&w, &g); c.Differences != nil {
		return c
	}
	c.NotStarted = want.StartupError != ""
	for i := range want.Events {
		if i >= len(got.Events) {
			c.differ(want, i, "events", "an answer", "none")
			return c
		}
		w.Events, g.Events = want.Events[i:i+1], got.Events[i:i+1]
		d := diff.Results(&w, &g)
		for j := range d {
			d[j].Event = i
		}
		if d != nil && got.Events[i].Random {
			c.Chance, c.Left = true, count(want.Events[i:]).all
			return c
		}
		if c.Differences = d; d != nil {
			return c
		}
		n := count(w.Events)
		c.Admissions, c.Admitted = c.Admissions+n.all, c.Admitted+n.admitted
	}
	c.ending(told, got)
	return c
}

// ending compares the end of the answers. After the last event that the kubelet finished, there
// must be no event, or a hang or crash that the engine predicts as a defect.
func (c *Comparison) ending(told *oracle.Told, got *cases.Result) {
	want := &told.Result
	n := len(want.Events)
	if told.Outcome == oracle.Finished {
		if len(got.Events) > n {
			c.differ(want, n, "events", "the end", "more")
		}
		return
	}
	if slices.ContainsFunc(got.Events, func(e cases.EventResult) bool { return e.Random }) {
		c.Chance = true // another run might not have hung
		return
	}
	if n >= len(got.Events) || !foreseen(&got.Events[n]) {
		c.differ(want, n, "outcome", string(told.Outcome)+": "+told.Detail, "no defect")
		return
	}
	c.Defect = told.Outcome
}

// foreseen reports whether an event reports a defect, directly or in a readmission.
func foreseen(e *cases.EventResult) bool {
	defect := placement.KubeletDefect.String()
	for i := range e.Readmit {
		if e.Readmit[i].Reason == defect {
			return true
		}
	}
	return e.Reason == defect
}

func (c *Comparison) differ(want *cases.Result, event int, field, w, g string) {
	c.Differences = append(c.Differences, diff.Difference{Case: want.ID, Event: event, Field: field, Want: fmt.Sprintf("%q", w), Got: fmt.Sprintf("%q", g)})
}

type counts struct{ all, admitted int }

// count counts the admissions among events, readmissions included.
func count(events []cases.EventResult) counts {
	var n counts
	for i := range events {
		e := &events[i]
		if e.Admitted != nil {
			n.all++
			if *e.Admitted {
				n.admitted++
			}
		}
		more := count(e.Readmit)
		n.all, n.admitted = n.all+more.all, n.admitted+more.admitted
	}
	return n
}
