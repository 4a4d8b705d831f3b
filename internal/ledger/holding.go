package ledger

import (
	"reflect"
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement"
)

// Holding is a place on a node that is held for future pods, its owners (a Koordinator
// Reservation).
//
// If Berth decides on the node, the place consists of individual CPUs and devices, and of memory
// and huge pages on individual NUMA nodes. Owners keep their parts until they are gone. The unused
// rest of the place is the place minus these parts.
//
// If a kubelet decides, CPUs cannot be held. Instead, a node that has room for the future owners
// admits any other pod only if it could still admit these owners afterwards.
type Holding struct {
	// UID is the UID of the object, not of a pod.
	UID string
	// Request is the request of all future owners together if a kubelet decides, otherwise nil.
	Request *placement.Request
	// Held is the whole place, including the parts that owners use, if Berth decides, otherwise
	// nil.
	Held *placement.PodAllocation
	// Owners are the UIDs of pods that use or have used a part of the Holding.
	Owners []string
	// More means that an owner may take missing amounts from the rest of the node. Once means that
	// the place can have only one owner. More and Once are used only if Berth decides.
	More, Once bool
}

// holding is a Holding with its state on the node.
type holding struct {
	Holding
	// displaced explains why the Holding does not have its whole place, or is "".
	displaced string
}

// holdings are the Holdings of a node, sorted by UID.
type holdings []*holding

func (all holdings) find(uid string) (int, bool) {
	return slices.BinarySearchFunc(all, uid, func(h *holding, uid string) int { return strings.Compare(h.UID, uid) })
}

func (all holdings) of(uid string) *holding {
	if at, ok := all.find(uid); ok {
		return all[at]
	}
	return nil
}

func (all *holdings) put(h *holding) {
	at, there := all.find(h.UID)
	if there {
		(*all)[at] = h
	} else {
		*all = slices.Insert(*all, at, h)
	}
}

func (all *holdings) drop(uid string) bool {
	at, there := all.find(uid)
	if there {
		*all = slices.Delete(*all, at, at+1)
	}
	return there
}

func (all holdings) fork() holdings {
	out := make(holdings, len(all))
	for i, h := range all {
		copied := *h
		out[i] = &copied
	}
	return out
}

// Hold adds or updates a Holding. To find the place, the scheduler reserves a pod with the
// Holding's UID; Hold removes this pod.
func (n *Node) Hold(h Holding) {
	o := n.lock()
	defer n.mu.Unlock()
	f := &o.facts
	h.Owners = slices.Clone(h.Owners)
	if h.Held != nil {
		h.Held = &placement.PodAllocation{UID: h.UID, Containers: h.Held.Containers}
	}
	p, was := f.pods.byUID[h.UID], f.holdings.of(h.UID)
	if p == nil && was != nil && reflect.DeepEqual(was.Holding, h) {
		return // nothing changes, and stored answers stay valid
	}
	if p != nil {
		f.pods.leave(p)
	}
	f.holdings.put(&holding{Holding: h})
	o.changed()
}

// Release ends a Holding, or removes the pod that was reserved to find its place. It reports
// whether there was such a Holding or pod.
func (n *Node) Release(uid string) bool {
	o := n.lock()
	defer n.mu.Unlock()
	there := o.facts.holdings.drop(uid)
	p := o.facts.pods.byUID[uid]
	if p != nil {
		o.facts.pods.leave(p)
	}
	if there || p != nil {
		o.changed()
	}
	return there || p != nil
}

// Promised returns the decision that is promised to a pod, or false if the node has no such pod or
// the promise is settled.
func (v View) Promised(uid string) (placement.Decision, bool) {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	p := o.facts.pods.byUID[uid]
	if p == nil || p.promise == nil {
		return placement.Decision{}, false
	}
	return p.promise.Decision.Clone(), true
}

// ReserveOwner does what Reserve does for an owner of a Holding. If Berth decides, the owner must
// get resources of the Holding. If Holding.More is set, the missing amounts come from the rest of
// the node (placement.DecideWithin, DecideBeyond).
func (n *Node) ReserveOwner(c *Candidate, held string, d *placement.Decision) Answer {
	o := n.lock()
	defer n.mu.Unlock()
	h := o.facts.holdings.of(held)
	if o.facts.report == nil || h == nil {
		return Answer{}
	}
	p, before := o.replace(c)
	a := o.consultOwner(c, h, d)
	if !a.OK() {
		o.restore(before)
		return a
	}
	p.grant(d, a.Exact, o.facts.decides())
	if !slices.Contains(h.Owners, p.uid) {
		h.Owners = append(h.Owners, p.uid)
	}
	o.facts.pods.become(p, reserved)
	o.changed()
	return a
}

// DecideOwner does what Decide does for an owner of a Holding. d may be nil.
func (v View) DecideOwner(c *Candidate, held string, d *placement.Decision) Answer {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	h := o.facts.holdings.of(held)
	if o.facts.report == nil || h == nil {
		return Answer{}
	}
	return o.consultOwner(c, h, d)
}

// Displaced returns the reason why a Holding does not have all of its place, or "". known is false
// if the node has no report or no such Holding.
func (v View) Displaced(uid string) (why string, known bool) {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	h := o.facts.holdings.of(uid)
	if o.facts.report == nil || h == nil {
		return "", false
	}
	o.compute()
	return h.displaced, true
}

// Knows reports whether the ledger or the last report has the pod on this node. If neither has the
// pod, it uses no part of a Holding.
func (v View) Knows(uid string) bool {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	return o.facts.pods.byUID[uid] != nil || o.facts.report != nil && o.facts.report.Has(uid)
}

// holdRests adds the unused part of each place to the state. The pods that use the place were added
// before.
func (f *facts) holdRests(s *placement.State) {
	for _, h := range f.holdings {
		h.displaced = ""
		if h.Held != nil {
			h.displaced = s.Hold(f.rest(h))
		}
	}
}

// rest returns the unused part of a place. A pod keeps its part until it has left. A pod that the
// report lists and the API does not have may be an owner, so its resources count as used.
func (f *facts) rest(h *holding) *placement.PodAllocation {
	var taken []*placement.PodAllocation
	for _, uid := range f.report.order {
		if p := f.pods.byUID[uid]; (p == nil || p.gone) && !slices.Contains(h.Owners, uid) {
			listed := f.report.pods[uid]
			taken = append(taken, &listed.alloc)
		}
	}
	for _, uid := range h.Owners {
		listed, shown := f.report.pods[uid], f.report.Has(uid)
		switch p := f.pods.byUID[uid]; {
		case p != nil && p.held != nil && shown:
			taken = append(taken, withShown(p.held, &listed.alloc))
		case p != nil && p.held != nil:
			taken = append(taken, p.held)
		case shown:
			taken = append(taken, &listed.alloc)
		}
	}
	return placement.Rest(h.Held, taken)
}
