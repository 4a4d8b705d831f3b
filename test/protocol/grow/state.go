package grow

import (
	"fmt"

	"github.com/berth-dev/berth/test/protocol/explore"
)

// CPUs is a set of the node's CPUs.
type CPUs = explore.CPUs

const allCPUs CPUs = 0b11

// decision is the API's decision about pod a: CPUs and units of memory.
type decision struct {
	gen  uint8
	cpus CPUs
}

func (d decision) size() uint8    { return uint8(d.cpus.Len()) }
func (d decision) String() string { return fmt.Sprintf("generation %d, %v", d.gen, d.cpus) }

// shown is the report about pod a.
type shown struct {
	gen   uint8
	cpus  CPUs
	limit uint8
}

func (r shown) String() string {
	return fmt.Sprintf("a by generation %d on %v with memory %d", r.gen, r.cpus, r.limit)
}

// phase is the progress of pod b.
type phase uint8

const (
	pending phase = iota
	bound
	running
	gone
)

// Budget counts the events that may still happen.
type Budget struct {
	Wishes   uint8 // resizes that somebody asks for
	Losses   uint8 // answers to a write that are lost, or late writes
	Crashes  uint8 // of the scheduler
	Restarts uint8 // of the agent
	Slips    uint8 // moves that the runtime does not carry out
	OldNews  uint8 // copies of the first decision that reach the agent late
	Begins   uint8 // pod a's container ends, and the kubelet begins it again
	Crowds   uint8 // the kubelet's sums are full of other pods, for good
	Leaves   uint8 // pod b leaves
}

// Config is one model.
type Config struct {
	Rules  Rule
	Budget Budget
	// Size is the size of pod a at the beginning: 1 or 2.
	Size uint8
}

// State is the memory of all actors. It is comparable: equal states are one state.
type State struct {
	// spec is pod a's request, alloc the kubelet's allocation, acted the limit that the kubelet
	// believes to be set. limit is the memory limit of the cgroup, runs its CPUs.
	spec, alloc, acted, limit uint8
	runs                      CPUs
	crowded                   bool
	// loose: the limit was raised while no agent could refuse that.
	loose bool

	api decision
	// write is a decision on its way to the API; gen 0 for none.
	write decision

	scheduler
	agent
	posted, seen shown

	b    phase
	bCPU CPUs

	first  decision
	left   Budget
	broken Breach
}

// scheduler is the scheduler's memory.
type scheduler struct {
	view decision
	// wrote is the decision whose outcome it does not know; gen 0 for none.
	wrote decision
	// new: it has just started, and has not fenced old writes.
	new bool
	// gaveUp: there was no room once.
	gaveUp bool
}

// agent is the agent's memory, and disk the part that survives a restart.
type agent struct {
	down  bool
	knows decision
	disk  decision
	shut  CPUs // what no other container may have for the sake of pod a
	sent  bool // the runtime was asked to move the container
}

func initial(c *Config) State {
	first := decision{1, allCPUs.Lowest(int(c.Size))}
	s := State{spec: c.Size, alloc: c.Size, acted: c.Size, limit: c.Size, runs: first.cpus, api: first, first: first, left: c.Budget}
	s.view, s.knows, s.disk, s.shut = first, first, first, first.cpus
	s.posted = shown{1, first.cpus, c.Size}
	s.seen = s.posted
	return s
}

// counted returns the resources that are pod a's by the scheduler's knowledge.
func (s *State) counted(c *Config) (cpus CPUs, memory uint8) {
	cpus, memory = s.view.cpus, s.view.size()
	if c.Rules.Has(CountShown) {
		cpus, memory = cpus|s.seen.cpus, max(memory, s.seen.limit)
	}
	if c.Rules.Has(KeepBoth) && s.wrote.gen != 0 {
		cpus, memory = cpus|s.wrote.cpus, max(memory, s.wrote.size())
	}
	return cpus, memory
}

// judge looks for breaches.
func (s *State) judge() {
	if s.broken != Kept || s.b != running {
		return
	}
	if s.runs&s.bCPU != 0 {
		s.broken = TwiceGiven
	} else if s.limit > 1 && !s.loose {
		s.broken = Outgrown
	}
}
