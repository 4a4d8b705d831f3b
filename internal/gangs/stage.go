package gangs

import "github.com/berth-dev/berth/internal/wire"

// Stage is the stage of a gang's life.
type Stage string

// The stages.
const (
	// Forming: fewer pods than must start together need a node, have a node or have succeeded. For
	// example, pods are missing or have scheduling gates.
	Forming Stage = "forming"
	// Wrong: the gang's specification is missing or invalid, or Berth does not support it.
	Wrong Stage = "wrong"
	// Waiting: the gang has enough pods, but none of them has a node.
	Waiting Stage = "waiting"
	// Planned: places are reserved for all pods that start together. Only the scheduler knows that
	// a gang is Planned.
	Planned Stage = "planned"
	// Partial: some pods have nodes, but fewer than must start together.
	Partial Stage = "partial"
	// Whole: at least as many pods have nodes or have succeeded as must start together (Enough).
	Whole Stage = "whole"
	// Reduced: the gang was whole at some time, and now some pods have nodes, but fewer than must
	// start together.
	Reduced Stage = "reduced"
	// Completed: all pods of the gang have ended.
	Completed Stage = "completed"
)

// Stages are all stages.
var Stages = []Stage{Forming, Wrong, Waiting, Planned, Partial, Whole, Reduced, Completed}

// Facts determine a gang's stage.
type Facts struct {
	Spec *wire.Gang
	// Pods counts the gang's pods. Ended counts the pods among them that have ended.
	Pods, Ended int
	// Waiting counts pods that need a node. Done counts pods that have nodes or have succeeded.
	Waiting, Done *Count
	// Wrong means that the gang's specification is missing or invalid, or that Berth does not
	// support it.
	Wrong bool
	// Was means that the gang was Whole at some time.
	Was bool
	// Planned means that a plan for the gang is reserved.
	Planned bool
}

// Enough reports whether the members that have nodes or have succeeded reach the minimum. If
// spec.Once is set, it is enough that the gang was whole at some time (was). Enough returns false
// if the minimum is not known (0).
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
