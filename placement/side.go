package placement

import "github.com/berth-dev/berth/placement/cpu"

// side has the functions that depend on the program that decides: the kubelet or Berth. It is set
// when the model is compiled.
type side interface {
	// newDecider returns a decider for one pod at a time.
	newDecider() decider
	// books returns the books of the state.
	books(s *State) books
	// open adds to the state of an empty node the records that are needed only on this side.
	open(s *State)
	// monotone implements Model.Monotone; kept means that a Keep limits the pod.
	monotone(r *Request, kept bool) bool
	// countable reports whether n free CPUs on a NUMA node are always enough for a request for n
	// CPUs.
	countable() bool
}

// kubeletSide predicts a kubelet.
type kubeletSide struct{ *Model }

// berthSide makes Berth's own decisions.
type berthSide struct{ *Model }

func (m *Model) sideOf() side {
	if m.joint != nil {
		return berthSide{m}
	}
	return kubeletSide{m}
}

func (m kubeletSide) newDecider() decider { return newAdmission(m.Model) }
func (m berthSide) newDecider() decider   { return newJointAdmission(m.Model) }

func (kubeletSide) books(s *State) books { return kubeletBooks{s} }
func (berthSide) books(s *State) books   { return jointBooks{s} }

func (kubeletSide) open(*State) {}

func (m berthSide) open(s *State) {
	s.account = m.joint.NewBook()
	s.shared = m.joint.SharedCPUs(s.account)
	s.given = make([]uint64, m.supplies.places())
}

func (m kubeletSide) countable() bool {
	c := &m.cpus
	return c.hinter != nil && c.topology.Regular() && m.set.cpu == cpu.Options{Version: m.set.version} && !c.reserved.IsEmpty() && len(m.supplies) == 0
}

func (berthSide) countable() bool { return false }
