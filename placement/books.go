package placement

import "github.com/berth-dev/berth/topology"

// books are how a state is kept: as a kubelet's managers do, or as Berth does where it decides.
type books interface {
	// commit writes an admission down, while pods leave; nil for none.
	commit(r *Request, d *Decision, l *leaving)
	// release gives back what a pod held that is no longer in the table.
	release(pod *PodAllocation)
	// restore makes the books of the pods in the table, and of what the snapshot says beside them.
	restore(snap *Snapshot) error
	// check says which of the books contradicts the pods.
	check() error
	// freeOn is State.FreeCPUsOn.
	freeOn(node *topology.NUMANode) int
}

// kubeletBooks are those of a kubelet's CPU and memory manager.
type kubeletBooks struct{ *State }

// jointBooks are those of Berth.
type jointBooks struct{ *State }

// books are the ones that the state is kept in.
func (s *State) books() books {
	if s.m.joint != nil {
		return jointBooks{s}
	}
	return kubeletBooks{s}
}

func (s kubeletBooks) freeOn(node *topology.NUMANode) int {
	free := s.FreeCPUs()
	return node.CPUs.AndLen(&free)
}
