package claims

import (
	"fmt"

	"github.com/berth-dev/berth/test/protocol/explore"
)

// Pods and Nodes are the numbers of pods and nodes in the model.
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
	Whole             // the same, with a claim for which the allocator must see all devices
)

// Budget counts the events that may still happen.
type Budget struct {
	Crashes   uint8 // of the scheduler
	Deletions uint8 // of pods
	Denials   uint8 // of Bindings
	Slices    uint8 // devices that appear or disappear
	Ready     uint8 // devices that become ready
	Sharers   uint8 // pods of another scheduler that use a claim
}

// Config is one model.
type Config struct {
	Pods    [Pods]Kind
	Devices [Nodes]numas // where devices are; a node without CPUs does not exist
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
	failing        // the attempt has failed, and its writes are not yet undone
	half           // only the reservation has been removed
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
	cpu   [Pods]place  // the CPU that the scheduler predicts, or that the kubelet gave
	dev   [Pods]place  // the device that the allocator has chosen, from Reserve on
	claim [Pods]claim

	devices [Nodes]numas
	ready   bool
	turn    [Nodes]uint8 // 1 plus the pod whose Binding may be written now; 0 for none

	// excluded are the nodes that are not tried for a pod, refused the nodes that Reserve has
	// refused since their last change.
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
	LeftAllocated        // a claim stays allocated to a pod that is gone
	ChosenAgain          // a refused node is chosen again without a change of the node
	LeftStanding         // no further step is possible, and a pod that fits is not bound
	TakenAway            // a claim that another pod uses is deallocated
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

// there reports whether the pod has a CPU of the node. If inFlight is true, a promised CPU counts
// too.
func (s *State) there(p PodID, n NodeID, inFlight bool) bool {
	if s.cpu[p].node != n || s.phase[p] == pending {
		return false
	}
	return s.phase[p] == bound && !s.gone.Has(p) || inFlight && s.phase[p] != bound
}

// free returns the NUMA nodes with a CPU that is free or belongs to the pod.
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
