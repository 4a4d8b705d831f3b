package ledger

import (
	"cmp"
	"slices"
	"time"
)

// lives holds what the ledger knows about the node's pods in addition to the report. Each pod is in
// byUID. A pod in the stage posted or reserved is also in the list of that name. Posted pods are
// ordered by turn, and reserved pods in the order of the calls of Reserve.
type lives struct {
	byUID            map[string]*pod
	posted, reserved []*pod
	// turn is the highest turn that was assigned or seen.
	turn int64
	// strangers is the sequence number of the latest report in which a pod without a turn was new
	// (hasNewcomers). A decision that used an earlier report may not have considered that pod.
	strangers int64
}

// become sets the stage of a pod, and adds the pod if it is new.
func (l *lives) become(p *pod, s stage) {
	l.unlist(p)
	if l.byUID == nil {
		l.byUID = map[string]*pod{}
	}
	p.stage, l.byUID[p.uid] = s, p
	switch s {
	case reserved:
		l.reserved = append(l.reserved, p)
	case reported:
		p.listed, p.resized = true, false
	case posted:
		l.turn = max(l.turn, p.turn)
		at, _ := slices.BinarySearchFunc(l.posted, p.turn, func(q *pod, turn int64) int { return cmp.Compare(q.turn, turn) })
		l.posted = slices.Insert(l.posted, at, p)
	}
}

func (l *lives) leave(p *pod) {
	l.unlist(p)
	p.stage = nowhere
	delete(l.byUID, p.uid)
}

func (l *lives) unlist(p *pod) {
	is := func(q *pod) bool { return q == p }
	switch p.stage {
	case reserved:
		l.reserved = slices.DeleteFunc(l.reserved, is)
	case posted:
		l.posted = slices.DeleteFunc(l.posted, is)
	}
}

// post moves a reserved pod to the stage posted, and gives it the next turn. promise replaces the
// promise that Reserve made.
func (l *lives) post(p *pod, promise *Promise) {
	p.turn, p.promise, p.contended, p.underway = l.turn+1, promise, p.doubted(), false
	l.become(p, posted)
}

// doubtful moves a posted pod to the stage afloat. The pod's Binding may have been written, may
// still be written (until at the latest), or may never be written.
func (l *lives) doubtful(p *pod, until time.Time) {
	p.doubt, p.gone, p.goneAt = until, true, until
	l.become(p, afloat)
}

// takeBack removes a pod whose Binding was not written. If an earlier Binding of the pod may still
// be written, the pod becomes afloat instead.
func (l *lives) takeBack(p *pod) {
	l.leave(p)
	if p.doubted() {
		p.excuse()
		l.doubtful(p, p.doubt)
	}
}

// appear adds a pod that the API shows as bound. Either the ledger did not have the pod, or it did
// not expect this Binding.
func (l *lives) appear(s *Sighting, listed bool) {
	p := &pod{uid: s.UID, asked: asked{req: s.Request}, created: s.Created, turn: s.Turn, underway: true, debt: debt{promise: s.Promise}}
	p.inherited = s.Inherited
	if s.Promise != nil {
		p.held, p.generation = s.Promise.Decision.Held(), s.Generation
	}
	p.show(s)
	l.turn = max(l.turn, s.Turn)
	switch {
	case listed:
		p.promise = nil
		l.become(p, reported)
	case s.Turn > 0:
		p.contended = p.promise != nil && (l.hasEnding(p) || l.hasStrangerTo(s))
		l.become(p, posted)
	default:
		l.become(p, afloat)
		l.contend("") // no decision considered this pod
	}
}

// hasEnding reports whether the API showed the end of another pod on the node before it showed this
// pod as bound. Possibly the scheduler that bound the pod did not know of this end. If this
// scheduler bound the pod, excuseUnseen handles the case.
func (l *lives) hasEnding(but *pod) bool {
	for _, p := range l.byUID {
		if p != but && p.ending() {
			return true
		}
	}
	return false
}

// hasStrangerTo reports whether the node has a pod without a turn that the decision about this pod
// may not have considered. A standby scheduler can learn of such a pod earlier than the leader
// that decided.
func (l *lives) hasStrangerTo(s *Sighting) bool {
	return s.Report < l.strangers || len(l.afloat()) > 0
}

// contend marks all promises as contended, except the promise to the pod with this UID.
func (l *lives) contend(but string) {
	for uid, p := range l.byUID {
		if uid != but {
			p.excuse()
		}
	}
}

// When the API shows that a pod is ending, excuseUnseen marks as contended every promise whose
// Binding the API has not shown yet. The API shows changes in order, so the pod was ending before
// these Bindings, but their decisions did not consider this.
func (l *lives) excuseUnseen(ending string) {
	for uid, p := range l.byUID {
		if !p.shown && uid != ending {
			p.excuse()
		}
	}
}

// settleSuspect returns and clears the pod's suspect outcome (debt.suspect), or returns nil. Call
// it when the API shows a change of the pod.
func (l *lives) settleSuspect(uid string) (o *PromiseOutcome) {
	if p := l.byUID[uid]; p != nil {
		o, p.suspect = p.suspect, nil
	}
	return o
}

// afloat returns the pods whose position in the order of Bindings is not known, sorted by UID.
func (l *lives) afloat() []*pod {
	var list []*pod
	for _, p := range l.byUID {
		if p.stage == afloat {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *pod) int { return cmp.Compare(a.uid, b.uid) })
	return list
}

// departed returns the pods that have left the API but may still be in the kubelet. It leaves out
// pods that are afloat, because they may never have been bound.
func (l *lives) departed() []string {
	var list []string
	for uid, p := range l.byUID {
		if p.gone && p.stage != afloat {
			list = append(list, uid)
		}
	}
	return list
}

func newestOf(flight []*pod) int64 {
	newest := int64(beforeAll)
	for _, p := range flight {
		newest = max(newest, p.created)
	}
	return newest
}

// forgetHeld removes the allocations that Berth decided, because a kubelet now decides on the node.
func (l *lives) forgetHeld() {
	for _, p := range l.byUID {
		p.held, p.displaced = nil, ""
	}
}

// exchangeable returns the given pods that can exchange positions with another pod.
func (l *lives) exchangeable(uids []string) []*pod {
	var list []*pod
	for _, uid := range uids {
		if p := l.byUID[uid]; p != nil && l.hasTwin(p) {
			list = append(list, p)
		}
	}
	return list
}

func (l *lives) hasTwin(p *pod) bool {
	if p.stage == reported {
		return false
	}
	for _, q := range l.byUID {
		if q != p && q.stage != reported && interchangeable(q, p) {
			return true
		}
	}
	return false
}

// noteEnd records that the pod ended before all Bindings that the API shows from now on.
func (l *lives) noteEnd(p *pod) {
	if p.before == 0 {
		p.before = l.turn + 1
	}
}

// endedBefore returns the pods that had ended before the Binding of a pod. The kubelet has released
// them before it admits the pod.
func (l *lives) endedBefore(p *pod) (uids []string) {
	for uid, q := range l.byUID {
		if q.before > 0 && q.before <= p.turn {
			uids = append(uids, uid)
		}
	}
	return uids
}

// quiet reports whether the node has no pods in flight and no ending pods.
func (l *lives) quiet() bool {
	for _, p := range l.byUID {
		if p.stage != reported || p.ending() {
			return false
		}
	}
	return true
}
