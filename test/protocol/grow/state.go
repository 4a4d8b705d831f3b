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
	Wishes   uint8 // requests to resize
	Losses   uint8 // lost answers to writes, and late writes
	Crashes  uint8 // of the scheduler
	Restarts uint8 // of the agent
	Slips    uint8 // moves that the runtime does not carry out
	OldNews  uint8 // copies of the first decision that reach the agent late
	Begins   uint8 // restarts of pod a's container by the kubelet
	Crowds   uint8 // other pods use up the node's total forever
	Leaves   uint8 // departures of pod b
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
	// loose means that the limit was raised while no agent could refuse it.
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
	// wrote is a decision with an unknown outcome; gen 0 for none.
	wrote decision
	// new means that it has just started and has not fenced old writes.
	new bool
	// gaveUp means that the scheduler found no room for the resize.
	gaveUp bool
}

// agent is the agent's memory. disk is the part that survives a restart.
type agent struct {
	down  bool
	knows decision
	disk  decision
	shut  CPUs // CPUs that the agent keeps for pod a
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

// counted returns the resources that the scheduler counts for pod a.
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
