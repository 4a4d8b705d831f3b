package gangs

import "github.com/berth-dev/berth/internal/wire"

// Stage is the stage of a gang's life.
type Stage string

// The stages.
const (
	// Forming: fewer pods are there than start together.
	Forming Stage = "forming"
	// Wrong: a request cannot be served, or is not known.
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

// Facts determine a gang's stage.
type Facts struct {
	Spec *wire.Gang
	// Pods are its pods, Ended the pods among them that have ended.
	Pods, Ended int
	// Waiting counts pods that want a node. Done counts pods that have nodes or succeeded.
	Waiting, Done *Count
	// Wrong: the gang asks for something that Berth does not serve or know.
	Wrong bool
	// Was: once, as many had nodes as start together.
	Was bool
	// Planned: places are reserved.
	Planned bool
}

// Enough reports whether the members with nodes, and those that succeeded, reach the minimum. If
// was is set and the gang allows it, it is enough that they once did.
func Enough(spec *wire.Gang, done *Count, was bool) bool {
	return spec.Minimum > 0 && (spec.Once && was || Lacks(spec, done) == "")
}

// Stage returns the stage of the gang.
func (f *Facts) Stage() Stage {
	switch {
	case f.Pods > 0 && f.Ended == f.Pods:
		return Completed
	case f.Wrong:
		return Wrong
	case Enough(f.Spec, f.Done, f.Was):
		return Whole
	case f.Planned:
		return Planned
	case f.Was && f.Done.All > 0:
		return Reduced
	case f.Done.All > 0:
		return Partial
	case Lacks(f.Spec, f.Waiting, f.Done) != "":
		return Forming
	default:
		return Waiting
	}
}
