package claims

import (
	"fmt"

	"github.com/berth-dev/berth/test/protocol/explore"
)

// Pods is the number of pods, Nodes of nodes, in the model.
const (
	Pods  = 3
	Nodes = 2
)

type (
	// PodID is a pod of the model.
	PodID = explore.Pod
	// NodeID is a node of the model.
	NodeID uint8
)

func (n NodeID) String() string { return fmt.Sprint("n", uint8(n)) }

// numas is a set of a node's NUMA nodes: those with a free CPU, or with a free device.
type numas = explore.CPUs

const both numas = 0b11

// Kind is the request of a pod.
type Kind uint8

// The kinds of pods.
const (
	None  Kind = iota // there is no such pod
	Plain             // a CPU
	Claim             // a CPU, and a device on its NUMA node
	Whole             // the same with a claim that the allocator must be shown all devices for
)

// Budget counts the events that may still happen.
type Budget struct {
	Crashes   uint8 // of the scheduler
	Deletions uint8 // of pods
	Denials   uint8 // of Bindings
	Slices    uint8 // a device comes or goes
	Ready     uint8 // devices become ready
	Sharers   uint8 // pods of another scheduler that use a claim
}

// Config is one model.
type Config struct {
	Pods    [Pods]Kind
	Devices [Nodes]numas // where devices are; the node is not there if it has no CPU
	CPUs    [Nodes]numas
	Decides [Nodes]bool // Berth chooses the CPU
	Waits   bool        // the devices of n0 must become ready
	Rules   Rule
	Budget  Budget
}

// phase is the scheduler's progress with a pod.
type phase uint8

const (
	pending  phase = iota
	reserved       // Reserve has decided
	written        // the allocation is written; the device may have to become ready
	failing        // the attempt has failed, and what it wrote is still there
	half           // only its reservation has been taken back
	bound
)

// place is a NUMA node of a node.
type place struct {
	node NodeID
	numa uint8
}

func (p place) String() string { return fmt.Sprintf("NUMA node %d of %v", p.numa, p.node) }

// claim is a claim in the API.
type claim struct {
	allocated, reserved, shared bool
	at                          place
}

// State is the memory of all actors. It is comparable: equal states are one state.
type State struct {
	phase [Pods]phase
	gone  explore.Pods // from the API
	cpu   [Pods]place  // as the scheduler predicts it, or the kubelet gave it
	dev   [Pods]place  // as the allocator chose it, from Reserve on
	claim [Pods]claim

	devices [Nodes]numas
	ready   bool
	turn    [Nodes]uint8 // the pod whose turn it is, and 1; 0 for none

	// excluded are the nodes that are not tried for a pod, refused the nodes that Reserve refused
	// since they last changed.
	excluded, refused [Pods]uint8

	left   Budget
	broken Breach
}

// Breach is a broken promise.
type Breach uint8

// The breaches that Check looks for.
const (
	Kept          Breach = iota
	Misaligned           // a pod runs away from its device
	LeftAllocated        // a claim is allocated to a pod that is gone
	ChosenAgain          // a node is chosen again that was refused, and nothing has changed there
	LeftStanding         // nothing is left to happen, and a pod that fits is not bound
	TakenAway            // a claim is deallocated that another pod uses
)

var breachNames = [...]string{"kept", "misaligned", "left allocated", "chosen again", "left standing", "taken away"}

func (b Breach) String() string { return breachNames[b] }

func initial(c *Config) State {
	s := State{devices: c.Devices, left: c.Budget}
	for p, kind := range c.Pods {
		if kind == None {
			s.gone.Add(PodID(p))
		}
	}
	return s
}

// there reports whether the pod has a CPU of the node: in fact, or, in flight, by a promise.
func (s *State) there(p PodID, n NodeID, inFlight bool) bool {
	if s.cpu[p].node != n || s.phase[p] == pending {
		return false
	}
	return s.phase[p] == bound && !s.gone.Has(p) || inFlight && s.phase[p] != bound
}

// free returns the NUMA nodes with a CPU that is free or the pod's own.
func (m *Model) free(s *State, n NodeID, but PodID, inFlight bool) numas {
	left := m.CPUs[n]
	for p := PodID(0); p < Pods; p++ {
		if p != but && s.there(p, n, inFlight) {
			left &^= 1 << s.cpu[p].numa
		}
	}
	return left
}

func lowest(set numas) (numa uint8, ok bool) {
	for i := range uint8(2) {
		if set&(1<<i) != 0 {
			return i, true
		}
	}
	return 0, false
}

// unallocated returns the devices of a node that no other pod has.
func (m *Model) unallocated(s *State, n NodeID, but PodID) numas {
	left := s.devices[n]
	for p := PodID(0); p < Pods; p++ {
		if p == but {
			continue
		}
		if c := s.claim[p]; c.allocated && c.at.node == n {
			left &^= 1 << c.at.numa
		}
		if m.Pods[p] != Plain && s.phase[p] == reserved && s.dev[p].node == n {
			left &^= 1 << s.dev[p].numa
		}
	}
	return left
}
