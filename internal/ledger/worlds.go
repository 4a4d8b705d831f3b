package ledger

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/berth-dev/berth/placement"
)

// maxEvents is the maximum number of events of a node that the ledger considers. If there are more,
// pods wait for a report. The limit is higher if another scheduler binds the pods (boundsOf).
const maxEvents = 6

// maxWorlds is the maximum number of possible states of a node that the ledger considers. If there
// are more, pods wait for a report. The limit is higher if another scheduler binds the pods
// (boundsOf).
const maxWorlds = 96

// bounds limits the possibilities of one node. mixed limits the ways in which one set of events can
// happen during one admission. ways limits the sum of these ways over all sets and states.
type bounds struct{ events, worlds, mixed, ways int }

// boundsOf returns the bounds of a node. The bounds are larger if another scheduler binds the pods,
// because the ledger then answers only once for each pod and cannot make the pod wait.
func boundsOf(witnessing bool) bounds {
	if witnessing {
		return bounds{maxEvents + 4, 11 * maxWorlds, 32 * maxMixed, maxWays}
	}
	return bounds{maxEvents, maxWorlds, maxMixed, maxWorlds * maxMixed << maxEvents}
}

type eventKind uint8

const (
	// release: the pod ends, and the kubelet releases its resources.
	release eventKind = iota
	// containerStart: a container starts, which frees the memory of init containers before it.
	containerStart
	// admit: the kubelet admits a pod. It is not known before or after which other pods.
	admit
)

// event is a change of the node that may happen at any moment, or may already have happened without
// a report.
type event struct {
	kind      eventKind
	uid       string
	container string
	// req is the request of the admitted pod.
	req *placement.Request
	// then is the set of events that become possible after this one.
	then uint32
}

// world is one state that the node may be in.
type world struct {
	state *placement.State
	// open is the set of events that are possible in this world and have not happened.
	open uint32
}

// worlds has all states in which a node may be, the likeliest first.
type worlds struct {
	model *placement.Model
	most  bounds
	// pinsMemory means that the memory manager is active, so the start of containers matters.
	pinsMemory bool

	events []event
	// lingering has the ended pods that an admission may still count if it began before the report,
	// or is nil. It is set to nil after the first pod in flight that the kubelet cannot have
	// refused.
	lingering *lingering
	// after has, for each pod in flight, the events that its admission makes possible.
	after map[string]uint32
	all   []world
	// ways counts the ways in which events can happen during the last admission.
	ways int
	// why is the reason in the first call of giveUp.
	why Wait
	// shared means that the states have another owner and must be copied before a change.
	shared bool
}

// uncertain reports whether giveUp was called, so that no world is known.
func (w *worlds) uncertain() bool { return w.why != WaitsForNothing }

// giveUp records why the possible states cannot be computed, and drops all worlds. For example,
// there are too many possibilities, or a pod in flight was resized.
func (w *worlds) giveUp(why Wait) {
	w.all = nil
	if w.why == WaitsForNothing {
		w.why = why
	}
}

func (w *worlds) clone() worlds {
	c := *w
	c.all = slices.Clone(w.all)
	c.events = slices.Clip(w.events)
	c.shared = true
	return c
}

// own copies the states if they have another owner.
func (w *worlds) own() {
	if !w.shared {
		return
	}
	for i := range w.all {
		w.all[i].state = w.all[i].state.Clone()
	}
	w.shared = false
}

// addEvent adds an event, and returns its bit, or 0 if there are too many.
func (w *worlds) addEvent(e event) uint32 {
	if len(w.events) >= w.most.events {
		w.giveUp(ManyEvents)
		return 0
	}
	w.events = append(w.events, e)
	return 1 << (len(w.events) - 1)
}

// addStarts adds the starts of a pod's containers as events. Each start becomes possible after the
// start before it. addStarts returns the bit of the first start.
func (w *worlds) addStarts(uid string, containers []string) uint32 {
	var next uint32
	for _, c := range slices.Backward(containers) {
		next = w.addEvent(event{kind: containerStart, uid: uid, container: c, then: next})
	}
	return next
}

// addArrivals adds the admissions of pods whose position in the order is not known, and returns the
// events that are possible now. Of pods that can exchange positions, only one order is added.
func (w *worlds) addArrivals(afloat []*pod, mayChange sameness) uint32 {
	var possible uint32
	events := make([]uint32, len(afloat))
	for i := len(afloat) - 1; i >= 0; i-- {
		p := afloat[i]
		if p.resized {
			w.giveUp(Resized)
		}
		then := w.eventsAfter(p)
		for j := i + 1; j < len(afloat); j++ {
			if mayChange(p, afloat[j]) {
				then |= events[j]
				possible &^= events[j]
				break
			}
		}
		events[i] = w.addEvent(event{kind: admit, uid: p.uid, req: p.req, then: then})
		possible |= events[i]
	}
	return possible
}

// eventsAfter adds the events that become possible when a pod in flight is admitted.
func (w *worlds) eventsAfter(p *pod) uint32 {
	var set uint32
	if w.pinsMemory {
		set = w.addStarts(p.uid, requestedStarts(p.req))
	}
	if p.ending() {
		set |= w.addEvent(event{kind: release, uid: p.uid})
	}
	return set
}

// expect returns the events that become possible when the pod is admitted (eventsAfter). It adds
// them only once.
func (w *worlds) expect(p *pod) uint32 {
	if set, ok := w.after[p.uid]; ok {
		return set
	}
	set := w.eventsAfter(p)
	w.after = maps.Clone(w.after)
	if w.after == nil {
		w.after = map[string]uint32{}
	}
	w.after[p.uid] = set
	return set
}

// enable makes the events possible in every world, and adds the resulting worlds.
func (w *worlds) enable(set uint32) {
	if set == 0 || w.uncertain() {
		return
	}
	for i := range w.all {
		w.all[i].open |= set
	}
	w.saturate()
}

// saturate adds all worlds to which the possible events lead.
func (w *worlds) saturate() {
	if !slices.ContainsFunc(w.all, func(v world) bool { return v.open != 0 }) {
		return
	}
	w.own()
	for i := 0; i < len(w.all); i++ {
		for set := w.all[i].open; set != 0; set &= set - 1 {
			w.happen(w.all[i], bits.TrailingZeros32(set))
			if w.uncertain() {
				return
			}
		}
	}
}

// happen adds the worlds that result if event e happens in the world from.
func (w *worlds) happen(from world, e int) {
	ev := &w.events[e]
	to := world{state: from.state.Clone(), open: from.open&^(1<<e) | ev.then}
	switch ev.kind {
	case release:
		to.state.Release(ev.uid)
		to.open &^= w.eventsOf(ev.uid)
	case containerStart:
		to.state.Start(ev.uid, []string{ev.container})
	case admit:
		mixed := w.amid(world{state: from.state, open: from.open &^ (1 << e)}, ev.req, ev.then)
		if !w.commit(&to, ev.req) {
			to.open &^= w.eventsOf(ev.uid)
		}
		defer w.addAll(mixed)
	}
	w.add(to)
}

// end releases pods in all worlds in which they have not ended.
func (w *worlds) end(uids []string) {
	if len(uids) == 0 || w.uncertain() {
		return
	}
	w.own()
	all := w.all
	w.all = nil
	for _, v := range all {
		for _, uid := range uids {
			if set := w.eventsOf(uid); v.open&set != 0 {
				v.state.Release(uid)
				v.open &^= set
			}
		}
		w.add(v)
	}
}

// eventsOf returns the events of one pod. After its end, none of them is possible.
func (w *worlds) eventsOf(uid string) uint32 {
	var set uint32
	for i := range w.events {
		if w.events[i].uid == uid {
			set |= 1 << i
		}
	}
	return set
}

func (w *worlds) add(v world) {
	if w.uncertain() {
		return
	}
	for i := range w.all {
		if w.all[i].open == v.open && w.all[i].state.Equal(v.state) {
			return
		}
	}
	if len(w.all) >= w.most.worlds {
		w.giveUp(ManyStates)
		return
	}
	w.all = append(w.all, v)
}

func (w *worlds) addAll(all []world) {
	for _, v := range all {
		w.add(v)
	}
}

func (w *worlds) join(o *worlds) {
	if o.uncertain() {
		w.giveUp(o.why)
	}
	w.addAll(o.all)
}

// commit admits the request in one world, as the kubelet would, and reports whether it was
// admitted. If the request triggers a defect that makes the kubelet hang, crash or corrupt its
// state, commit gives up (giveUp).
func (w *worlds) commit(v *world, r *placement.Request) bool {
	d := decisions.Get().(*placement.Decision)
	defer decisions.Put(d)
	verdict := placement.Decide(v.state, r, d)
	if verdict.OK() {
		v.state.Commit(r, d)
	}
	if verdict.Reason == placement.KubeletDefect {
		w.giveUp(Unpredictable)
	}
	return verdict.OK()
}

// admit admits the request in every world that accepts it. If optional is set, it also keeps the
// worlds without the pod. events become possible when the request is admitted.
func (w *worlds) admit(r *placement.Request, optional bool, events uint32) {
	if w.uncertain() {
		return
	}
	var without []world
	if optional {
		without = slices.Clone(w.all)
		for i := range without {
			without[i].state = without[i].state.Clone()
		}
	}
	w.own()
	mixed := w.mixed(r, events)
	for i := 0; i < len(w.all); i++ {
		if w.commit(&w.all[i], r) {
			w.all[i].open |= events
		}
	}
	w.addAll(without)
	w.addAll(mixed)
	w.saturate()
}

// admitNext admits a pod in flight. It gives up if the pod is inherited, because pods that came
// before it are not known, or resized, because its request is not known.
func (w *worlds) admitNext(p *pod) {
	switch {
	case p.inherited:
		w.giveUp(Inherited)
		return
	case p.resized:
		w.giveUp(Resized)
		return
	}
	events := w.expect(p)
	var late []world
	if !p.passed {
		late = w.amidLingering(p.req, events)
	}
	w.admit(p.req, p.ending() || p.passed, events)
	w.addAll(late)
	w.saturate()
}

// admitAll admits the pods in every possible order, and returns all resulting states.
func (w *worlds) admitAll(flight []*pod, mayChange sameness) worlds {
	if len(flight) == 0 {
		return w.clone()
	}
	orders := arrivalOrders(flight, mayChange)
	out := w.clone()
	for _, p := range flight {
		out.expect(p) // the same events in every order
	}
	if orders == nil {
		out.giveUp(ManyOrders)
		return out
	}
	begin := out
	for i, order := range orders {
		one := begin.clone()
		for _, p := range order {
			one.admitNext(p)
		}
		if i == 0 {
			out = one
			continue
		}
		out.join(&one)
	}
	return out
}

// charge admits the pods in the given order. It skips a pod that is refused, because the report may
// already count this pod, or its admission cannot be predicted.
func (w *worlds) charge(flight []*pod) worlds {
	out := w.clone()
	out.own()
	for _, p := range flight {
		if !out.uncertain() {
			out.commit(&out.all[0], p.req)
		}
	}
	return out
}

func (w *worlds) without(uids []string) {
	if len(uids) == 0 || w.uncertain() {
		return
	}
	w.own()
	for i := range w.all {
		for _, uid := range uids {
			w.all[i].state.Release(uid)
		}
	}
}

// with admits a request. It returns false if a world refuses it, or if the resulting states cannot
// be computed (giveUp).
func (w *worlds) with(r *placement.Request) bool {
	w.own()
	for i := 0; i < len(w.all); i++ {
		if !w.commit(&w.all[i], r) {
			return false
		}
	}
	return !w.uncertain()
}

// keepWith admits requests in order, and keeps only the worlds that admit all of them.
func (w *worlds) keepWith(requests []*placement.Request) {
	if len(requests) == 0 || w.uncertain() {
		return
	}
	w.own()
	for _, r := range requests {
		r := r.Settled()
		w.all = slices.DeleteFunc(w.all, func(v world) bool { return !w.commit(&v, r) })
		if w.uncertain() {
			return
		}
	}
}

// behind answers for a request if no state admits the requests that come before it (Trial.With).
// The answer is Refused if some state refuses the request even without them, otherwise Waiting.
func (w *worlds) behind(r *placement.Request) Answer {
	t := tally{}
	for i := range w.all {
		if v := placement.Admit(w.all[i].state, r); !v.OK() {
			t.count(&v)
		}
	}
	if t.first() {
		return waiting(AfterOthers)
	}
	return t.result()
}

func (w *worlds) ask(r *placement.Request) Answer {
	if w.uncertain() {
		return waiting(w.why)
	}
	t := tally{}
	for i := range w.all {
		v := placement.Admit(w.all[i].state, r)
		t.count(&v)
	}
	return t.result()
}

// decide asks every world for its decision. d receives the decision of the first world that t
// counts.
func (w *worlds) decide(t *tally, r *placement.Request, d *placement.Decision) {
	other := decisions.Get().(*placement.Decision)
	defer decisions.Put(other)
	for i := range w.all {
		into := other
		if t.first() {
			into = d
		}
		v := placement.Decide(w.all[i].state, r, into)
		t.differ = t.differ || v.Random || into == other && v.OK() && !Same(d, other)
		t.decided = true
		t.count(&v)
	}
}

// decideAll asks every world for its decision, and returns the combined answer. d receives the
// decision of the first world; d may be nil.
func (w *worlds) decideAll(r *placement.Request, d *placement.Decision) Answer {
	if d == nil {
		d = decisions.Get().(*placement.Decision)
		defer decisions.Put(d)
	}
	t := tally{}
	w.decide(&t, r, d)
	return t.result()
}

// play admits pods in the given order, and adds the verdicts about x at its position to t. It
// returns the reason if x must wait, for example because the promise to another pod would be
// broken.
func (w *worlds) play(order []*pod, x *pod, t *tally, d *placement.Decision) Wait {
	for i, p := range order {
		if w.uncertain() {
			return w.why
		}
		if p == x {
			w.decide(t, x.req, d)
		} else if !w.keeps(p) {
			return PromiseAtRisk
		}
		if i < len(order)-1 {
			w.admitNext(p)
		}
	}
	return w.why
}

// keeps reports whether every world admits a pod in flight and, if its promise is exact, gives it
// the promised resources.
func (w *worlds) keeps(p *pod) bool {
	d := decisions.Get().(*placement.Decision)
	defer decisions.Put(d)
	for i := range w.all {
		v := placement.Decide(w.all[i].state, p.req, d)
		if !v.OK() || p.promise != nil && p.promise.Exact && !Same(&p.promise.Decision, d) {
			return false
		}
	}
	return true
}
