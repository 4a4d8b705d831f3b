package ledger

import "github.com/berth-dev/berth/placement"

// Sighting has the facts that the API shows about a bound pod.
type Sighting struct {
	UID     string
	Request *placement.Request
	// Created is the second in which the pod was created (Unix time).
	Created int64
	// Promise is the decision in the pod's Binding, or after a resize the newest decision. It is
	// nil if there is no decision.
	Promise *Promise
	// Generation counts the decisions about the pod, from 1. 0 also means 1.
	Generation uint64
	// Turn is the position of the pod's Binding among the Bindings of the node, from an annotation.
	// It is 0 if the annotation is missing.
	Turn int64
	// Report is the sequence number of the report on which the decision is based, from the same
	// annotation.
	Report int64
	// After means that the pod's Binding was written after the node's last report, so the kubelet
	// had not seen the pod at the time of that report. Only Witness uses After.
	After bool
	Phase Phase
	// Mortal means that the pod can end without being deleted.
	Mortal bool
	// Inherited means that the pod was bound before this scheduler began to watch. Other pods that
	// this scheduler does not know may have been bound before it, and may be gone now. Until a
	// report lists the inherited pod, other pods wait, unless Berth decides or the node pins
	// nothing for the inherited pod.
	Inherited bool
}

// Phase is the phase of a pod's life, as the API shows it. Bound, Ending and Ended are in the order
// in which a pod passes through them.
type Phase uint8

const (
	// Bound, the zero value: the pod is bound to the node.
	Bound Phase = iota
	// Ending: the pod is bound, and being deleted.
	Ending
	// Ended: all containers of the pod have stopped, and none will start again.
	Ended
	// Elsewhere: the pod is bound to another node. See then uses only the UID, and forgets the pod
	// if its Binding to this node was in doubt.
	Elsewhere
)

// Ending reports whether the pod is being deleted or has ended.
func (s *Sighting) Ending() bool { return s.Phase == Ending || s.Phase == Ended }
