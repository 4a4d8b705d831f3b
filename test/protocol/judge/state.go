package judge

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/test/protocol/explore"
)

// CPUs is a set of the node's CPUs, Pod one of the pods, and Set a set of them.
type (
	CPUs = explore.CPUs
	Pod  = explore.Pod
	Set  = explore.Pods
)

const (
	pods         = 2
	allCPUs CPUs = 0b11
)

// asks is how many CPUs each pod asks for.
var asks = [pods]int{1, 2}

// fit is what a pod gets beside what is held; none: it is refused.
func fit(p Pod, held CPUs) CPUs {
	free := allCPUs &^ held
	if free.Len() < asks[p] {
		return 0
	}
	return free.Lowest(asks[p])
}

// phase is what the API shows of a pod, or what a kubelet has done with it.
type phase uint8

const (
	none phase = iota
	bound
	listed // bound, as a list tells it; in events alone
	admitted
	refused
	refusedOtherwise // for another reason than the managers'
	ended
	gone
)

var phaseNames = [...]string{"pending", "bound", "listed", "admitted", "refused", "refused for another reason", "ended", "gone"}

func (p phase) String() string { return phaseNames[p] }

// event is a version of a pod that a watch tells of, and the revision at which it was written.
type event struct {
	what phase
	pod  Pod
	rev  uint8
}

// queue holds what a watch has still to tell, the next first. An event without a phase is none.
type queue [10]event

func (q *queue) push(e event) {
	for i := range q {
		if q[i].what == none {
			q[i] = e
			return
		}
	}
	panic("judge: more events than a run can have")
}

func (q *queue) pop() event {
	e := q[0]
	copy(q[:], q[1:])
	q[len(q)-1] = event{}
	return e
}

// report is what the agent wrote, at a revision; the zero value is none.
type report struct {
	held    [pods]CPUs
	written bool
	start   uint8 // of the kubelet; always 0 of an older agent
	rev     uint8
}

func (r *report) String() string {
	var out []string
	for p, cpus := range r.held {
		if cpus != 0 {
			out = append(out, fmt.Sprintf("%v on %v", Pod(p), cpus))
		}
	}
	if out == nil {
		out = []string{"no CPUs in use"}
	}
	return strings.Join(out, ", ") + fmt.Sprintf(", start %d", r.start)
}

// Budget counts what the world may still do.
type Budget struct {
	Starts  uint8 // of the kubelet
	Breaks  uint8 // of shadow mode's watch of pods
	Ends    uint8 // pods that end by themselves
	Deletes uint8 // by force
	Others  uint8 // rejections for another reason than the managers'
	Losses  uint8 // the agent goes, for good
}

// Config is one model.
type Config struct {
	Rules  Rule
	Budget Budget
	// Older: the agent does not say when the kubelet started.
	Older bool
}

// State is everything that the actors remember. It is comparable: equal states are one state.
type State struct {
	rev    uint8
	api    [pods]phase
	posted [pods]uint8 // the revision of that

	// The kubelet: what it has done with the pods, what they hold, how often it has started, and
	// what its watch has still to tell.
	did       [pods]phase
	held      [pods]CPUs
	start     uint8
	toKubelet queue

	agentLost bool
	report    report

	shadow
	toShadow queue

	left   Budget
	broken Breach
}

// entry is what shadow mode knows of a pod.
type entry struct {
	open, closed bool
	unjudged     bool
	expects      CPUs // none: it is to be refused
	company      Set  // pods that it was predicted with
	admitted     bool
	answer       phase // that the API has shown; none before
	answered     uint8 // the revision of that
	// Truths that shadow mode does not know: the answer was in its report before the prediction;
	// the kubelet has started between prediction and answer.
	hindsight, across bool
}

// shadow is what shadow mode remembers.
type shadow struct {
	seen  report
	order [pods]Pod // in which Bindings became known
	known uint8     // how many did
	// departed hold nothing any more.
	departed Set
	strange  Set // pods whose place in the order is not known, until a report has them
	entries  [pods]entry
}
