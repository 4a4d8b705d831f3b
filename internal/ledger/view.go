package ledger

import (
	"slices"
	"strconv"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// View asks and reads a node, and changes nothing. Each method sees the node at one moment, and two
// may see two.
type View struct{ n *Node }

// View returns the reading side of the node.
func (n *Node) View() View { return View{n} }

// Report returns the last report, or nil.
func (v View) Report() *Report {
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	return v.n.report
}

// Idle says that nothing is known about the node: it has no report, and no pods.
func (v View) Idle() bool {
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	return v.n.report == nil && len(v.n.pods) == 0 && len(v.n.holdings) == 0
}

// Explain says why the likeliest state refuses the request, and whether there is one to explain
// from.
func (v View) Explain(r *placement.Request) (placement.Refusal, bool) {
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	s := v.n.likeliest()
	if s == nil {
		return placement.Refusal{}, false
	}
	return placement.Explain(s, r), true
}

// Advise is Explain with what would help (placement.Advise).
func (v View) Advise(r *placement.Request, fits func(*placement.Request) bool) (placement.Refusal, bool) {
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	s := v.n.likeliest()
	if s == nil {
		return placement.Refusal{}, false
	}
	return placement.Advise(s, r, fits), true
}

// Snapshot returns the likeliest state after everything in flight, and whether there is one.
func (v View) Snapshot() (placement.Snapshot, bool) {
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	s := v.n.likeliest()
	if s == nil {
		return placement.Snapshot{}, false
	}
	return s.Snapshot(), true
}

// CouldTake is placement.State.CouldTake of the likeliest state; false where there is none.
func (v View) CouldTake(r *placement.Request) bool {
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	s := v.n.likeliest()
	return s != nil && s.CouldTake(r)
}

// AppendKind appends what the likeliest state has of devices (placement.State.AppendPoolsKey), and
// returns the Model; nil where there is no such state.
func (v View) AppendKind(b []byte) ([]byte, *placement.Model) {
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	s := v.n.likeliest()
	if s == nil {
		return b, nil
	}
	return s.AppendPoolsKey(b), v.n.report.Model
}

// Room returns how many pods like the candidate the node takes one after the other, at most limit.
// It goes by the states that the node may be in now. Reserving the pods can open more of them, so
// that the node takes some of the pods after its next report alone: it never takes more than Room.
func (v View) Room(c *Candidate, limit int) int {
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	if v.n.report == nil {
		return 0
	}
	w := v.n.afterReserved().clone()
	for room := range limit {
		r := *c.Request
		r.UID += "/" + strconv.Itoa(room)
		if w.uncertain() {
			return room
		}
		if a := v.n.besideHoldings(Answer{Outcome: Admitted}, &r, "", &w); !a.OK() || !w.with(&r) {
			return room
		}
	}
	return limit
}

// Apart says whether, of the pods like the candidate that were created in its second, the node
// takes one and keeps the others off until a report. It promises the one its CPUs, and the kubelet
// may admit the others before it.
func (v View) Apart(c *Candidate) bool {
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	if v.n.report == nil || v.n.report.Amounts || v.n.decides() || c.Loose {
		return false
	}
	return v.n.admit(c).Exact && !inert(v.n.report.Model, c.Request)
}

// Flooded says why every pod waits for the node's next report, whatever it asks for;
// WaitsForNothing if none does.
func (v View) Flooded() Wait {
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	if v.n.report == nil || !v.n.valid && v.n.quiet() {
		return WaitsForNothing
	}
	v.n.compute()
	if slices.ContainsFunc(v.n.line, func(p *pod) bool { return p.loose }) && v.n.hasRoom(v.n.line, nil) {
		return WaitsForNothing // more such pods are taken
	}
	return v.n.afterReserved().why
}

// UnshownCPUs counts the exclusive CPUs of pods that only the report lists: the API has not shown
// them, and nobody here has placed them. Pods that are known elsewhere do not count. Where Berth
// decides, or the report tells amounts alone, it is 0.
func (v View) UnshownCPUs(known func(uid string) bool) int {
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	return v.n.unshownCPUs(known)
}

// Census counts the pods of a node that are on their way, or are ending.
type Census struct{ Reserved, Posted, Afloat, Ending int }

// InFlight counts the ones on their way.
func (c Census) InFlight() int { return c.Reserved + c.Posted + c.Afloat }

// Census counts.
func (v View) Census() Census {
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	c := Census{Reserved: len(v.n.reserved), Posted: len(v.n.posted)}
	for _, p := range v.n.pods {
		if p.stage == afloat {
			c.Afloat++
		}
		if p.ending() {
			c.Ending++
		}
	}
	return c
}

// Holding returns the NUMA nodes on which a pod holds something by the last report, and whether
// that lists the pod. A report of amounts alone reports none.
func (v View) Holding(uid string) (topology.NUMASet, bool) {
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	r := v.n.report
	if r == nil || r.Amounts {
		return 0, false
	}
	if _, listed := r.pods[uid]; !listed {
		return 0, false
	}
	return r.state.Holding(uid), true
}
