package judge

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/test/protocol/explore"
)

// CPUs is a set of the node's CPUs, Pod is one of the pods, and Set is a set of pods.
type (
	CPUs = explore.CPUs
	Pod  = explore.Pod
	Set  = explore.Pods
)

const (
	pods         = 2
	allCPUs CPUs = 0b11
)

// asks has the number of CPUs that each pod requests.
var asks = [pods]int{1, 2}

// fit returns the CPUs that a pod gets if the others are held. It returns none if the pod is
// rejected.
func fit(p Pod, held CPUs) CPUs {
	free := allCPUs &^ held
	if free.Len() < asks[p] {
		return 0
	}
	return free.Lowest(asks[p])
}

// phase is a pod's state, either in the API or in the kubelet.
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

// event is a version of a pod in a watch, with the revision at which it was written.
type event struct {
	what phase
	pod  Pod
	rev  uint8
}

// queue holds the events that a watch has not delivered yet, the next one first. An event without a
// phase is an empty entry.
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

// report is an agent's report and the revision at which it was written. The zero value means no
// report.
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

// Budget limits how often each kind of event may still happen.
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
	// Older means that the agent's reports lack the start time of the kubelet.
	Older bool
}

// State is the memory of all actors. It is comparable, so that the search visits equal states once.
type State struct {
	rev    uint8
	api    [pods]phase
	posted [pods]uint8 // the revision of that

	// The kubelet's memory: the phase and the CPUs of each pod, the number of its starts, and the
	// events that its watch has not delivered yet.
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

// entry is shadow mode's knowledge about a pod.
type entry struct {
	open, closed bool
	unjudged     bool
	expects      CPUs // none: it is to be refused
	company      Set  // pods that it was predicted with
	admitted     bool
	answer       phase // that the API has shown; none before
	answered     uint8 // the revision of that
	// Facts that shadow mode does not know. hindsight: the report had the answer before the
	// prediction was made. across: the kubelet started between prediction and answer.
	hindsight, across bool
}

// shadow is the memory of shadow mode.
type shadow struct {
	seen  report
	order [pods]Pod // in which Bindings became known
	known uint8     // how many did
	// departed are pods that no longer hold CPUs.
	departed Set
	strange  Set // pods whose place in the order is not known, until a report has them
	entries  [pods]entry
}
