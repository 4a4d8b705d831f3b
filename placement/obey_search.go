package placement

import (
	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/placement/joint"
)

// maxSearched is the most containers whose places are looked for in every order. How many orders
// are tried depends on the steps that the question has left.
const maxSearched = 8

// search is room for looking for the places of a pod's containers where the ones that come first
// leave nothing to the others.
type search struct {
	books []joint.Book // by how many containers are placed
	order []int        // containers that run together, the ones that are placed first
	hard  []int        // the same, the ones that are hard to place first, then init containers
	one   hint.Set
	spare int // the steps that the search at hand leaves to others
}

// runAgain looks for places for containers that found none one after the other: in another order,
// then NUMA node by NUMA node. It begins where the pod has nothing, and says whether it found any.
// If it did not, everything is as it was.
func (ad *admission) runAgain(on *joint.Book) bool {
	s := &ad.joint.search
	s.order, s.hard = s.order[:0], s.hard[:0]
	for _, init := range [...]bool{false, true} {
		for c := range ad.r.Containers {
			ad.wantContainer(c)
			if ad.narrow(c); ad.wantsNothing() || (ad.r.Containers[c].Kind == Init) != init {
				continue
			}
			if s.hard = append(s.hard, c); !init {
				s.order = append(s.order, c)
			}
		}
	}
	if len(s.hard) < 2 || len(s.hard) > maxSearched || !ad.fitsTogether(on) || !ad.fitsAlone(on) {
		return false
	}
	if s.one == nil {
		s.one, s.books = ad.m.joint.Space().NewSet(), make([]joint.Book, maxSearched)
	}
	for i := 1; i < len(s.order); i++ { // sorted in place, without allocating
		for k := i; k > 0 && ad.harder(s.hard[k], s.hard[k-1]); k-- {
			s.hard[k], s.hard[k-1] = s.hard[k-1], s.hard[k]
		}
	}
	ad.startAgain(on)
	if s.spare = ad.joint.budget.Left() / 2; ad.permute(0) {
		return true
	}
	ad.startAgain(on)
	if s.spare = 0; ad.spread(0) {
		return true
	}
	ad.startAgain(on)
	ad.runEach()
	return false
}

func (ad *admission) startAgain(on *joint.Book) {
	ad.joint.try.Begin(on)
	ad.resetDecision()
}

// fitsTogether says whether there is room for the pod's peak, wherever it lies.
func (ad *admission) fitsTogether(on *joint.Book) bool {
	j := &ad.joint
	ad.wantPod()
	j.want.Width, j.want.Rules, j.want.Same, j.want.SameHow = joint.AnyWidth, joint.Rules{}, joint.Anywhere, joint.Unset
	j.want.Nodes, j.want.PerNode = 0, 0
	for i := range j.want.Devices {
		j.want.Devices[i].OnePerFunction = false
	}
	j.pool.Begin(on)
	return ad.wantsNothing() || j.pool.Place(&j.want, &j.grant) == joint.Placed
}

// fitsAlone says whether there is room for each container if it is the only one.
func (ad *admission) fitsAlone(on *joint.Book) bool {
	j := &ad.joint
	for c := range ad.r.Containers {
		ad.wantContainer(c)
		ad.narrow(c)
		j.pool.Begin(on)
		if !ad.wantsNothing() && j.pool.Place(&j.want, &j.grant) != joint.Placed {
			return false
		}
	}
	return true
}

// harder says whether container a is harder to place than b: it has more devices, or CPUs of its
// own, or more CPU.
func (ad *admission) harder(a, b int) bool {
	x, y := &ad.r.Containers[a], &ad.r.Containers[b]
	if n, m := x.anyDevices(), y.anyDevices(); n != m {
		return n > m
	}
	if own := ad.pinsWhole(a); own != ad.pinsWhole(b) {
		return own
	}
	return x.MilliCPU > y.MilliCPU
}

// anyDevices is how many devices the container asks for.
func (c *ContainerRequest) anyDevices() (n int64) {
	for i := range c.Devices {
		n += c.Devices[i].Count
	}
	return n
}

// permute places the containers from the n-th of the order on, in every order, then the init
// containers.
func (ad *admission) permute(n int) bool {
	s := &ad.joint.search
	if n >= len(s.order) {
		return n == len(s.hard) || ad.next(s.hard[n], n, 0) && (ad.permute(n+1) || ad.takeBack(s.hard[n], n))
	}
	for i := n; i < len(s.order); i++ {
		s.order[n], s.order[i] = s.order[i], s.order[n]
		if c := s.order[n]; ad.next(c, n, 0) && (ad.permute(n+1) || ad.takeBack(c, n)) {
			return true
		}
		s.order[n], s.order[i] = s.order[i], s.order[n]
	}
	return false
}

// spread places the containers from the n-th hardest on, on every set of NUMA nodes.
func (ad *admission) spread(n int) bool {
	s := &ad.joint.search
	if n == len(s.hard) {
		return true
	}
	for _, mask := range ad.m.joint.Space().BySize() {
		if ad.width() == joint.One && mask.Len() > 1 {
			break
		}
		if c := s.hard[n]; ad.next(c, n, mask) && (ad.spread(n+1) || ad.takeBack(c, n)) {
			return true
		}
	}
	return false
}

// next places a container after n others, on the NUMA nodes of the mask unless that is 0.
func (ad *admission) next(c, n int, mask hint.Mask) bool {
	j, s := &ad.joint, &ad.joint.search
	if j.budget.Left() <= s.spare {
		j.budget.CutOff()
		return false
	}
	j.budget.Charge(1)
	ad.wantContainer(c)
	ad.narrow(c)
	if mask != 0 {
		if j.want.Within != nil && !j.want.Within.Has(mask) || j.want.Nodes > 0 && mask.Len() != j.want.Nodes {
			return false
		}
		clear(s.one)
		s.one.Add(mask)
		j.want.Within = s.one
	}
	s.books[n].CopyFrom(&j.try.Book)
	if ad.r.Containers[c].Kind == Init {
		return ad.placeInit(c) == NoDetail || ad.takeBack(c, n)
	}
	if j.try.Place(&j.want, &j.grant) != joint.Placed {
		return false
	}
	ad.record(c)
	return ad.provide(c, j.grant.Nodes) == NoDetail || ad.takeBack(c, n)
}

// takeBack takes back the container that was placed after n others. It says false.
func (ad *admission) takeBack(c, n int) bool {
	ad.joint.try.Book.CopyFrom(&ad.joint.search.books[n])
	ad.d.Containers[c].empty(&ad.r.Containers[c])
	return false
}
