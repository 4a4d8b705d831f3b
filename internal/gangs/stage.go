package gangs

// Stage is how far a gang is.
type Stage string

// The stages.
const (
	// Forming: fewer pods are there than start together.
	Forming Stage = "forming"
	// Wrong: what is asked cannot be served, or is not known.
	Wrong Stage = "wrong"
	// Waiting: enough pods are there, and none has a node.
	Waiting Stage = "waiting"
	// Planned: places are reserved for all that start together. Only the scheduler knows.
	Planned Stage = "planned"
	// Partial: some have nodes, fewer than start together.
	Partial Stage = "partial"
	// Whole: as many have nodes as start together.
	Whole Stage = "whole"
	// Reduced: it was whole once, and fewer have nodes now.
	Reduced Stage = "reduced"
	// Completed: all its pods have ended.
	Completed Stage = "completed"
)

// Stages are all stages.
var Stages = []Stage{Forming, Wrong, Waiting, Planned, Partial, Whole, Reduced, Completed}

// Facts decide about a gang's stage.
type Facts struct {
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

// Stage is how far the gang is.
func (f Facts) Stage() Stage {
	switch {
	case f.Pods > 0 && f.Ended == f.Pods:
		return Completed
	case f.Wrong:
		return Wrong
	case f.Settled:
		return Whole
	case f.Planned:
		return Planned
	case f.Was && f.Done > 0:
		return Reduced
	case f.Done > 0:
		return Partial
	case !f.Complete:
		return Forming
	default:
		return Waiting
	}
}
