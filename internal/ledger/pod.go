package ledger

import (
	"time"

	"github.com/berth-dev/berth/placement"
)

// stage is the progress of a pod's placement on a node. Only lives.become and lives.leave change
// it.
//
//	from                to       when                                     the promise
//	-                   reserved Reserve admits the pod                   is Reserve's decision
//	reserved            posted   Post, before the Binding is written      is the Binding's
//	-, reserved, afloat posted   See shows the Binding, with a turn       is the Binding's
//	-, reserved         afloat   See shows the Binding, without a turn    all become contended
//	posted              afloat   Doubt: the Binding may be written or not stays
//	reported            afloat   the API has the pod, the report does not was settled before
//	any                 reported a report lists the pod                   is settled
//	reserved, posted    -        Forget: the Binding was not written      is dropped
//	afloat              -        See shows the pod on another node        is dropped
//	all but reported    -        ForgetGone removes the pod               is dropped
//	all                 -        a report lists the pod as refused        is broken
//	posted, reported    -        neither API nor report has the pod       is dropped
type stage uint8

const (
	// nowhere: the ledger does not have the pod on this node.
	nowhere stage = iota
	// reserved: Reserve has accepted the pod, and the Binding is not written.
	reserved
	// posted: the Binding is written, or about to be written, and has a turn in the order.
	posted
	// afloat: the pod is bound, or may be bound, at an unknown position in the order.
	afloat
	// reported: a report lists the pod.
	reported
)

// pod has the facts about a pod that the ledger keeps in addition to the report.
type pod struct {
	uid string
	asked
	stage stage
	// created is the second in which the pod was created.
	created int64
	// wave is the number of the pod's wave (Candidate.Wave).
	wave int
	// turn is the position of a posted pod among the Bindings of the node.
	turn int64
	// underway means that the pod may have been bound before the node's latest report, so the pod's
	// admission may have begun before that report.
	underway bool
	// fresh means that the pod was bound after the report that was the latest when Witness recorded
	// the pod.
	fresh bool
	// doubt is the moment until which an earlier Binding to this node may still be written, or
	// zero.
	doubt time.Time
	sight
	debt
	// held is the pod's allocation if Berth decides. The pod keeps it until the pod is gone, even
	// if reports show other resources. held is nil if the allocation is not known, or if a kubelet
	// decides.
	held *placement.PodAllocation
	// displaced explains why the state does not assign all of held to the pod, or is "".
	displaced string
	refitting
}

// asked is the request of a pod, with cached properties.
type asked struct {
	req *placement.Request
	key string
	// inertOn is the model for which inert was computed. A kubelet never pins anything for an inert
	// pod.
	inertOn *placement.Model
	inert   bool
}

// sight has the facts about a pod that the API has shown.
type sight struct {
	// shown means that the API has shown the pod as bound to this node, which is final.
	shown bool
	phase Phase
	// mortal means that the pod can end by itself.
	mortal bool
	// inherited means that the pod was bound before this scheduler began to watch
	// (Sighting.Inherited).
	inherited bool
	// resized means that the pod's request changed before a report listed the pod. If the kubelet
	// admitted the pod before the change, the pod keeps that allocation. Otherwise the kubelet
	// decides about the new request.
	resized bool
	// answered means that the API has shown the kubelet's answer. passed means that a report lists
	// a pod that was bound later, but not this pod. A kubelet that keeps the order has then refused
	// this pod. Both matter only if other schedulers bind the pods (facts.witnessing).
	answered, passed bool
	// before is the turn of the first Binding after the pod's end, or 0 if the pod has not ended.
	before int64
	// gone means that the API no longer has the pod, or that the pod's Binding is in doubt. goneAt
	// is the time when the pod left the API, or when the doubt ends.
	gone   bool
	goneAt time.Time
}

// debt is the promise to a pod, and the progress of settling it. A promise is settled when a report
// shows whether it was kept.
type debt struct {
	// promise is the decision of the Binding, or nil if there is none.
	promise *Promise
	// loose means that only admission is promised, and no particular CPUs (Candidate.Loose).
	loose bool
	// listed means that some report has listed the pod, so its promise is settled or unconfirmed.
	listed bool
	// contended means that the promise may be broken although the decision was right.
	contended bool
	// unconfirmed is a promise whose resources the report lists only in part, or not at all. A
	// later report settles it.
	unconfirmed *Promise
	// suspect is the outcome of a broken promise, kept until the API shows the pod's Binding.
	// Before that, the API may show changes that explain the broken promise.
	suspect *PromiseOutcome
}

func newPod(c *Candidate) *pod {
	return &pod{uid: c.Request.UID, asked: asked{req: c.Request}, created: c.Created, wave: c.Wave, sight: sight{mortal: c.Mortal}, debt: debt{loose: c.Loose}}
}

func (p *pod) candidate() *Candidate {
	return &Candidate{Request: p.req, Created: p.created, Loose: p.loose, Wave: p.wave}
}

// isInert reports whether a kubelet with this model never pins anything for the request.
func (a *asked) isInert(m *placement.Model) bool {
	if a.inertOn != m {
		a.inert, a.inertOn = inert(m, a.req), m
	}
	return a.inert
}

// inert implements isInert. It asks an empty node, because the kubelet's rules for this do not
// depend on its allocations.
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

func (a *asked) requestKey() string {
	if a.key == "" {
		a.key = RequestKey(a.req)
	}
	return a.key
}

// ending reports whether the pod is being deleted, has ended or has left the API.
func (s *sight) ending() bool { return s.phase != Bound }

// show records the API's view of a known pod, and reports whether the possible states may change.
func (s *sight) show(now *Sighting) bool {
	news := s.ending() != now.Ending() || s.gone
	s.shown, s.phase, s.mortal, s.gone = true, now.Phase, now.Mortal, false
	return news
}

// vanish records that the API no longer has the pod.
func (s *sight) vanish(now time.Time) {
	s.gone, s.goneAt, s.phase = true, now, max(s.phase, Ending)
}

func (d *debt) excuse() {
	d.contended = d.contended || d.promise != nil
	if d.suspect != nil {
		d.suspect.Contended = true
	}
}

func (d *debt) promisedExact() bool { return d.promise != nil && d.promise.Exact }

// doubted reports whether an earlier Binding of the pod to this node may still be written.
func (p *pod) doubted() bool { return !p.doubt.IsZero() && !p.shown }

// isOther reports whether the turn belongs to an earlier Binding of the pod, and not to the Binding
// that was sent last.
func (p *pod) isOther(turn int64) bool { return p.stage == posted && p.doubted() && p.turn != turn }

// grant promises a decision to the pod. If the decision is binding, the pod holds it from now on.
func (p *pod) grant(d *placement.Decision, exact, binds bool) {
	p.promise = &Promise{Decision: d.Clone(), Exact: exact}
	if binds {
		p.held = p.promise.Decision.Held()
	}
}

func (p *pod) holdIn(s *placement.State) {
	if p.held != nil {
		p.displaced = s.Hold(p.held)
	}
}
