package ledger

import (
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Spare is what a node would have left next to an admitted pod, in its likeliest state.
type Spare struct {
	// Reach is the NUMA nodes over which the pod would be spread (placement.Model.Reach).
	Reach topology.NUMASet
	// CPUs are the CPUs that the node could give exclusively before it admits the pod.
	CPUs topology.CPUSet
	// Devices is how many free devices the pod would leave over, on the node or beside it
	// (placement.SpareDevices).
	Devices int
	// Stranded is how many free devices of these NUMA nodes the pod would leave over that had
	// enough CPUs beside them, and would not with the pod (placement.State.Strands).
	Stranded int
	// Beside is Stranded for a pod that asks for no devices; else 0.
	Beside int
	// Groups is how many groups of free devices that belong together the pod would take apart
	// (placement.State.BreaksGroups).
	Groups int
	// Strictness is the node's for the pod.
	Strictness placement.Strictness
	// Fit is how well the pod fits by the node's own strategy, from 0 to 100, if OwnFit says that
	// it has one (placement.State.Fit).
	Fit    int
	OwnFit bool
}

// Spare fills s with what would be left next to a pod that is admitted with the verdict. It returns
// false, and does not change s, if the state is not known.
func (v View) Spare(r *placement.Request, verdict *placement.Verdict, s *Spare) bool {
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	state := v.n.likeliest()
	if state == nil {
		return false
	}
	s.Fill(v.n.report.Model, state, r, verdict)
	return true
}

// Fill sets s to what would be left next to a pod that a node in the state admits with the verdict.
func (s *Spare) Fill(m *placement.Model, state *placement.State, r *placement.Request, verdict *placement.Verdict) {
	s.Reach, s.Strictness = m.Reach(r, verdict), m.Strictness(r)
	s.CPUs = state.FreeCPUs()
	s.Devices, s.Stranded = placement.SpareDevices(state, r, s.Reach), state.Strands(r, s.Reach)
	if s.Beside = 0; !r.AsksDevices() {
		s.Beside = s.Stranded
	}
	s.Groups = state.BreaksGroups(r)
	s.Fit, s.OwnFit = state.Fit(s.Reach)
}

// Outline is what is free on a node whose state is known. It bounds what the node can give to pods
// after those in flight.
type Outline struct {
	Model *placement.Model
	Rooms []Room
	// Amounts means that the node's report tells amounts alone.
	Amounts bool
	// Count is that of the node's changes.
	Count uint32
}

// Room is what is free on one NUMA node.
type Room struct {
	// Free is how many CPUs could be given away exclusively, All how many there are.
	Free, All int32
}

// Outline returns what is free on each NUMA node of the machine. It returns nil if the node may be
// in several states, if it has Holdings, or if Berth decides.
func (v View) Outline(m *topology.Machine) *Outline {
	n := v.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.report == nil || n.decides() {
		return nil
	}
	state := n.certain()
	if state == nil {
		return nil
	}
	o := newOutline(len(m.NUMANodes))
	o.Model, o.Amounts, o.Count = n.report.Model, n.report.Amounts, n.changes.Count()
	free := state.FreeCPUs()
	for i := range m.NUMANodes {
		node := &m.NUMANodes[i]
		o.Rooms[i] = Room{Free: int32(node.CPUs.AndLen(&free)), All: int32(node.CPUs.Len())}
	}
	return o
}

// newOutline returns an Outline of so many NUMA nodes. Up to eight rooms lie in its own piece of
// memory: the Outline of every node is read for a pod of a new shape.
func newOutline(numaNodes int) *Outline {
	const few = 8
	if numaNodes > few {
		return &Outline{Rooms: make([]Room, numaNodes)}
	}
	beside := new(struct {
		Outline
		rooms [few]Room
	})
	beside.Rooms = beside.rooms[:numaNodes]
	return &beside.Outline
}

// Hope returns the Spare of a candidate that must wait for the node, for the case that all pods on
// their way arrive in the order of their Bindings and no other pod leaves. It returns false if that
// state would refuse one of them or the candidate. It must not be used for decisions.
func (v View) Hope(c *Candidate) (s Spare, known bool) {
	n := v.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.report == nil {
		return Spare{}, false
	}
	state, d := n.report.state.Clone(), decisions.Get().(*placement.Decision)
	defer decisions.Put(d)
	for _, p := range append(n.afloat(), n.flight(true)...) {
		if verdict := placement.Decide(state, p.req, d); !verdict.OK() {
			return Spare{}, false
		}
		state.Commit(p.req, d)
	}
	verdict := placement.Admit(state, c.Request)
	if !verdict.OK() {
		return Spare{}, false
	}
	s.Fill(n.report.Model, state, c.Request, &verdict)
	return s, true
}
