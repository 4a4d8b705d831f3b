package placement

import "github.com/berth-dev/berth/topology"

// books are how a state is kept: as a kubelet's managers do, or as Berth does if it decides.
type books interface {
	// commit writes an admission down, while pods leave; nil for none.
	commit(r *Request, d *Decision, l *leaving)
	// release gives back what a pod held that is no longer in the table.
	release(pod *PodAllocation)
	// restore makes the books of the pods in the table, and of what the snapshot says beside them.
	restore(snap *Snapshot) error
	// check says which of the books contradicts the pods.
	check() error
	// linger is State.Linger for a pod that the state does not have.
	linger(p *PodAllocation) (before *State, free bool)
	// hold is State.Hold for a pod that the state does not have.
	hold(p *PodAllocation) (problem string)
	// sameOrder says whether the pods came in the same order, as far as that means anything.
	sameOrder(o *State) bool
	// fit is State.Fit.
	fit(reach topology.NUMASet) (score int, ok bool)
	// breaksGroups is State.BreaksGroups.
	breaksGroups(r *Request) int
	// freeOn is State.FreeCPUsOn.
	freeOn(node *topology.NUMANode) int
}

// kubeletBooks are those of a kubelet's CPU and memory manager.
type kubeletBooks struct{ *State }

// jointBooks are those of Berth.
type jointBooks struct{ *State }

func (s *State) books() books { return s.m.side.books(s) }

func (s kubeletBooks) freeOn(node *topology.NUMANode) int {
	free := s.FreeCPUs()
	return node.CPUs.AndLen(&free)
}
