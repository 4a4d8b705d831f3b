package claims

import (
	"fmt"

	"github.com/berth-dev/berth/test/protocol/explore"
)

// Result is the result of Check.
type Result struct {
	explore.Result[State, Step, Breach]
	Steps [actions]uint64 // steps taken, by action
	Bound int             // states in which two pods with claims are bound
}

// search is a Model that can be explored, with counts.
type search struct {
	m *Model
	Result
}

// Check visits every reachable state, until a promise is broken or none is left.
func Check(c Config) Result {
	s := &search{m: &Model{c}}
	s.Result.Result = explore.Walk(s, initial(&c))
	return s.Result
}

func (s *search) Steps(state *State, emit func(Step, *State)) {
	s.m.successors(state, func(step Step, next *State) {
		s.Result.Steps[step.Action]++
		emit(step, next)
	})
}

func (*search) World(step Step) bool { return step.Action.world() }

func (s *search) See(state *State) Breach {
	n := 0
	for p, kind := range s.m.Pods {
		if kind > Plain && state.phase[p] == bound {
			n++
		}
	}
	if n > 1 {
		s.Bound++
	}
	return state.broken
}

func (s *search) Rest(state *State) (Breach, string) {
	for p := PodID(0); p < Pods; p++ {
		if c := state.claim[p]; c.allocated && !c.shared && state.gone.Has(p) {
			return LeftAllocated, ""
		}
		if !state.gone.Has(p) && state.phase[p] < written {
			if at, ok := s.m.fits(state, p); ok {
				return LeftStanding, fmt.Sprintf("%v would fit on %v", p, at)
			}
		}
	}
	return Kept, ""
}

// fits returns where the pod could be bound when nothing is in progress. A claim that another pod
// uses keeps its devices.
func (m *Model) fits(s *State, p PodID) (place, bool) {
	for n := NodeID(0); n < Nodes; n++ {
		left := m.free(s, n, p, true)
		if cpu, ok := lowest(left); ok && !m.Decides[n] {
			left = 1 << cpu
		}
		devices := both
		switch {
		case s.claim[p].shared && s.claim[p].at.node != n:
			continue
		case s.claim[p].shared:
			devices = 1 << s.claim[p].at.numa
		case m.Pods[p] != Plain:
			devices = m.choosable(p, m.unallocated(s, n, p))
		}
		if numa, ok := lowest(left & devices); ok {
			return place{n, numa}, true
		}
	}
	return place{}, false
}

func (s *search) Tell(m explore.Moment[State, Step]) string {
	return fmt.Sprintf("%-10s %s", actors[m.Step.Action], s.deed(m))
}

var actors = [actions]string{
	Reserve: "scheduler", Refuse: "scheduler", Drop: "scheduler", PostFilter: "scheduler", Write: "scheduler", Bind: "scheduler",
	GiveUp: "scheduler", TakeBack: "scheduler", Unreserve: "scheduler", Controller: "controller", Deny: "api", Delete: "world", Crash: "world",
	DeviceComes: "driver", DeviceGoes: "driver", GetReady: "driver", Share: "world",
}

func (s *search) deed(m explore.Moment[State, Step]) string {
	p, at := m.Step.Pod, m.Step.At
	switch m.Step.Action {
	case Reserve:
		if m.After.cpu[p].numa == at.numa {
			return fmt.Sprintf("reserves %v for %v", at, p)
		}
		return fmt.Sprintf("reserves %v for %v, with the device of NUMA node %d", m.After.cpu[p], p, at.numa)
	case Refuse:
		return fmt.Sprintf("refuses %v for %v in Reserve: the device is on NUMA node %d", at.node, p, at.numa)
	case Drop, PostFilter:
		return fmt.Sprintf("finds no node for %v, and deallocates its claim, which is on %v", p, at)
	case Write:
		return fmt.Sprintf("begins to bind %v", p)
	case Bind:
		if s.m.Decides[at.node] {
			return fmt.Sprintf("binds %v, with %v", p, at)
		}
		return fmt.Sprintf("binds %v; the kubelet gives it %v", p, at)
	case GiveUp:
		return fmt.Sprintf("does not bind %v", p)
	case TakeBack:
		return fmt.Sprintf("deallocates the claim of %v", p)
	case Unreserve:
		return fmt.Sprintf("ends the attempt for %v", p)
	case Controller:
		return fmt.Sprintf("takes back what is reserved for %v", p)
	case Deny:
		return fmt.Sprintf("refuses the Binding of %v", p)
	case Delete:
		return fmt.Sprintf("%v is deleted", p)
	case Crash:
		return "the scheduler is restarted"
	case DeviceComes:
		return fmt.Sprintf("offers the device of %v", at)
	case DeviceGoes:
		return fmt.Sprintf("withdraws the device of %v", at)
	case GetReady:
		return "has the devices of n0 ready"
	}
	return fmt.Sprintf("another scheduler binds a pod that uses the claim of %v", p)
}
