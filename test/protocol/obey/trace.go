package obey

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/test/protocol/explore"
)

// moment is one step of a trace and the states around it.
type moment explore.Moment[State, Step]

var actors = [actions]string{
	Place: "scheduler", SeeReport: "scheduler", SeeGone: "scheduler", KubeletSees: "kubelet", KubeletDrops: "kubelet",
	Create: "runtime", Hold: "agent", Start: "runtime", Stop: "runtime", Remove: "runtime", RemoveContainer: "runtime", ProcessesEnd: "world", UpdateShared: "agent", FreeEarly: "agent",
	AgentStarts: "agent", AgentLearns: "agent", AgentReports: "agent", PodGone: "world", AgentStops: "world", Reboot: "world",
	ContainerEnds: "world", HandWrites: "world", Unanswered: "runtime", RuntimeRestarts: "world",
	SilentSandbox: "world", SilentContainer: "world",
}

func (m moment) String() string { return fmt.Sprintf("%-9s %s", actors[m.Step.Action], m.deed()) }

func (m moment) deed() string {
	p := m.Step.Pod
	switch m.Step.Action {
	case Place:
		return fmt.Sprintf("binds %v, decided: %v", p, m.After.rec[p])
	case SeeReport:
		return "sees the report: " + m.After.seen.String()
	case SeeGone:
		return fmt.Sprintf("sees that %v is gone", p)
	case KubeletSees:
		return fmt.Sprintf("sees %v", p)
	case KubeletDrops:
		return fmt.Sprintf("sees that %v is gone, and begins to stop it", p)
	case Create:
		return m.create()
	case Hold:
		return fmt.Sprintf("does not let %v begin: %v is not free", p, m.After.rec[p])
	case Start:
		return fmt.Sprintf("starts %v on %v", p, m.After.runs[p])
	case Stop:
		return fmt.Sprintf("has stopped %v", p)
	case Remove:
		return fmt.Sprintf("removes the sandbox of %v", p)
	}
	return m.more()
}

func (m moment) create() string {
	p := m.Step.Pod
	if m.Before.down {
		return fmt.Sprintf("begins %v on %v: the agent is not there to adjust it", p, m.After.runs[p])
	}
	if m.After.begins.Has(p) {
		return fmt.Sprintf("makes %v, to run on %v", p, m.After.runs[p])
	}
	return fmt.Sprintf("begins %v on %v", p, m.After.runs[p])
}

func (m moment) more() string {
	p := m.Step.Pod
	switch m.Step.Action {
	case UpdateShared:
		return "moves the shared containers out of the way"
	case FreeEarly:
		return fmt.Sprintf("hears that %v is gone, and gives its CPUs to the shared containers", p)
	case RemoveContainer:
		return fmt.Sprintf("removes what has ended of %v", p)
	case ProcessesEnd:
		return fmt.Sprintf("the processes of %v that nobody reported have ended", p)
	case AgentStarts:
		if m.Before.old != 0 {
			return "is connected again"
		}
		return "starts again"
	case AgentLearns:
		return "learns what runs"
	case AgentReports:
		return "reports " + m.After.posted.String()
	case PodGone:
		return fmt.Sprintf("%v is deleted by force", p)
	case AgentStops:
		return "the agent stops"
	case Reboot:
		return "the machine is restarted"
	case RuntimeRestarts:
		return "the runtime is restarted"
	case SilentSandbox:
		return fmt.Sprintf("the runtime is restarted, and tells nothing of the sandbox of %v", p)
	case SilentContainer:
		return fmt.Sprintf("the runtime is restarted, and tells nothing of the container of %v", p)
	case Unanswered:
		return fmt.Sprintf("has no answer in time, drops the agent, and begins %v on %v", p, m.After.runs[p])
	case ContainerEnds:
		return fmt.Sprintf("%v ends on its own, to be begun again", p)
	}
	return fmt.Sprintf("somebody writes the cgroup of %v: %v", p, m.After.runs[p])
}

// String describes the report.
func (r report) String() string {
	var parts []string
	for p := PodID(0); p < Pods; p++ {
		if r.on[p] != 0 {
			parts = append(parts, fmt.Sprintf("%v on %v", p, r.on[p]))
		}
		if r.passed.Has(p) {
			parts = append(parts, fmt.Sprintf("through with %v", p))
		}
	}
	if parts == nil {
		return "nothing pinned"
	}
	return strings.Join(parts, ", ")
}
