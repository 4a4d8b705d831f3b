package ledger

import "github.com/berth-dev/berth/placement"

// Sighting is what the API shows about a bound pod.
type Sighting struct {
	UID     string
	Request *placement.Request
	// Created is as in Candidate.
	Created int64
	// Promise is the decision that its Binding carried, or the newest one after a resize; nil when
	// there was none.
	Promise *Promise
	// Generation counts the decisions, from 1; 0 means 1.
	Generation uint64
	// Turn is its Binding's place in the order, from its annotation; 0 when it has none.
	Turn int64
	// Report is the sequence of the report on which it was decided, from the same annotation; 0 if
	// there is none.
	Report int64
	// After says that its Binding was written after the node's last report, so that its kubelet has
	// not looked at the pod before. Witness alone asks.
	After bool
	Phase Phase
	// Mortal says that it can end by itself.
	Mortal bool
	// Inherited means that it was bound before anyone here began to watch. Others that nobody knows
	// of may have been bound before it, and have left since. Until a report lists it, other pods
	// wait.
	Inherited bool
}

// Phase is the phase of a pod's life, as the API shows it. If two are known of a pod, the later one
// counts.
type Phase uint8

const (
	// Bound: the pod is bound to the node. The zero value.
	Bound Phase = iota
	// Ending: it is bound, and being deleted.
	Ending
	// Ended: its containers have stopped, and none starts again.
	Ended
	// Elsewhere: it is bound to another node. Only the UID matters. A pod whose Binding to this
	// node was in doubt is forgotten.
	Elsewhere
)

// Ending reports whether the pod is being deleted or has ended.
func (s *Sighting) Ending() bool { return s.Phase == Ending || s.Phase == Ended }
