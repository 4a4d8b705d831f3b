package shadow

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
)

// The limits of a Book.
const (
	// maxOpen limits the number of pods that wait for their kubelet's answer.
	maxOpen = 8192
	// maxNotable limits the length of the list of notable pods (View.Pods).
	maxNotable = 512
	// patience is the time after which an open entry is closed without being judged.
	patience = 10 * time.Minute
)

// Book has the predictions that wait for an answer, and counts the outcomes of all other
// predictions. It is not safe for concurrent use.
type Book struct {
	open    map[string]*entry            // by UID
	onNode  map[string]map[string]*entry // the same by node, then UID
	notable []Record                     // oldest first
	total   Tally
	day     day
	claims  Claims // Misaligned is oldest first
}

// entry is a prediction that waits for the kubelet's answer.
type entry struct {
	Record
	// why is the reason why the answer will not be judged, or "".
	why Reason
	// admitted means that the API has shown that the kubelet admitted the pod.
	admitted bool
	// answer is the result according to the kubelet's answer in the API, or "" if the API has not
	// shown an answer. `answered` is the API server's revision (resourceVersion) of the version of
	// the pod with this answer. The answer counts as soon as the agent has written an object at
	// this revision or later.
	answer   Result
	answered uint64
}

// NewBook returns a book without entries.
func NewBook() *Book {
	return &Book{open: map[string]*entry{}, onNode: map[string]map[string]*entry{}, total: newTally()}
}

// Bound opens an entry for a pod that was bound. If why is not "", the answer will not be judged.
// If Bound has to close a record at once, it returns the record: this one, or the record of the
// same pod on another node.
func (b *Book) Bound(r Record, why Reason) (closed *Record) {
	switch old := b.open[r.UID]; {
	case old == nil:
	case old.Node == r.Node:
		return nil
	default:
		closed = b.close(old, NotJudged, NeverSeen, r.Bound)
	}
	b.total.came(&r.Pod)
	b.day.at(r.Bound).came(&r.Pod)
	e := &entry{Record: r, why: why}
	if len(b.open) >= maxOpen {
		return b.close(e, NotJudged, TooMany, r.Bound)
	}
	b.open[r.UID] = e
	if b.onNode[r.Node] == nil {
		b.onNode[r.Node] = map[string]*entry{}
	}
	b.onNode[r.Node][r.UID] = e
	return closed
}

// Undecided returns the record of a pod that has no prediction, for the Reason Undecided. It
// returns nil for other pods, and if the kubelet's answer is already known.
func (b *Book) Undecided(uid string) *Record {
	e := b.open[uid]
	if e == nil || e.why != Undecided || e.admitted || e.Got != nil {
		return nil
	}
	r := e.Record
	return &r
}

// Foreseen stores r: a record that Undecided returned, to which the caller has added a prediction.
// It does so only if the kubelet's answer is still not known, and reports whether it did.
func (b *Book) Foreseen(r *Record) bool {
	if b.Undecided(r.UID) == nil {
		return false
	}
	e := b.open[r.UID]
	e.Record, e.why = *r, ""
	e.Detail = ""
	return true
}

// Later reports whether a pod that waits for its kubelet's answer was bound after the given time.
func (b *Book) Later(uid string, than time.Time) bool {
	e := b.open[uid]
	return e != nil && e.Bound.After(than)
}

// NotLooked counts a pod for which shadow mode checked no other node.
func (b *Book) NotLooked(now time.Time) {
	b.total.NotLooked++
	b.day.at(now).NotLooked++
}

// Admitted records that the kubelet has admitted the pod. The parameter `written` is the revision
// of the version of the pod that shows this. If the pod is not pinned or will not be judged,
// Admitted closes the entry.
func (b *Book) Admitted(uid string, written uint64, now time.Time) *Record {
	e := b.open[uid]
	if e == nil || e.answer != "" {
		return nil
	}
	if !e.admitted {
		e.admitted, e.answered = true, written
	}
	if e.Pinned && e.why == "" {
		return nil // a report will list its resources
	}
	e.Got = &Answer{Outcome: Admitted}
	return b.close(e, Exact, "", now)
}

// Refused records that the kubelet has refused the pod with the reason. The parameter `written` is
// the revision of the version of the pod that shows this. If the pod is pinned, Settled records the
// result.
func (b *Book) Refused(uid, reason string, written uint64, now time.Time) *Record {
	e := b.open[uid]
	if e == nil {
		return nil
	}
	e.Got, e.answered = &Answer{Outcome: Rejected, Reason: reason}, written
	if e.why != "" {
		return b.close(e, NotJudged, e.why, now)
	}
	if !e.Pinned {
		e.answer = Missed
	}
	return nil
}

// Settled records the outcome of a prediction.
func (b *Book) Settled(o *ledger.PromiseOutcome, now time.Time) *Record {
	e := b.open[o.UID]
	if e == nil {
		return nil
	}
	if !o.Refused && e.Got == nil {
		e.Got = &Answer{Outcome: Admitted, Containers: Found(&o.Found)}
	}
	switch o.Result() {
	case ledger.ResultKept:
		if o.Exact {
			return b.close(e, Exact, "", now)
		}
		return b.close(e, ByVerdict, "", now)
	case ledger.ResultMispredicted:
		return b.close(e, Wrong, "", now)
	case ledger.ResultFalseAlarm:
		e.answer = FalseAlarm
	case ledger.ResultEither:
		if !o.Refused {
			return b.close(e, Either, "", now)
		}
		e.answer = Either
	case ledger.ResultForetold:
		e.answer = Foretold
	case ledger.ResultRefused:
		e.answer = Missed
	default:
		return b.close(e, NotJudged, Contended, now)
	}
	return nil
}

// Alive records that the agent of a node has written an object with the given revision. The caller
// has found no reason in this object to call Doubt. Alive closes the entries whose answers are not
// newer than this revision.
func (b *Book) Alive(node string, written uint64, now time.Time) []Record {
	return b.closeAll(b.onNode[node], now, func(e *entry) (Result, Reason) {
		switch {
		case e.answer == "" || e.Got == nil || written < e.answered:
			return "", ""
		case e.Got.Outcome == Rejected && !ofManagers(e.Got.Reason):
			return NotJudged, OtherRule
		default:
			return e.answer, ""
		}
	})
}

// ofManagers reports whether the kubelet's resource managers refuse pods with this reason.
func ofManagers(reason string) bool {
	for r := placement.TopologyAffinityError; r <= placement.PodLevelResourcesNotSupported; r++ {
		if r.String() == reason {
			return true
		}
	}
	return false
}

// Doubt closes all open entries of a node as not judged, for the given reason.
func (b *Book) Doubt(node string, why Reason, now time.Time) []Record {
	return b.closeAll(b.onNode[node], now, func(*entry) (Result, Reason) { return NotJudged, why })
}

// Gone records that the pod has ended or is no longer in the API. It changes nothing if the
// kubelet's answer is known and waits for Alive. If the API has shown that the kubelet admitted the
// pod, but no report has listed it, Gone judges only the admission, and only if no rejection was
// predicted. Otherwise the pod is not judged.
func (b *Book) Gone(uid string, now time.Time) *Record {
	e := b.open[uid]
	switch {
	case e == nil || e.answer != "":
		return nil
	case e.admitted && e.why == "" && e.Expected != nil && e.Expected.Outcome != Rejected:
		e.Got, e.answer = &Answer{Outcome: Admitted}, ByVerdict
		if e.Expected.Outcome == EitherWay {
			e.answer = Either
		}
		return nil
	default:
		return b.close(e, NotJudged, NeverSeen, now)
	}
}

// Expire closes, as not judged, the entries that are still open after patience.
func (b *Book) Expire(now time.Time) []Record {
	return b.closeAll(b.open, now, func(e *entry) (Result, Reason) {
		switch {
		case now.Sub(e.Bound) < patience:
			return "", ""
		case e.admitted || e.Got != nil:
			return NotJudged, LateAgent // the kubelet has answered, but the agent has not reported the answer
		default:
			return NotJudged, NoAnswer
		}
	})
}

// closeAll closes the given entries for which the function `judge` returns a result, in the order
// of UIDs.
func (b *Book) closeAll(some map[string]*entry, now time.Time, judge func(*entry) (Result, Reason)) (closed []Record) {
	for _, uid := range slices.Sorted(maps.Keys(some)) {
		e := some[uid]
		if result, why := judge(e); result != "" {
			closed = append(closed, *b.close(e, result, why, now))
		}
	}
	return closed
}

// close counts an entry and forgets it. It ignores the result of an entry that will not be judged.
func (b *Book) close(e *entry, result Result, why Reason, now time.Time) *Record {
	delete(b.open, e.UID)
	delete(b.onNode[e.Node], e.UID)
	if len(b.onNode[e.Node]) == 0 {
		delete(b.onNode, e.Node)
	}
	if e.why != "" {
		result, why = NotJudged, e.why
	}
	e.Result, e.Reason = result, why
	b.total.closed(&e.Record)
	b.day.at(now).closed(&e.Record)
	if e.Instead != nil || result.Mistaken() || e.Got != nil && e.Got.Outcome == Rejected {
		if len(b.notable) >= maxNotable {
			b.notable = slices.Delete(b.notable, 0, 1)
		}
		b.notable = append(b.notable, e.Record)
	}
	return &e.Record
}

// Captured records the name of the file with the inputs of a prediction.
func (b *Book) Captured(uid, name string) {
	for i := range b.notable {
		if b.notable[i].UID == uid {
			b.notable[i].Capture = name
		}
	}
}

// View is the content of a Book.
type View struct {
	// Summary is a sentence about the last 24 hours (Tally.Sentence).
	Summary string `json:"summary"`
	// Day counts the last 24 hours; Total counts the time since the Book was created. Open is the
	// number of pods that wait for the answer of their kubelet.
	Day   Tally `json:"day"`
	Total Tally `json:"total"`
	Open  int   `json:"open"`
	// Pods are the last pods that were rejected or mispredicted, or that Berth would have placed on
	// another node, the newest first.
	Pods []Record `json:"pods"`
	// Claims has the results about ResourceClaims. It is nil if no pod had claims.
	Claims *Claims `json:"claims,omitempty"`
}

// View returns the current content of the Book. Later changes of the Book do not change the result.
func (b *Book) View(now time.Time) View {
	v := View{Day: b.day.sum(now), Total: newTally(), Open: len(b.open), Pods: append([]Record{}, b.notable...), Claims: b.claimed()}
	v.Total.add(&b.total)
	slices.Reverse(v.Pods)
	v.Summary = v.Day.Sentence()
	return v
}
