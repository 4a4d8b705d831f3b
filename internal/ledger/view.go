package ledger

import (
	"slices"
	"strconv"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// View gives read access to a Node. The Node may change between two calls, but not during a call.
type View struct{ n *Node }

// View returns a read-only view of the node.
func (n *Node) View() View { return View{n} }

// Report returns the last report, or nil.
func (v View) Report() *Report {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	return o.facts.report
}

// Idle reports whether the node has no report, no pods and no Holdings.
func (v View) Idle() bool {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	return o.facts.report == nil && len(o.facts.pods.byUID) == 0 && len(o.facts.holdings) == 0
}

// Explain explains why the likeliest state refuses the request. It returns false if no state is
// known.
func (v View) Explain(r *placement.Request) (placement.Refusal, bool) {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	s := o.likeliest()
	if s == nil {
		return placement.Refusal{}, false
	}
	return placement.Explain(s, r), true
}

// Advise does what Explain does, and adds remedies (placement.Advise).
func (v View) Advise(r *placement.Request, fits placement.Fits) (placement.Refusal, bool) {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	s := o.likeliest()
	if s == nil {
		return placement.Refusal{}, false
	}
	return placement.Advise(s, r, fits), true
}

// Snapshot returns the likeliest state after all pods in flight, or false if no state is known.
func (v View) Snapshot() (placement.Snapshot, bool) {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	s := o.likeliest()
	if s == nil {
		return placement.Snapshot{}, false
	}
	return s.Snapshot(), true
}

// CouldTake returns the result of placement.State.CouldTake for the likeliest state, or false if no
// state is known.
func (v View) CouldTake(r *placement.Request) bool {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	s := o.likeliest()
	return s != nil && s.CouldTake(r)
}

// AppendKind appends the devices of the likeliest state to b (placement.State.AppendPoolsKey), and
// returns the node's Model. If no state is known, it returns b unchanged and nil.
func (v View) AppendKind(b []byte) ([]byte, *placement.Model) {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	s := o.likeliest()
	if s == nil {
		return b, nil
	}
	return s.AppendPoolsKey(b), o.facts.report.Model
}

// Room returns how many pods like the candidate the node admits one after another, at most limit.
// It uses only the states that are possible now. When pods are reserved, more states can become
// possible, and the node may then admit some of the pods only after its next report. If Room
// returns less than limit, the node admits no more of these pods in its present state.
func (v View) Room(c *Candidate, limit int) int {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	if o.facts.report == nil {
		return 0
	}
	w := o.afterReserved().clone()
	for room := range limit {
		r := *c.Request
		r.UID += "/" + strconv.Itoa(room)
		if w.uncertain() {
			return room
		}
		if a := o.besideHoldings(Answer{Outcome: Admitted}, &r, "", &w); !a.OK() || !w.with(&r) {
			return room
		}
	}
	return limit
}

// Apart reports whether, of several identical pods that were created in the same second, the node
// would admit only one and make the others wait for a report. The node does so if it promises CPUs
// to the first pod, and its kubelet might admit the others before that pod.
func (v View) Apart(c *Candidate) bool {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	if o.facts.report == nil || o.facts.report.Amounts || o.facts.decides() || c.Loose {
		return false
	}
	return o.admit(c).Exact && !inert(o.facts.report.Model, c.Request)
}

// Flooded returns the reason why every pod waits for the node's next report, whatever it requests.
// It returns WaitsForNothing if there is no such reason.
func (v View) Flooded() Wait {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	if o.facts.report == nil || !o.valid && o.facts.pods.quiet() {
		return WaitsForNothing
	}
	o.compute()
	if slices.ContainsFunc(o.line, func(p *pod) bool { return p.loose }) && o.hasRoom(o.line) {
		return WaitsForNothing // the node still admits loose pods
	}
	return o.afterReserved().why
}

// UnshownCPUs counts the exclusive CPUs of pods that the report lists, but that the API has not
// shown and this scheduler has not placed. It leaves out pods for which known returns true. It
// returns 0 if Berth decides, or if the report has only amounts.
func (v View) UnshownCPUs(known func(uid string) bool) int {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	return o.facts.unshownCPUs(known)
}

// Census counts the pods of a node that are in flight or ending.
type Census struct{ Reserved, Posted, Afloat, Ending int }

// InFlight returns the number of pods in flight.
func (c Census) InFlight() int { return c.Reserved + c.Posted + c.Afloat }

// Census counts the pods of the node.
func (v View) Census() Census {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	c := Census{Reserved: len(o.facts.pods.reserved), Posted: len(o.facts.pods.posted)}
	for _, p := range o.facts.pods.byUID {
		if p.stage == afloat {
			c.Afloat++
		}
		if p.ending() {
			c.Ending++
		}
	}
	return c
}

// Holding returns the NUMA nodes on which a pod has resources according to the last report, and
// whether the report lists the pod. If the report has only amounts, it lists no pods.
func (v View) Holding(uid string) (topology.NUMASet, bool) {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	r := o.facts.report
	if r == nil || r.Amounts {
		return 0, false
	}
	if _, listed := r.pods[uid]; !listed {
		return 0, false
	}
	return r.state.Holding(uid), true
}
