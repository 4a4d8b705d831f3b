package ledger

import (
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Spare has the properties of a node's likeliest state that the scheduler uses to rank the node for
// a pod.
type Spare struct {
	// Reach has the NUMA nodes that the pod would use (placement.Model.Reach).
	Reach topology.NUMASet
	// CPUs are the CPUs that the node could assign exclusively before it admits the pod.
	CPUs topology.CPUSet
	// Devices is the number of free devices that the pod would leave unused, on the node or on its
	// NUMA nodes (placement.SpareDevices).
	Devices int
	// Stranded is the number of free devices on the NUMA nodes of Reach for which the pod would
	// leave too few CPUs (placement.State.Strands).
	Stranded int
	// Beside is Stranded if the pod asks for no devices, otherwise 0.
	Beside int
	// Groups is the number of groups of free devices that the pod would split
	// (placement.State.BreaksGroups).
	Groups int
	// Strictness rates how strictly the node keeps the pod's resources together.
	Strictness placement.Strictness
	// Fit and OwnFit are the results of placement.State.Fit: how well the pod fits the node's own
	// strategy, from 0 to 100, and whether the node has one.
	Fit    int
	OwnFit bool
}

// Spare fills s for a pod that the node admits with the verdict. If the state is not known, it
// returns false and does not change s.
func (v View) Spare(r *placement.Request, verdict *placement.Verdict, s *Spare) bool {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	state := o.likeliest()
	if state == nil {
		return false
	}
	s.Fill(o.facts.report.Model, state, r, verdict)
	return true
}

// Fill sets s for a pod that a node in this state admits with the verdict.
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

// Outline has, for each NUMA node, the number of CPUs that are free once the node's pods in flight
// are admitted. Only a node with a single possible state has an Outline.
type Outline struct {
	Model *placement.Model
	Rooms []Room
	// Amounts means that the node's report has only amounts.
	Amounts bool
	// Count is the node's ChangeCounter.Count.
	Count uint32
}

// Room has the numbers of free and of all CPUs of one NUMA node.
type Room struct {
	// Free counts only the CPUs that can be assigned exclusively.
	Free, All int32
}

// Outline returns the Outline of a node with the machine m. It returns nil if the node has no
// report, may be in several states, or has Holdings, or if Berth decides.
func (v View) Outline(m *topology.Machine) *Outline {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	if o.facts.report == nil || o.facts.decides() {
		return nil
	}
	state := o.certain()
	if state == nil {
		return nil
	}
	out := newOutline(len(m.NUMANodes))
	out.Model, out.Amounts, out.Count = o.facts.report.Model, o.facts.report.Amounts, o.changes.Count()
	free := state.FreeCPUs()
	for i := range m.NUMANodes {
		node := &m.NUMANodes[i]
		out.Rooms[i] = Room{Free: int32(node.CPUs.AndLen(&free)), All: int32(node.CPUs.Len())}
	}
	return out
}

// newOutline returns an Outline with this number of Rooms. Up to eight Rooms are in one memory
// block with the Outline, because the scheduler reads the Outlines of all nodes for each pod of a
// new shape.
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

// Hope returns the Spare of a candidate that must wait for the node. It assumes that the kubelet
// admits all pods in flight in the order of their Bindings, and that no other pod leaves. It
// returns false if the kubelet would then refuse one of these pods or the candidate. The result
// only shows whether the candidate should wait for the node; the scheduler must not place the pod
// because of it.
func (v View) Hope(c *Candidate) (s Spare, known bool) {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	if o.facts.report == nil {
		return Spare{}, false
	}
	state, d := o.facts.report.state.Clone(), decisions.Get().(*placement.Decision)
	defer decisions.Put(d)
	for _, p := range append(o.facts.pods.afloat(), o.facts.flight(true)...) {
		if verdict := placement.Decide(state, p.req, d); !verdict.OK() {
			return Spare{}, false
		}
		state.Commit(p.req, d)
	}
	verdict := placement.Admit(state, c.Request)
	if !verdict.OK() {
		return Spare{}, false
	}
	s.Fill(o.facts.report.Model, state, c.Request, &verdict)
	return s, true
}
