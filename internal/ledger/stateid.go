package ledger

import (
	"math"

	"github.com/berth-dev/berth/placement"
)

// maxStateIDs is the maximum number of states that are known at one time.
const maxStateIDs = 1 << 13

// StateID identifies the part of a node's state that determines the answers to candidates that come
// after the pods in flight. For such a candidate, nodes with equal StateIDs give equal Answers and
// have equal Spares. In a large cluster, most nodes share their StateID with many others, so one
// answer serves all of them. 0 means that the node has no StateID, so the caller must ask the node.
type StateID uint32

// Stamp has the StateID of a node, with the count of changes to which it belongs.
type Stamp struct {
	Count uint32
	State StateID
	Model *placement.Model
}

// Stamp computes the StateID of the node and stores it in the ChangeCounter.
func (v View) Stamp() Stamp {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	if o.facts.report == nil {
		return Stamp{}
	}
	s := Stamp{Model: o.facts.report.Model}
	if s.Count, s.State = o.changes.Load(); s.State != 0 {
		return s
	}
	state := o.certain()
	if state == nil {
		return s
	}
	id := v.n.stateIDs.of(s.Model, maxStateIDs, state.AppendStateKey)
	if id > math.MaxUint32 {
		return s
	}
	s.State = StateID(id)
	o.changes.identify(s.Count, s.State)
	return s
}
