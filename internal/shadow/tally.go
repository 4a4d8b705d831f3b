package shadow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Tally counts bound pods by outcome, and the devices that lost the free CPUs near them.
type Tally struct {
	// Pods is the number of bound pods. Pinned is the number of pods that might get exclusive
	// resources.
	Pods   int `json:"pods"`
	Pinned int `json:"pinned"`
	// Judged is the number of pods whose predictions were judged. Rejected is the number of pods
	// that kubelets refused, judged or not.
	Judged   int `json:"judged"`
	Rejected int `json:"rejected"`
	// RejectedPinned is the number of pods in Pinned that were rejected.
	RejectedPinned int `json:"rejectedPinned"`
	Foretold       int `json:"foretold"`
	Missed         int `json:"missed"`
	FalseAlarms    int `json:"falseAlarms"`
	Exact          int `json:"exact"`
	ByVerdict      int `json:"byVerdict"`
	Either         int `json:"either"`
	Wrong          int `json:"wrong"`
	// OtherReason is the number of pods in Foretold that were rejected for a reason that differs
	// from the predicted reason.
	OtherReason int            `json:"otherReason"`
	NotJudged   map[Reason]int `json:"notJudged"`
	// Elsewhere is the number of rejected pods that another node would have admitted. Split is the
	// number of pods that another node would have admitted on fewer NUMA nodes. Stranded is the
	// number of free devices that lost the free CPUs near them because pods were not placed on
	// other nodes. NotLooked is the number of pods for which no other node was checked, because
	// Berth did not know all their requirements or had no time left.
	Elsewhere int `json:"elsewhere"`
	Split     int `json:"split"`
	Stranded  int `json:"stranded"`
	NotLooked int `json:"notLooked"`
	// Placed is the number of pinned pods by scheduler.
	Placed map[string]int `json:"placed"`
}

// maxPlacers limits the number of schedulers that are counted separately, because users can write
// any name into a pod.
const (
	maxPlacers   = 16
	otherPlacers = "others"
)

// placedBy counts n pods of a scheduler. If there are too many names, it adds the pods of the name
// with the fewest pods to otherPlacers, so that invented names do not displace a real scheduler.
func (t *Tally) placedBy(name string, n int) {
	if _, known := t.Placed[name]; !known && name != otherPlacers && len(t.Placed) >= maxPlacers {
		least := ""
		for other := range t.Placed {
			if other != otherPlacers && (least == "" || t.Placed[other] < t.Placed[least] || t.Placed[other] == t.Placed[least] && other < least) {
				least = other
			}
		}
		t.Placed[otherPlacers] += t.Placed[least]
		delete(t.Placed, least)
	}
	t.Placed[name] += n
}

func newTally() Tally { return Tally{NotJudged: map[Reason]int{}, Placed: map[string]int{}} }

func (t *Tally) came(p *Pod) {
	t.Pods++
	if !p.Pinned {
		return
	}
	t.Pinned++
	t.placedBy(p.Scheduler, 1)
}

func (t *Tally) closed(r *Record) {
	if r.Got != nil && r.Got.Outcome == Rejected {
		t.Rejected++
		if r.Pinned {
			t.RejectedPinned++
		}
		if r.Instead != nil {
			t.Elsewhere++
		}
	} else if r.Instead != nil {
		switch r.Instead.Why {
		case WhySplit:
			t.Split++
		case WhyStranded:
			t.Stranded += r.Instead.Devices
		}
	}
	if r.Result == NotJudged {
		t.NotJudged[r.Reason]++
		return
	}
	t.Judged++
	*t.of(r.Result)++
	if r.Result == Foretold && r.Got.Reason != r.Expected.Reason {
		t.OtherReason++
	}
}

// The method of returns the counter of a result that was judged.
func (t *Tally) of(r Result) *int {
	switch r {
	case Exact:
		return &t.Exact
	case ByVerdict:
		return &t.ByVerdict
	case Either:
		return &t.Either
	case Wrong:
		return &t.Wrong
	case Foretold:
		return &t.Foretold
	case Missed:
		return &t.Missed
	default:
		return &t.FalseAlarms
	}
}

func (t *Tally) add(o *Tally) {
	for _, n := range []struct{ to, from *int }{
		{&t.Pods, &o.Pods}, {&t.Pinned, &o.Pinned}, {&t.Judged, &o.Judged}, {&t.Rejected, &o.Rejected}, {&t.RejectedPinned, &o.RejectedPinned}, {&t.Foretold, &o.Foretold},
		{&t.Missed, &o.Missed}, {&t.FalseAlarms, &o.FalseAlarms}, {&t.Exact, &o.Exact}, {&t.ByVerdict, &o.ByVerdict}, {&t.Wrong, &o.Wrong}, {&t.Either, &o.Either},
		{&t.OtherReason, &o.OtherReason}, {&t.Elsewhere, &o.Elsewhere}, {&t.Split, &o.Split}, {&t.Stranded, &o.Stranded}, {&t.NotLooked, &o.NotLooked},
	} {
		*n.to += *n.from
	}
	for reason, n := range o.NotJudged {
		t.NotJudged[reason] += n
	}
	for name, n := range o.Placed {
		t.placedBy(name, n)
	}
}

// maxNamed is the maximum number of schedulers that the sentence names. It names the schedulers
// with the most pods.
const maxNamed = 3

// Sentence summarizes the numbers of pinned pods in a sentence.
func (t *Tally) Sentence() string {
	if t.Pinned == 0 {
		return "No scheduler placed a pinned pod."
	}
	names := slices.SortedFunc(maps.Keys(t.Placed), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.Placed[b], t.Placed[a]), cmp.Compare(a, b))
	})
	if len(names) > maxNamed {
		names = append(names[:maxNamed], "others")
	}
	for i, name := range names {
		if name == "default-scheduler" {
			names[i] = "kube-scheduler"
		}
	}
	out := fmt.Sprintf("%s placed %s; ", strings.Join(names, ", "), count(t.Pinned, "pinned pod"))
	if t.RejectedPinned == 0 {
		return out + "none was rejected."
	}
	verb := "were"
	if t.RejectedPinned == 1 {
		verb = "was"
	}
	return out + fmt.Sprintf("%d %s rejected; Berth would have placed %s elsewhere.", t.RejectedPinned, verb, count(t.Elsewhere, "rejected pod"))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// hours is the number of hours that are counted separately: one day.
const hours = 24

// day has a Tally for each of the last hours.
type day [hours]struct {
	hour  int64
	tally Tally
}

// The method at returns the tally of the hour that contains now.
func (d *day) at(now time.Time) *Tally {
	hour := now.Unix() / 3600
	slot := &d[(hour%hours+hours)%hours]
	if slot.hour != hour || slot.tally.Placed == nil {
		slot.hour, slot.tally = hour, newTally()
	}
	return &slot.tally
}

// sum adds up the current hour and the 23 hours before it.
func (d *day) sum(now time.Time) Tally {
	out, hour := newTally(), now.Unix()/3600
	for i := range d {
		if age := hour - d[i].hour; d[i].tally.Placed != nil && age >= 0 && age < hours {
			out.add(&d[i].tally)
		}
	}
	return out
}
