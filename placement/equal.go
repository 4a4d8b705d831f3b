package placement

import "slices"

// Equal reports whether two states of one model have equal Snapshots. It is faster than a
// comparison of Snapshots, because copied states share most of their parts. If Berth decides, Equal
// ignores the order of pods.
func (s *State) Equal(o *State) bool {
	if s.shared != o.shared || (s.book == nil) != (o.book == nil) || s.book != nil && !s.book.Equal(o.book) {
		return false
	}
	return slices.EqualFunc(s.pods, o.pods, samePod) && (s.m.Decides() || s.sameOrder(&o.podTable)) && s.pools.equal(o.pools)
}

func samePod(a, b podRef) bool {
	return a.uid == b.uid && (a.pod == b.pod || a.pod.Whole.Equal(b.pod.Whole) && slices.EqualFunc(a.pod.Containers, b.pod.Containers, sameContainer))
}

func sameContainer(a, b ContainerAllocation) bool {
	return a.Name == b.Name && a.Kind == b.Kind && a.CPUs == b.CPUs && (a.Memory == nil) == (b.Memory == nil) && slices.Equal(a.Memory, b.Memory) &&
		a.Exclusive == b.Exclusive && slices.Equal(a.Shares, b.Shares) && slices.Equal(a.Provided, b.Provided) &&
		slices.EqualFunc(a.Devices, b.Devices, sameDevices)
}

func sameDevices(a, b DeviceAllocation) bool {
	return a.Resource == b.Resource && slices.Equal(a.IDs, b.IDs)
}
