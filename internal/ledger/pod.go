package ledger

import (
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
	uid string
	asked
	stage stage
	// created is the second of its creation.
	created int64
	// wave: as in Candidate.
	wave int
	// turn orders posted pods.
	turn int64
	// underway: it was bound when the node's report came, so that its admission may have begun
	// before.
	underway bool
	// doubt is how long an earlier Binding to this node may still be written; zero: there is none.
	doubt time.Time
	sight
	debt
	// held is what the pod was given if Berth decides: it keeps that until it has left, whatever
	// reports show. Nil if it is unknown, and if a kubelet decides.
	held *placement.PodAllocation
	// displaced is why it does not have all of it.
	displaced string
	refitting
}

// asked is the request of a pod, and what was found out about it.
type asked struct {
	req *placement.Request
	// key is requestKey of req, once somebody asked.
	key string
	// inertOn is the model on which inert was found out: nothing is ever pinned for an inert pod.
	inertOn *placement.Model
	inert   bool
}

// sight is what the API has told about a pod.
type sight struct {
	// shown: it is bound to this node, so that nothing can take it back.
	shown bool
	phase Phase
	// mortal: it can end by itself.
	mortal bool
	// inherited: as in Sighting.
	inherited bool
	// resized: what it asks for changed before a report listed it. A kubelet that had admitted it
	// keeps what it has; any other kubelet admits what it asks for now.
	resized bool
	// gone: the API does not have it any more, since goneAt.
	gone   bool
	goneAt time.Time
}

// debt is what a pod was promised, and how far that is settled.
type debt struct {
	// promise is the decision of the Binding; nil when we made none.
	promise *Promise
	// loose: as in Candidate.
	loose bool
	// listed: some report has listed the pod, so that its promise is settled.
	listed bool
	// contended: the promise may be broken without a wrong decision.
	contended bool
	// unconfirmed is a promise when a report has listed nothing of it, or a part: the next one
	// decides.
	unconfirmed *Promise
	// suspect is a broken promise, until the API has shown the Binding: older news may be on their
	// way.
	suspect *PromiseOutcome
}

// newPod is a candidate that nobody has decided for yet.
func newPod(c *Candidate) *pod {
	return &pod{uid: c.Request.UID, asked: asked{req: c.Request}, created: c.Created, wave: c.Wave, sight: sight{mortal: c.Mortal}, debt: debt{loose: c.Loose}}
}

// candidate is the pod as one that still wants the node.
func (p *pod) candidate() *Candidate {
	return &Candidate{Request: p.req, Created: p.created, Loose: p.loose, Wave: p.wave}
}

// isInert reports whether a kubelet of the model never pins anything for the request.
func (a *asked) isInert(m *placement.Model) bool {
	if a.inertOn != m {
		a.inert, a.inertOn = inert(m, a.req), m
	}
	return a.inert
}

// inert asks an empty node: what a kubelet looks at does not depend on what it has handed out.
func inert(m *placement.Model, r *placement.Request) bool {
	d := decisions.Get().(*placement.Decision)
	defer decisions.Put(d)
	if v := placement.Decide(m.NewState(), r, d); !v.OK() {
		return false
	}
	for i := range d.Containers {
		c := &d.Containers[i]
		if !c.CPUs.IsEmpty() || len(c.Memory) > 0 || len(c.Devices) > 0 || len(c.Provided) > 0 {
			return false
		}
	}
	return true
}

// requestKey is equal for requests that get the same decisions on the same state.
func (a *asked) requestKey() string {
	if a.key == "" {
		a.key = RequestKey(a.req)
	}
	return a.key
}

// ending reports whether the pod is being deleted, has ended or is gone.
func (s *sight) ending() bool { return s.phase != Bound }

// show records what the API shows of a known pod, and reports whether this changes anything.
func (s *sight) show(now *Sighting) bool {
	news := s.ending() != now.Ending() || s.gone
	s.shown, s.phase, s.mortal, s.gone = true, now.Phase, now.Mortal, false
	return news
}

// vanish notes that the API no longer has the pod.
func (s *sight) vanish(now time.Time) {
	s.gone, s.goneAt, s.phase = true, now, max(s.phase, Ending)
}

// excuse records that the promise may be broken without a wrong decision.
func (d *debt) excuse() {
	d.contended = d.contended || d.promise != nil
	if d.suspect != nil {
		d.suspect.Contended = true
	}
}

// promisedExact reports whether CPUs, memory and devices were promised.
func (d *debt) promisedExact() bool { return d.promise != nil && d.promise.Exact }

// doubted reports whether another Binding of the pod to this node may be written.
func (p *pod) doubted() bool { return !p.doubt.IsZero() && !p.shown }

// isOther reports whether a Binding with that turn is other than the one that was sent last.
func (p *pod) isOther(turn int64) bool { return p.stage == posted && p.doubted() && p.turn != turn }

// grant promises the pod a decision. If it binds, the pod holds that from now on.
func (p *pod) grant(d *placement.Decision, exact, binds bool) {
	p.promise = &Promise{Decision: d.Clone(), Exact: exact}
	if binds {
		p.held = p.promise.Decision.Held()
	}
}

// holdIn writes down what the pod holds.
func (p *pod) holdIn(s *placement.State) {
	if p.held != nil {
		p.displaced = s.Hold(p.held)
	}
}
