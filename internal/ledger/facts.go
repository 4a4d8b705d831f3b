package ledger

import (
	"slices"

	"github.com/berth-dev/berth/placement"
)

// facts has the inputs about a node from which its possible states are computed.
type facts struct {
	report    *Report
	lingerers lingerers
	pods      lives
	holdings  holdings
	// begun means that Accept has been called for the node.
	begun bool
	// witnessing means that other schedulers bind the pods (Witness). Pods that have ended and are
	// no longer reported then do not count: they matter only if the kubelet restarts, which the
	// ledger does not predict.
	witnessing bool
}

// decides reports whether Berth decides on the node. It returns false without a report.
func (f *facts) decides() bool { return f.report != nil && f.report.Model.Decides() }

// asFarAsKnown marks an answer as not exact if the report has only amounts. It does the same if the
// report is Unsure and a kubelet decides.
func (f *facts) asFarAsKnown(a Answer) Answer {
	if f.report.Amounts {
		a.Exact, a.Amounts = false, true
	}
	a.Exact = a.Exact && (!f.report.Unsure || f.decides())
	return a
}

// initial returns the states before any pod in flight is admitted: the state of the report, and the
// states to which its events lead.
func (f *facts) initial(mayChange sameness) worlds {
	w := worlds{model: f.report.Model, most: boundsOf(f.witnessing), pinsMemory: f.report.pinsMemory, shared: true}
	w.all = []world{{state: f.report.state}}
	if f.report.Amounts { // only the next report shows the resources of ended pods as free
		w.pinsMemory = false
		return w
	}
	var set uint32
	for _, uid := range f.report.order {
		set |= f.eventsOfReported(&w, uid)
	}
	f.lingerIn(&w, set)
	w.enable(set | w.addArrivals(f.pods.afloat(), mayChange))
	return w
}

// lingerIn adds the lingerers, ended pods that an admission in progress may have seen, to the
// worlds. The set events has the events of the reported pods.
func (f *facts) lingerIn(w *worlds, events uint32) {
	l := &f.lingerers
	if l.held == nil && !l.lost || !slices.ContainsFunc(f.pods.posted, func(p *pod) bool { return p.underway }) {
		return
	}
	if len(f.pods.afloat()) > 0 || l.lost {
		w.giveUp(ManyStates)
		return
	}
	w.lingering = &lingering{from: world{state: l.held, open: events}, uids: l.uids}
}

// eventsOfReported adds the events of a pod in the report, and returns the events that are possible
// at first.
func (f *facts) eventsOfReported(w *worlds, uid string) uint32 {
	r := f.report.pods[uid]
	if !r.holds {
		return 0
	}
	set := w.addStarts(uid, starts(&r.alloc))
	if p := f.pods.byUID[uid]; p == nil || p.ending() {
		set |= w.addEvent(event{kind: release, uid: uid})
	}
	return set
}

// afterAll returns the states after the pods in flight. If the report has only amounts, it admits
// the pods in only one order, so there is only one state.
func (f *facts) afterAll(first *worlds, flight []*pod) worlds {
	if f.report.Amounts {
		return first.charge(flight)
	}
	return first.admitAll(flight, interchangeable)
}

// flight returns the posted pods and, if withReserved is set, the reserved pods after them, without
// pods for which the kubelet pins nothing (isInert). If the report has only amounts, pods that are
// afloat come first.
func (f *facts) flight(withReserved bool) []*pod {
	if f.decides() {
		return nil // the state already has their allocations
	}
	out := make([]*pod, 0, len(f.pods.posted)+len(f.pods.reserved))
	if f.report.Amounts {
		out = f.pods.afloat()
	}
	out = append(out, f.pods.posted...)
	if withReserved {
		out = append(out, f.pods.reserved...)
	}
	return slices.DeleteFunc(out, f.isInert)
}

func (f *facts) isInert(p *pod) bool { return p.isInert(f.report.Model) }

// mortals returns the UIDs of the pods that can end by themselves and are not known to be ending.
// It omits pods that have no pinned resources, unless they are posted.
func (f *facts) mortals() []string {
	var list []string
	for uid, p := range f.pods.byUID {
		if p.mortal && !p.ending() && (p.stage == posted || f.report.pods[uid].holds) {
			list = append(list, uid)
		}
	}
	return list
}

// unshownCPUs counts the exclusive CPUs of pods that the report lists and the API has not shown. It
// leaves out pods for which known returns true; known may be nil. A caller that adds up the
// requests of the API's pods misses these CPUs. The result is 0 if Berth decides, or if the report
// has only amounts.
func (f *facts) unshownCPUs(known func(uid string) bool) (count int) {
	if f.report == nil || f.report.Amounts || f.decides() {
		return 0
	}
	for _, uid := range f.report.order {
		if f.pods.byUID[uid] != nil || known != nil && known(uid) {
			continue
		}
		alloc := f.report.pods[uid].alloc
		held := alloc.CPUs() // other containers reuse the CPUs of init containers
		count += held.Len()
	}
	return count
}

// see records a sighting, and reports whether the facts have changed.
func (f *facts) see(s *Sighting) bool {
	p := f.pods.byUID[s.UID]
	if s.Phase == Elsewhere {
		if p == nil || p.stage != afloat {
			return false
		}
		f.pods.leave(p)
		return true
	}
	if s.Ending() && (p == nil || !p.ending()) {
		f.pods.excuseUnseen(s.UID)
	}
	switch {
	case p == nil && (s.Phase == Ended && f.decides() || s.Ending() && f.witnessing) && !f.report.Has(s.UID):
		return false // the pod has left the node
	case f.witnessing && s.Phase == Ended && p != nil && p.stage == afloat && p.listed:
		f.pods.leave(p)
	case p == nil:
		f.pods.appear(s, f.report.Has(s.UID))
	case p.stage == reserved || s.Turn > 0 && (p.stage == afloat && !p.listed || p.isOther(s.Turn)):
		// The Binding was written after all, in the recorded order.
		f.pods.leave(p)
		f.pods.appear(s, f.report.Has(s.UID))
	default:
		resized := f.resize(p, s.Request)
		refitted := p.refitted(s)
		return p.show(s) || resized || refitted
	}
	f.doubtSize(s)
	return true
}

// resize records the present request of a known pod, and reports whether the states may change. For
// a pod that a report lists, they do not change, because the report shows the resources that the
// pod has. If Berth decides, the pod keeps its decision.
func (f *facts) resize(p *pod, now *placement.Request) bool {
	if f.decides() || sameAmounts(p.req, now) {
		return false
	}
	was := p.req
	p.asked = asked{req: now}
	if p.stage == reported || f.report != nil && f.report.Model.PinsAlike(was, now) {
		return false
	}
	p.resized = true
	f.pods.contend("")
	return true
}

// doubtSize records that a pod was resized between its Binding and the moment when the API first
// showed it. The decision about the pod was made for other amounts.
func (f *facts) doubtSize(s *Sighting) {
	p := f.pods.byUID[s.UID]
	if p == nil || p.stage == reported || s.Promise == nil || f.report == nil || f.decides() || f.report.Model.GivesAsked(s.Request, &s.Promise.Decision) {
		return
	}
	p.resized = true
	f.pods.contend("")
}

func sameAmounts(a, b *placement.Request) bool {
	if a.Level.MilliCPU != b.Level.MilliCPU || !slices.Equal(a.Level.Memory, b.Level.Memory) {
		return false
	}
	return slices.EqualFunc(a.Containers, b.Containers, func(a, b placement.ContainerRequest) bool {
		return a.MilliCPU == b.MilliCPU && slices.Equal(a.Memory, b.Memory)
	})
}
