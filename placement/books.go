package placement

import "github.com/berth-dev/berth/topology"

// books record which pods have the resources of a state. kubeletBooks reproduces the records of a
// kubelet's managers; jointBooks is Berth's own record.
type books interface {
	// commit records an admission. l has the events during the admission, or is nil.
	commit(r *Request, d *Decision, l *leaving)
	// release frees the resources of a pod that is no longer in the table.
	release(pod *PodAllocation)
	// restore builds the books from the pods in the table, and from the other parts of the
	// snapshot.
	restore(snap *Snapshot) error
	// check returns an error if a record contradicts the pods. The error names the record.
	check() error
	// linger implements State.Linger for a pod that the state does not have.
	linger(p *PodAllocation) (before *State, free bool)
	// hold implements State.Hold for a pod that the state does not have.
	hold(p *PodAllocation) (problem string)
	// sameOrder reports whether both states admitted their pods in the same order. It returns true
	// if the order has no meaning.
	sameOrder(o *State) bool
	// fit implements State.Fit.
	fit(reach topology.NUMASet) (score int, ok bool)
	// breaksGroups implements State.BreaksGroups.
	breaksGroups(r *Request) int
	// freeOn implements State.FreeCPUsOn.
	freeOn(node *topology.NUMANode) int
}

// kubeletBooks are the books of a kubelet's CPU and memory manager.
type kubeletBooks struct{ *State }

// jointBooks are Berth's books.
type jointBooks struct{ *State }

func (s *State) books() books { return s.m.side.books(s) }

func (s kubeletBooks) freeOn(node *topology.NUMANode) int {
	free := s.FreeCPUs()
	return node.CPUs.AndLen(&free)
}
