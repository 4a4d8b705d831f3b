package placement

import (
	"slices"
	"strconv"

	"github.com/berth-dev/berth/placement/hint"
)

// supply is a compiled Supply. In the list of the places of all supplies, its own places begin at
// from.
type supply struct {
	resource string
	supply   Supply
	places   []Place
	from     int
}

func (s *supply) of(v []uint64) []uint64 { return v[s.from : s.from+len(s.places)] }

type supplies []supply

func (all supplies) places() (n int) {
	for i := range all {
		n += len(all[i].places)
	}
	return n
}

// supplies asks the providers for the machine's amounts. If the kubelet decides, it records
// only the providers' resource names, because no program carries out providers' allocations there.
func (in *compiling) supplies() error {
	m := in.m
	for _, p := range in.cfg.Providers {
		s := supply{resource: p.Resource(), from: m.supplies.places()}
		field := "providers[" + s.resource + "]"
		if s.resource == "" || slices.ContainsFunc(m.supplies, func(o supply) bool { return o.resource == s.resource }) {
			return unsupported(field, s.resource, "the name of a resource, each once")
		}
		if m.obey != nil {
			var err error
			if s.supply, err = p.Supply(in.view, m.obey.joint.Space()); err != nil {
				return unsupported(field, err.Error(), "a machine that the provider can read")
			}
			s.places = slices.Clone(s.supply.Places())
			if err := s.check(field); err != nil {
				return err
			}
		}
		m.supplies = append(m.supplies, s)
	}
	return nil
}

func (s *supply) check(field string) error {
	if len(s.places) > MaxPlaces {
		return unsupported(field, strconv.Itoa(len(s.places))+" places", "at most "+strconv.Itoa(MaxPlaces))
	}
	for i, p := range s.places {
		switch {
		case p.Name == "" || len(p.Name) > MaxPlaceName || slices.ContainsFunc(s.places[:i], func(o Place) bool { return o.Name == p.Name }):
			return unsupported(field+".places", p.Name, "names of 1 to "+strconv.Itoa(MaxPlaceName)+" bytes, each once")
		case p.Capacity > uint64(maxDevices):
			return unsupported(field+".places["+p.Name+"]", strconv.FormatUint(p.Capacity, 10), "at most 2^30")
		}
	}
	return nil
}

// foreign returns the first container that asks for a resource of a provider.
func (all supplies) foreign(r *Request) (c int, found bool) {
	for c := range r.Containers {
		for i := range all {
			if r.Containers[c].devices(all[i].resource) > 0 {
				return c, true
			}
		}
	}
	return 0, false
}

// provision makes providers assign their resources during an admission. It is working memory for
// their calls.
type provision struct {
	ad *jointAdmission

	given            []uint64 // by place, the amounts that pods have
	free, take       []uint64
	one, now, always hint.Set
}

func (m *obeyModel) newProvision() provision {
	places, space := m.node.supplies.places(), m.joint.Space()
	if len(m.node.supplies) == 0 {
		return provision{}
	}
	v := func() []uint64 { return make([]uint64, places) }
	return provision{given: v(), free: v(), take: v(), one: space.NewSet(), now: space.NewSet(), always: space.NewSet()}
}

// narrow limits the search for container c, or for the whole pod if c is wholePod, to the sets of
// NUMA nodes that have the providers' resources, are near the claimed devices, and have enough CPUs
// that are not kept.
func (ad *jointAdmission) narrow(c int) {
	ad.provision.offer(c)
	ad.claims.keepNear(c)
	if ad.avoid.on {
		ad.avoidKept(c)
	}
}

// offer limits the search to the sets of NUMA nodes that Supply.Hints adds for each provider's
// resource.
func (p *provision) offer(c int) {
	m, w := p.ad.m, &p.ad.want
	for i := range m.supplies {
		s := &m.supplies[i]
		n := p.asksOf(s, c)
		if n == 0 {
			continue
		}
		if w.Within == nil {
			w.Within, w.WithinEmpty = p.all()
			p.freeFor(c)
		}
		p.intersect(s, p.now, s.of(p.free), n)
		for j := range s.places {
			s.of(p.take)[j] = s.places[j].Capacity
		}
		p.intersect(s, p.always, s.of(p.take), n)
	}
}

// all fills p.now and p.always with every mask, and returns them.
func (p *provision) all() (now, always hint.Set) {
	for i := range p.now {
		p.now[i], p.always[i] = ^uint64(0), ^uint64(0)
	}
	return p.now, p.always
}

func (p *provision) intersect(s *supply, set hint.Set, free []uint64, n uint64) {
	clear(p.one)
	if len(s.places) > 0 {
		s.supply.Hints(p.one, free, n)
	}
	for i := range set {
		set[i] &= p.one[i]
	}
}

// asksOf returns how much of a supply's resource container c requests. If c is wholePod, it returns
// the pod's peak request.
func (p *provision) asksOf(s *supply, c int) uint64 {
	if c != wholePod {
		return uint64(p.ad.r.Containers[c].devices(s.resource))
	}
	return uint64(p.ad.r.devices(s.resource))
}

// freeFor fills free with the amounts that container c can get: amounts that neither another pod
// nor a container that runs at the same time as c has.
func (p *provision) freeFor(c int) {
	ad := p.ad
	copy(p.free, p.given)
	if c != wholePod {
		for o := range ad.d.Containers {
			if ad.beside(c, o) {
				ad.m.supplies.addHeld(p.free, ad.d.Containers[o].Provided)
			}
		}
	}
	for i := range ad.m.supplies {
		s := &ad.m.supplies[i]
		for j, used := range s.of(p.free) {
			s.of(p.free)[j] = s.places[j].Capacity - min(used, s.places[j].Capacity)
		}
	}
}

// provide allocates providers' resources to container c on the chosen NUMA nodes.
func (p *provision) provide(c int, nodes hint.Mask) Detail {
	ad := p.ad
	for i := range ad.m.supplies {
		s := &ad.m.supplies[i]
		n := uint64(ad.r.Containers[c].devices(s.resource))
		if n == 0 {
			continue
		}
		p.freeFor(c)
		take, free := s.of(p.take), s.of(p.free)
		clear(take)
		if !s.supply.Allocate(take, free, n, nodes) {
			return NotProvided
		}
		for j, got := range take {
			if got > free[j] || got > n {
				return ProviderWrong
			}
			if n -= got; got > 0 {
				ad.d.Containers[c].Provided = append(ad.d.Containers[c].Provided, Provided{s.resource, s.places[j].Name, got})
			}
		}
		if n > 0 {
			return ProviderWrong
		}
	}
	return NoDetail
}

// provideAll allocates providers' resources to every container of a pod that is placed as one unit.
func (p *provision) provideAll(nodes hint.Mask) (Detail, int) {
	for c := range p.ad.r.Containers {
		if d := p.provide(c, nodes); d != NoDetail {
			return d, c
		}
	}
	return NoDetail, 0
}

func (all supplies) placeOf(p *Provided) (int, bool) {
	for i := range all {
		if s := &all[i]; s.resource == p.Resource {
			j := slices.IndexFunc(s.places, func(o Place) bool { return o.Name == p.Place })
			return s.from + j, j >= 0
		}
	}
	return 0, false
}

func (all supplies) addHeld(v []uint64, held []Provided) {
	for i := range held {
		if at, ok := all.placeOf(&held[i]); ok {
			v[at] += held[i].Amount
		}
	}
}

func (all supplies) has(p Provided) bool {
	_, ok := all.placeOf(&p)
	return ok && p.Amount <= uint64(maxDevices)
}

// explain appends the needs for providers' resources that container c, or the pod,
// requests.
func (p *provision) explain(needs []Need, c int) []Need {
	p.freeFor(c)
	for i := range p.ad.m.supplies {
		s := &p.ad.m.supplies[i]
		n := Need{Resource: s.resource, Asked: p.asksOf(s, c)}
		if n.Asked == 0 {
			continue
		}
		for _, free := range s.of(p.free) {
			n.Free += free
		}
		needs = append(needs, n)
	}
	return needs
}

func (all supplies) provides(resource string) bool {
	return slices.ContainsFunc(all, func(s supply) bool { return s.resource == resource })
}

// explainForeign adds to a Refusal the requested resources that only nodes on which Berth decides
// can assign.
func (all supplies) explainForeign(r *Request, out Refusal, v *Verdict) Refusal {
	c := &r.Containers[v.Container]
	out.Container = c.Name
	for i := range all {
		if n := c.devices(all[i].resource); n > 0 {
			out.Needs = append(out.Needs, Need{Resource: all[i].resource, Asked: uint64(n)})
		}
	}
	return out
}
