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
	listed // bound, and shown by a list; only in events
	admitted
	refused
	refusedOtherwise // refused for a reason that is no manager's
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
	start   uint8 // number of the kubelet's start; 0 in reports of an older agent
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
	Losses  uint8 // the agent stops forever
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
	posted [pods]uint8 // the revision of each pod's phase in the API

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
	expects      CPUs // the predicted CPUs; none for a predicted refusal
	company      Set  // pods that the prediction took into account
	admitted     bool
	answer       phase // the answer in the API, if there is one
	answered     uint8 // the revision of the answer
	// Facts that shadow mode does not know. hindsight: the report had the answer before the
	// prediction was made. across: the kubelet started between prediction and answer.
	hindsight, across bool
}

// shadow is the memory of shadow mode.
type shadow struct {
	seen  report
	order [pods]Pod // the order in which Bindings became known
	known uint8     // number of known Bindings
	// departed are pods that no longer hold CPUs.
	departed Set
	strange  Set // pods whose place in the order is unknown until a report lists them
	entries  [pods]entry
}
