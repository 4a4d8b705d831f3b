package placement

// books record which pods have the resources of a state. kubeletBooks reproduces the records of a
// kubelet's CPU and memory manager; jointBooks is Berth's own record.
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
}

type kubeletBooks struct{ s *State }

type jointBooks struct{ s *State }

func (s *State) books() books {
	if s.m.obey != nil {
		return jointBooks{s}
	}
	return kubeletBooks{s}
}
