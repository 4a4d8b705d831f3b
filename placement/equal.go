package placement

import "slices"

// Equal says whether two states of one model have equal Snapshots, without making any: states that
// came of one another share most of what they hold. Where Berth decides the order of pods means
// nothing, and is not compared.
func (s *State) Equal(o *State) bool {
	if s.shared != o.shared || (s.book == nil) != (o.book == nil) || s.book != nil && !s.book.Equal(o.book) {
		return false
	}
	return slices.EqualFunc(s.pods, o.pods, samePod) && (s.m.joint != nil || s.sameOrder(o)) && s.samePools(o)
}

func samePod(a, b podRef) bool {
	return a.uid == b.uid && (a.pod == b.pod || slices.EqualFunc(a.pod.Containers, b.pod.Containers, sameContainer))
}

func sameContainer(a, b ContainerAllocation) bool {
	return a.Name == b.Name && a.Kind == b.Kind && a.CPUs == b.CPUs && (a.Memory == nil) == (b.Memory == nil) && slices.Equal(a.Memory, b.Memory) &&
		a.Exclusive == b.Exclusive && slices.Equal(a.Shares, b.Shares) && slices.Equal(a.Provided, b.Provided) &&
		slices.EqualFunc(a.Devices, b.Devices, func(x, y DeviceAllocation) bool { return x.Resource == y.Resource && slices.Equal(x.IDs, y.IDs) })
}

// sameOrder says whether the same pods were admitted in the same order, whatever their numbers.
func (s *State) sameOrder(o *State) bool {
	for i := range s.pods {
		if s.pods[i].order != o.pods[i].order {
			return s.sameRanks(o)
		}
	}
	return true
}

func (s *State) sameRanks(o *State) bool {
	for i := range s.pods {
		for j := range i {
			if (s.pods[i].order < s.pods[j].order) != (o.pods[i].order < o.pods[j].order) {
				return false
			}
		}
	}
	return true
}

// samePools compares the pools of plugins that are there; which devices are in use follows from the
// pods.
func (s *State) samePools(o *State) bool {
	i, j := 0, 0
	for {
		for i < len(s.pools) && !s.pools[i].registered {
			i++
		}
		for j < len(o.pools) && !o.pools[j].registered {
			j++
		}
		if i == len(s.pools) || j == len(o.pools) {
			return i == len(s.pools) && j == len(o.pools)
		}
		a, b := &s.pools[i].source, &o.pools[j].source
		if a.Resource != b.Resource || a.Preference != b.Preference || !slices.Equal(a.Devices, b.Devices) || !slices.Equal(a.Points, b.Points) {
			return false
		}
		i++
		j++
	}
}
