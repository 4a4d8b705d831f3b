package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-dev/berth/placement"
)

// stage says how far a pod has come on its way to a node. Only lives.become and lives.leave change
// it.
//
//	from                to        when                                         the promise
//	-                   reserved  Reserve admits it                            noted for later pods
//	reserved            posted    Post, before its Binding is written          that of the Binding
//	-, reserved, afloat posted    See shows its Binding, with a turn           that of the Binding
//	-, reserved         afloat    See shows its Binding, without a turn        excuses all others
//	posted              afloat    Doubt: was its Binding written?              stays
//	reported            afloat    a report lists it no more, the API has it    was settled before
//	any                 reported  a report lists it                            is settled
//	reserved, posted    -         Forget: its Binding was not written          is dropped
//	afloat              -         See shows it on another node                 is dropped
//	all but reported    -         ForgetGone                                   is dropped
//	all                 -         a report says that the kubelet refused it    is broken
//	posted, reported    -         gone from the API, and from the report       is dropped
type stage uint8

const (
	// nowhere: the node does not count with the pod.
	nowhere stage = iota
	// reserved: Reserve has taken it in, its Binding is not written.
	reserved
	// posted: its Binding is written, or about to be, and has a turn in the order.
	posted
	// afloat: it is bound, or may be, at a place in the order that is not known.
	afloat
	// reported: a report lists it.
	reported
)

// pod is what the ledger knows of a pod beside the report.
type pod struct {
	uid   string
	req   *placement.Request
	stage stage
	// created is the second of its creation.
	created int64
	// wave: as in Candidate.
	wave int
	// key is requestKey of req, once somebody asked.
	key string
	// inertOn is the model on which inert was found out: nothing is ever pinned for an inert pod.
	inertOn *placement.Model
	inert   bool
	// turn orders posted pods.
	turn int64
	// underway: it was bound when the node's report came, so that its admission may have begun
	// before.
	underway bool

	// What the API has told. shown: it is bound to this node, so that nothing can take it back.
	shown bool
	// ending: it is being deleted, has ended or is gone.
	ending bool
	// over: it has ended for good.
	over bool
	// mortal: it can end by itself.
	mortal bool
	// loose: as in Candidate.
	loose bool
	// gone: the API does not have it any more, since goneAt.
	gone   bool
	goneAt time.Time
	// inherited: as in Sighting.
	inherited bool
	// doubt is how long an earlier Binding to this node may still be written; zero: there is none.
	doubt time.Time

	// listed: some report has listed it, so that its promise is settled.
	listed bool
	// promise is the decision of the Binding; nil when we made none.
	promise *Promise
	// held is what the pod was given where Berth decides: it keeps that until it has left, whatever
	// reports show. Nil where nobody has told, and where a kubelet decides.
	held *placement.PodAllocation
	// displaced says why it does not have all of it.
	displaced string
	// unconfirmed is a promise when a report has listed nothing of it, or a part: the next one
	// decides.
	unconfirmed *Promise
	// contended: what was promised may be broken by nobody's mistake.
	contended bool
	// suspect is a broken promise, until the API has shown the Binding: older news may be on their
	// way.
	suspect *PromiseOutcome
}

// doubted says whether another Binding of the pod to this node may be written.
func (p *pod) doubted() bool { return !p.doubt.IsZero() && !p.shown }

// isOther says whether a Binding with that turn is other than the one that was sent last.
func (p *pod) isOther(turn int64) bool { return p.stage == posted && p.doubted() && p.turn != turn }

// show takes in what the API shows of a pod that is known, and says whether anything follows from
// it.
func (p *pod) show(s *Sighting) bool {
	news := p.ending != s.Ending || p.gone
	p.shown, p.ending, p.over, p.mortal, p.gone = true, s.Ending, s.Over, s.Mortal, false
	return news
}

// vanish notes that the API no longer has the pod.
func (p *pod) vanish(now time.Time) { p.gone, p.goneAt, p.ending = true, now, true }

// excuse notes that what was promised the pod may be broken by nobody's mistake.
func (p *pod) excuse() {
	p.contended = p.contended || p.promise != nil
	if p.suspect != nil {
		p.suspect.Contended = true
	}
}

// lives holds the pods that a node counts with beside its report. Each is in pods under its UID. It
// is in posted or reserved exactly while its stage says so, posted pods by turn, reserved ones as
// Reserve took them.
type lives struct {
	pods             map[string]*pod
	posted, reserved []*pod
	// turn is the last that was given or seen.
	turn int64
	// strangers is the sequence of the last report that first listed a pod without a turn. A
	// decision on an earlier one need not have known of that pod.
	strangers int64
}

// become moves a pod to a stage, new pods too.
func (l *lives) become(p *pod, s stage) {
	l.unlist(p)
	p.stage, l.pods[p.uid] = s, p
	switch s {
	case reserved:
		l.reserved = append(l.reserved, p)
	case reported:
		p.listed = true
	case posted:
		l.turn = max(l.turn, p.turn)
		at, _ := slices.BinarySearchFunc(l.posted, p.turn, func(q *pod, turn int64) int { return cmp.Compare(q.turn, turn) })
		l.posted = slices.Insert(l.posted, at, p)
	}
}

// leave ends a pod's life on the node.
func (l *lives) leave(p *pod) {
	l.unlist(p)
	p.stage = nowhere
	delete(l.pods, p.uid)
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

// post gives a reserved pod the next turn. The promise takes the place of that of Reserve.
func (l *lives) post(p *pod, promise *Promise) {
	p.turn, p.promise, p.contended, p.underway = l.turn+1, promise, p.doubted(), false
	l.become(p, posted)
}

// doubtful sets a posted pod afloat: its Binding may be written until that moment, or never.
func (l *lives) doubtful(p *pod, until time.Time) {
	p.doubt, p.gone, p.goneAt = until, true, until
	l.become(p, afloat)
}

// takeBack ends the life of a pod whose Binding was not written. Where an earlier one may still be,
// it is afloat.
func (l *lives) takeBack(p *pod) {
	l.leave(p)
	if p.doubted() {
		p.excuse()
		l.doubtful(p, p.doubt)
	}
}

// appear begins the life of a pod that the API shows bound, or that is shown otherwise than was
// known.
func (l *lives) appear(s *Sighting, listed bool) {
	p := &pod{uid: s.UID, req: s.Request, created: s.Created, inherited: s.Inherited, turn: s.Turn, promise: s.Promise, underway: true}
	if s.Promise != nil {
		p.held = s.Promise.Decision.Held()
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
		l.contend() // nobody counted with it
	}
}

// hasEnding says whether the API has shown another pod of the node to be ending before it shows
// this one bound. The scheduler that decided need not have known: its own ledger tells
// (excuseUnseen).
func (l *lives) hasEnding(but *pod) bool {
	for _, p := range l.pods {
		if p != but && p.ending {
			return true
		}
	}
	return false
}

// hasStrangerTo says whether the node has got a pod without a turn that the scheduler which decided
// about this one need not have known. A scheduler that does not lead hears of that pod in time, and
// the leader that decided may not.
func (l *lives) hasStrangerTo(s *Sighting) bool {
	return s.Report < l.strangers || len(l.afloat()) > 0
}

// contend excuses everything that has been promised.
func (l *lives) contend() {
	for _, p := range l.pods {
		p.excuse()
	}
}

// excuseUnseen excuses the promises whose Bindings the API has not shown yet, when it shows that
// another pod is ending. It tells in order: that one was ending before those were bound, and the
// decisions did not know.
func (l *lives) excuseUnseen(ending string) {
	for uid, p := range l.pods {
		if !p.shown && uid != ending {
			p.excuse()
		}
	}
}

// settleSuspect returns the broken promise of a pod that the API shows now; nil for none.
func (l *lives) settleSuspect(uid string) (o *PromiseOutcome) {
	if p := l.pods[uid]; p != nil {
		o, p.suspect = p.suspect, nil
	}
	return o
}

// afloat returns the pods whose place in the order is not known, by UID.
func (l *lives) afloat() []*pod {
	var list []*pod
	for _, p := range l.pods {
		if p.stage == afloat {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *pod) int { return cmp.Compare(a.uid, b.uid) })
	return list
}

// departed returns the pods that have left the API and that the kubelet may still have. One afloat
// is only feared.
func (l *lives) departed() []string {
	var list []string
	for uid, p := range l.pods {
		if p.gone && p.stage != afloat {
			list = append(list, uid)
		}
	}
	return list
}

// newestOf returns the latest second of creation.
func newestOf(flight []*pod) int64 {
	newest := int64(beforeAll)
	for _, p := range flight {
		newest = max(newest, p.created)
	}
	return newest
}
