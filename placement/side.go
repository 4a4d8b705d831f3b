package placement

import "github.com/berth-dev/berth/placement/cpu"

// side is who decides on the nodes of a model, the kubelet or Berth. A model has one from when it
// is compiled, and does not ask again which one that is.
type side interface {
	// newDecider returns what admits pods, one at a time.
	newDecider() decider
	// books are the ones that the state is kept in.
	books(s *State) books
	// open gives the state of a node without pods the books that only this side has.
	open(s *State)
	// monotone is Model.Monotone if CPUs are kept from the pod or not.
	monotone(r *Request, kept bool) bool
	// countable says whether each CPU that is free on a NUMA node can be given away by itself, so
	// that counting them is enough.
	countable() bool
}

// kubeletSide is a kubelet, as it is predicted.
type kubeletSide struct{ *Model }

// berthSide is Berth in the kubelet's place.
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
