package wire

// GangState is how far a gang is.
type GangState string

// The states.
const (
	// GangForming: fewer pods are there than start together.
	GangForming GangState = "forming"
	// GangWrong: what is asked cannot be served, or is not known.
	GangWrong GangState = "wrong"
	// GangWaiting: enough pods are there, and none has a node.
	GangWaiting GangState = "waiting"
	// GangPlanned: places are reserved for all that start together. Only the scheduler knows.
	GangPlanned GangState = "planned"
	// GangPartial: some have nodes, fewer than start together.
	GangPartial GangState = "partial"
	// GangWhole: as many have nodes as start together.
	GangWhole GangState = "whole"
	// GangReduced: it was whole once, and fewer have nodes now.
	GangReduced GangState = "reduced"
	// GangCompleted: all its pods have ended.
	GangCompleted GangState = "completed"
)

// GangStates are all states.
var GangStates = []GangState{GangForming, GangWrong, GangWaiting, GangPlanned, GangPartial, GangWhole, GangReduced, GangCompleted}

// GangFacts decide about a gang's state.
type GangFacts struct {
	// Pods are its pods, Ended those of them that have ended, Done the ones that have a node or
	// ended well.
	Pods, Ended, Done int
	// Wrong: what is asked cannot be served, or is not known.
	Wrong bool
	// Complete: with the pods that wait there are as many as start together.
	Complete bool
	// Settled: as many have nodes as start together. Was: that was so once.
	Settled, Was bool
	// Planned: places are reserved.
	Planned bool
}

// State is how far the gang is.
func (f GangFacts) State() GangState {
	switch {
	case f.Pods > 0 && f.Ended == f.Pods:
		return GangCompleted
	case f.Wrong:
		return GangWrong
	case f.Settled:
		return GangWhole
	case f.Planned:
		return GangPlanned
	case f.Was && f.Done > 0:
		return GangReduced
	case f.Done > 0:
		return GangPartial
	case !f.Complete:
		return GangForming
	default:
		return GangWaiting
	}
}
