package protocol

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/test/protocol/explore"
)

func (n NodeID) String() string { return fmt.Sprintf("n%d", uint8(n)) }

func (b promise) String() string {
	if b.exact {
		return fmt.Sprintf("%v exactly", b.cpus)
	}
	return fmt.Sprintf("%v or others", b.cpus)
}

func (a Authority) String() string {
	if a == Berth {
		return "berth"
	}
	return "kubelet"
}

// String describes the request of the pod.
func (p Pod) String() string {
	s := fmt.Sprintf("%d CPUs", p.CPUs)
	if p.CPUs == 1 {
		s = "1 CPU"
	}
	if p.Device {
		s += " and the device of NUMA node 0"
	}
	return fmt.Sprintf("%s, created in second %d", s, p.Second)
}

// moment is one step of a trace and the states around it.
type moment explore.Moment[State, Step]

// String returns the actor and the action.
func (m moment) String() string {
	who, what := m.actor(), m.deed()
	return fmt.Sprintf("%-10s %s", who, what)
}

func (m moment) actor() string {
	switch m.Step.Action {
	case Filter, Reserve, Bind, ReadBackBinding, StorePlacement, SeePod, SeeReport, TakeOver, Preempt:
		return "scheduler"
	case ApplyBinding, ApplyLate, ExpireLate, ApplyUnheard, FailBinding:
		return "api"
	case KubeletSees, KubeletFrees, KubeletPosts:
		return "kubelet " + m.Step.Node.String()
	case AgentReports:
		return "agent " + m.Step.Node.String()
	}
	return "world"
}

func (m moment) deed() string {
	switch a := m.Step.Action; {
	case a <= Preempt:
		return m.schedulerDeed()
	case a <= ExpireLate, a == ApplyUnheard, a == FailBinding:
		return m.bindingDeed()
	case a <= AgentReports:
		return m.nodeDeed()
	}
	return m.worldDeed()
}

func (m moment) schedulerDeed() string {
	p, n := m.Step.Pod, m.Step.Node
	plan := m.After.plan[p]
	switch m.Step.Action {
	case Filter:
		if m.Step.Variant == 1 {
			return fmt.Sprintf("filters %v: %s", p, m.parked())
		}
		return fmt.Sprintf("filters %v: fits on %v", p, n)
	case Reserve:
		if m.After.stage[p] != reserved {
			return fmt.Sprintf("reserves %v on %v: refused, %s", p, n, m.parked())
		}
		return fmt.Sprintf("reserves %v on %v: promises %v", p, n, plan)
	case Bind:
		if m.After.stage[p] != binding {
			return fmt.Sprintf("decides %v on %v again: refused, back to the queue", p, n)
		}
		return fmt.Sprintf("sends the Binding of %v to %v, %v", p, n, plan)
	case ReadBackBinding:
		return m.readBack()
	case StorePlacement:
		return fmt.Sprintf("stores the placement of %v in a second write", p)
	case SeePod:
		return fmt.Sprintf("sees that %v is %s", p, phaseNames[m.After.view[p]])
	case SeeReport:
		return fmt.Sprintf("sees the report of %v: %s", n, m.After.tell(m.After.seen[n]))
	case TakeOver:
		return "the new leader has waited, and begins"
	}
	return fmt.Sprintf("evicts %v from %v to make room for %v", PodID(m.Step.Variant), n, p)
}

var phaseNames = [...]string{"pending", "bound", "terminal", "gone"}

func (m moment) parked() string {
	if m.After.stage[m.Step.Pod] == waiting {
		return "it must wait for a report"
	}
	return "no node"
}

func (m moment) readBack() string {
	p := m.Step.Pod
	switch m.After.stage[p] {
	case assumed:
		return fmt.Sprintf("reads %v back: bound", p)
	case queued:
		return fmt.Sprintf("takes the Binding of %v for failed, back to the queue", p)
	}
	return fmt.Sprintf("reads %v back: gone", p)
}

func (m moment) bindingDeed() string {
	p, n := m.Step.Pod, m.Step.Node
	switch {
	case m.Step.Action == ExpireLate:
		return fmt.Sprintf("drops the late Binding of %v", p)
	case m.Step.Action == FailBinding, m.Step.Variant == 1:
		return fmt.Sprintf("refuses the Binding of %v", p)
	case m.Step.Action == ApplyLate:
		return fmt.Sprintf("binds %v to %v after all, as the late Binding asks: %v", p, n, m.After.rec[p])
	case m.Step.Action == ApplyUnheard:
		return fmt.Sprintf("binds %v to %v, the reply is lost", p, n)
	}
	return fmt.Sprintf("binds %v to %v", p, n)
}

func (m moment) nodeDeed() string {
	p, n := m.Step.Pod, m.Step.Node
	switch m.Step.Action {
	case KubeletFrees:
		return fmt.Sprintf("takes back the CPUs of %v", p)
	case KubeletPosts:
		return fmt.Sprintf("posts that %v is terminal", p)
	case AgentReports:
		return "reports " + m.After.tell(m.After.posted[n])
	}
	switch e := event(m.Step.Variant); {
	case e == barrier:
		return "its watch passes the barrier"
	case e >= goneEvent:
		return fmt.Sprintf("sees that %v is gone, and begins to stop it", p)
	case m.After.life[p] != running:
		return fmt.Sprintf("refuses %v: TopologyAffinityError", p)
	}
	return fmt.Sprintf("admits %v on %v", p, m.After.alloc[p])
}

func (m moment) worldDeed() string {
	p, n := m.Step.Pod, m.Step.Node
	switch m.Step.Action {
	case TimeOut:
		return fmt.Sprintf("the Binding of %v times out, the server still has it", p)
	case PodEnds:
		return fmt.Sprintf("%v ends on its own, its CPUs still held", p)
	case DeleteByForce:
		return fmt.Sprintf("%v is deleted by force", p)
	case CollectTerminal:
		return fmt.Sprintf("%v, terminal, is deleted", p)
	case WatchBreaks:
		return fmt.Sprintf("the watch of kubelet %v breaks, it lists: %s", n, m.After.pendingOn(n))
	case KubeletRestarts:
		return fmt.Sprintf("kubelet %v restarts, it lists: %s", n, m.After.pendingOn(n))
	case SchedulerCrashes:
		return "the scheduler crashes, a new leader lists pods and reports"
	}
	return fmt.Sprintf("an old report of %v arrives late", n)
}

// tell describes the content of a report.
func (s *State) tell(r report) string {
	var names []string
	for p := PodID(0); p < Pods; p++ {
		if r.held.Has(p) {
			names = append(names, fmt.Sprintf("%v on %v", p, s.alloc[p]))
		}
	}
	if names == nil {
		return "no CPUs in use"
	}
	return strings.Join(names, ", ")
}

// pendingOn lists the additions that the node's kubelet will handle.
func (s *State) pendingOn(n NodeID) string {
	var names []string
	for _, e := range s.watch[n] {
		if e >= addEvent && e < goneEvent {
			names = append(names, PodID(e-addEvent).String())
		}
	}
	if names == nil {
		return "nothing new"
	}
	return strings.Join(names, ", then ")
}
