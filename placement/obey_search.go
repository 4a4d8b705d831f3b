package placement

import (
	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/placement/joint"
)

// maxSearched is the maximum number of containers of a pod for which other orders are tried. The
// budget of the run also limits the number of orders.
const maxSearched = 8

// search places the containers of a pod in other orders, after the first order failed.
type search struct {
	ad    *jointAdmission
	books []joint.Book // books[n] is the book after n containers are placed
	order []int        // app containers and sidecars; the containers that are placed come first
	hard  []int        // the same containers, the hardest to place first; then init containers
	one   hint.Set
	spare int // steps that the current search must leave unused
}

// again searches for places for all containers, and reports whether it finds them. It tries other
// orders, then every set of NUMA nodes for each container. Each attempt starts from the book in the
// parameter on. If nothing fits, the method places the containers once more in the first order, so
// that the decision is as before the search.
func (s *search) again(on *joint.Book) bool {
	s.order, s.hard = s.order[:0], s.hard[:0]
	if s.ad.avoid.on || s.ad.r.Rules.Claimed != nil {
		s.ad.d.begin(s.ad.r) // another order starts without the decisions so far
	}
	for _, init := range [...]bool{false, true} {
		for c := range s.ad.r.Containers {
			s.ad.wantContainer(c)
			if s.ad.narrow(c); s.ad.wantsNothing() || (s.ad.r.Containers[c].Kind == Init) != init {
				continue
			}
			if s.hard = append(s.hard, c); !init {
				s.order = append(s.order, c)
			}
		}
	}
	if len(s.hard) < 2 || len(s.hard) > maxSearched || !s.fitsTogether(on) || !s.fitsAlone(on) {
		return false
	}
	if s.one == nil {
		s.one, s.books = s.ad.m.obey.joint.Space().NewSet(), make([]joint.Book, maxSearched)
	}
	for i := 1; i < len(s.order); i++ { // sorted in place, without allocating
		for k := i; k > 0 && s.harder(s.hard[k], s.hard[k-1]); k-- {
			s.hard[k], s.hard[k-1] = s.hard[k-1], s.hard[k]
		}
	}
	s.startAgain(on)
	if s.spare = s.ad.budget.Left() / 2; s.permute(0) {
		return true
	}
	s.startAgain(on)
	if s.spare = 0; s.spread(0) {
		return true
	}
	s.startAgain(on)
	s.ad.runEach()
	return false
}

func (s *search) startAgain(on *joint.Book) {
	s.ad.try.Begin(on)
	s.ad.d.begin(s.ad.r)
}

// fitsTogether reports whether the node has room for the pod's peak request, on any NUMA nodes.
func (s *search) fitsTogether(on *joint.Book) bool {
	ad, w := s.ad, &s.ad.want
	ad.wantPod()
	w.Width, w.Rules, w.Same, w.SameHow = joint.AnyWidth, joint.Rules{}, joint.Anywhere, joint.Unset
	w.Nodes, w.PerNode = 0, 0
	for i := range w.Devices {
		w.Devices[i].OnePerFunction = false
	}
	ad.pool.Begin(on)
	return ad.wantsNothing() || ad.pool.Place(w, &ad.grant) == joint.Placed
}

// fitsAlone reports whether the node has room for each container if the pod had no other container.
func (s *search) fitsAlone(on *joint.Book) bool {
	ad := s.ad
	for c := range ad.r.Containers {
		ad.wantContainer(c)
		ad.narrow(c)
		ad.pool.Begin(on)
		if !ad.wantsNothing() && ad.pool.Place(&ad.want, &ad.grant) != joint.Placed {
			return false
		}
	}
	return true
}

// harder reports whether container a is harder to place than b. It compares the numbers of devices,
// then whether the containers get exclusive CPUs, then the requests for CPU.
func (s *search) harder(a, b int) bool {
	x, y := &s.ad.r.Containers[a], &s.ad.r.Containers[b]
	if n, m := x.anyDevices(), y.anyDevices(); n != m {
		return n > m
	}
	if own := s.ad.pinsWhole(a); own != s.ad.pinsWhole(b) {
		return own
	}
	return x.MilliCPU > y.MilliCPU
}

func (c *ContainerRequest) anyDevices() (n int64) {
	for i := range c.Devices {
		n += c.Devices[i].Count
	}
	return n
}

// permute tries every order of the containers from position n on, and then places the init
// containers.
func (s *search) permute(n int) bool {
	if n >= len(s.order) {
		return n == len(s.hard) || s.next(s.hard[n], n, 0) && (s.permute(n+1) || s.takeBack(s.hard[n], n))
	}
	for i := n; i < len(s.order); i++ {
		s.order[n], s.order[i] = s.order[i], s.order[n]
		if c := s.order[n]; s.next(c, n, 0) && (s.permute(n+1) || s.takeBack(c, n)) {
			return true
		}
		s.order[n], s.order[i] = s.order[i], s.order[n]
	}
	return false
}

// spread places the containers hard[n:], and tries every set of NUMA nodes for each.
func (s *search) spread(n int) bool {
	if n == len(s.hard) {
		return true
	}
	for _, mask := range s.ad.m.obey.joint.Space().BySize() {
		if s.ad.width() == joint.One && mask.Len() > 1 {
			break
		}
		if c := s.hard[n]; s.next(c, n, mask) && (s.spread(n+1) || s.takeBack(c, n)) {
			return true
		}
	}
	return false
}

// next places container c after n others. If mask is not 0, it uses only the NUMA nodes of the
// mask.
func (s *search) next(c, n int, mask hint.Mask) bool {
	ad, w := s.ad, &s.ad.want
	if ad.budget.Left() <= s.spare {
		ad.budget.CutOff()
		return false
	}
	ad.budget.Charge(1)
	ad.wantContainer(c)
	ad.narrow(c)
	if mask != 0 {
		if w.Within != nil && !w.Within.Has(mask) || w.Nodes > 0 && mask.Len() != w.Nodes {
			return false
		}
		clear(s.one)
		s.one.Add(mask)
		w.Within = s.one
	}
	s.books[n].CopyFrom(&ad.try.Book)
	if ad.r.Containers[c].Kind == Init {
		ad.heldSoFar()
		return ad.placeInit(c) == NoDetail || s.takeBack(c, n)
	}
	if ad.try.Place(w, &ad.grant) != joint.Placed {
		return false
	}
	ad.record(c)
	return ad.provision.provide(c, ad.grant.Nodes) == NoDetail || s.takeBack(c, n)
}

// takeBack removes container c, which was placed after n others. It always returns false, so that
// callers can return its result.
func (s *search) takeBack(c, n int) bool {
	s.ad.try.Book.CopyFrom(&s.books[n])
	s.ad.d.Containers[c].empty(&s.ad.r.Containers[c])
	return false
}
