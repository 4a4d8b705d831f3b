package placement

import (
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// jointAdmission implements decider for nodes on which Berth decides.
type jointAdmission struct {
	m     *Model
	s     *State
	r     *Request
	d     *Decision
	rules Rules
	// try has a copy of the node's book, in which the pod's containers are placed one after
	// another. pool has a second copy, for searches in which resources of the pod itself are free:
	// deal divides these among the containers, and placeInit places an init container on them.
	try, pool *joint.Try
	want      joint.Want
	grant     joint.Grant
	held      joint.Held
	part      joint.Held // the part of held that the current container may use
	peak      peaks      // the peak amounts of held
	// turns has the peak amounts at the times when init containers run. An init container counts
	// together with the sidecars before it. turns already includes the sidecars among
	// Containers[:passed].
	turns  peaks
	passed int
	// dealt means that pool is ready for the next container: only the pod's resources that are left
	// for this container are free.
	dealt bool
	// entered counts, for tests, how often a container's decision was added to a book or to held.
	entered int
	search  search
	// budget has the steps that are left for the current run. All containers, and all orders of
	// containers that search tries, share these steps.
	budget *joint.Budget
	// provision is empty if the machine has no resource of a provider.
	provision provision
	empty     Decision // for the admission to an empty node
	avoid     avoidance
	claims    claimRoom
}

func newJointAdmission(m *Model) *jointAdmission {
	ad := &jointAdmission{m: m, try: m.obey.joint.NewTry(), pool: m.obey.joint.NewTry(), budget: new(joint.Budget), provision: m.obey.newProvision()}
	ad.try.Budget, ad.pool.Budget = ad.budget, ad.budget
	ad.search.ad, ad.provision.ad, ad.claims.ad = ad, ad, ad
	return ad
}

func (ad *jointAdmission) begin(s *State, r *Request, d *Decision) {
	ad.s, ad.r, ad.d, ad.rules = s, r, d, ad.m.rulesFor(r.Rules)
	d.begin(r)
}

// decide places the pod on the resources that other pods leave free. A pod that the state already
// has keeps its resources, because a decision is binding.
func (ad *jointAdmission) decide(s *State, r *Request, d *Decision) Verdict {
	ad.begin(s, r, d)
	if p := s.pod(r.UID); p != nil {
		ad.keepHeld(p)
		v := Verdict{NUMA: ad.nodes()}
		ad.end()
		return v
	}
	if len(s.given) > 0 {
		copy(ad.provision.given, s.given)
	}
	detail, c := ad.run(s.account)
	v := Verdict{Reason: detail.Reason(), Detail: detail, Cut: ad.budget.Cut()}
	if detail == NoDetail {
		v.NUMA = ad.nodes()
		for i := range d.Containers {
			ad.bind(i)
		}
		ad.end()
		return v
	}
	v.Container, v.Scarcity = int16(c), Resolvable
	clear(ad.provision.given)
	ad.d = &ad.empty
	ad.d.begin(r)
	if again, _ := ad.run(ad.m.empty.account); again == Withholds || again != NoDetail && !ad.budget.Cut() && ad.m.monotoneJoint(r) {
		v.Scarcity = Unresolvable
	}
	ad.end()
	return v
}

// end drops the references to the caller's values.
func (ad *jointAdmission) end() { ad.s, ad.r, ad.d = nil, nil, nil }

func (ad *jointAdmission) keepHeld(p *PodAllocation) {
	for i := range ad.d.Containers {
		c := &ad.d.Containers[i]
		h := p.container(c.Name)
		if h == nil {
			continue
		}
		c.CPUs, c.Exclusive = h.CPUs, h.Exclusive
		c.Memory, c.Shares = append(c.Memory, h.Memory...), append(c.Shares, h.Shares...)
		for i := range h.Devices {
			c.Devices = extend(c.Devices)
			a := &c.Devices[len(c.Devices)-1]
			a.Resource, a.IDs = h.Devices[i].Resource, append(a.IDs[:0], h.Devices[i].IDs...)
		}
		c.Provided = append(c.Provided, h.Provided...)
		ad.bind(i)
		if nodes := ad.m.obey.nodesHeld(c); nodes != 0 {
			c.Hint = Hint{NUMA: nodes, Preferred: true}
		}
	}
}

func (ad *jointAdmission) nodes() (nodes topology.NUMASet) {
	for i := range ad.d.Containers {
		nodes |= ad.m.obey.nodesHeld(&ad.d.Containers[i])
	}
	return nodes
}

// run places the pod on the free resources of a book. If it fails, it returns the reason and the
// container. All searches of one run share a budget of steps.
func (ad *jointAdmission) run(on *joint.Book) (Detail, int) {
	ad.budget.Refill()
	ad.try.Begin(on)
	if ad.r.PodLevel {
		return PodLevelUndecided, 0
	}
	aligned := ad.rules.Policy == PolicyRestricted || ad.rules.Policy == PolicySingleNUMANode
	asOne := ad.rules.Scope == PodScope && ad.rules.Policy != PolicyNone
	for c := range ad.r.Containers {
		if d := ad.knowsDevices(c, aligned); d != NoDetail {
			return d, c
		}
		if d := ad.knowsMemory(c); d != NoDetail {
			return d, c
		}
		if !asOne && ad.rules.Devices.PerNode > 0 {
			if ad.wantContainer(c); ad.uneven() {
				return DevicesUneven, c
			}
		}
	}
	if asOne {
		return ad.runPod()
	}
	detail, c := ad.runEach()
	if detail != NoDetail && ad.search.again(on) {
		return NoDetail, 0
	}
	return detail, c
}

// knowsMemory returns the reason if the container's memory request is refused however much memory
// is free.
func (ad *jointAdmission) knowsMemory(c int) Detail {
	for _, q := range ad.r.Containers[c].Memory {
		if _, known := ad.m.obey.joint.Amounts.Kind(q.Resource); !known && q.Bytes > 0 {
			return NoDefaultMemory
		}
		if q.Fraction {
			return MemoryNotInteger
		}
	}
	return NoDetail
}

// runPod places the pod's peak request as one unit, then divides the resources among the
// containers.
func (ad *jointAdmission) runPod() (Detail, int) {
	ad.wantPod()
	if ad.rules.Devices.PerNode > 0 && ad.uneven() {
		return DevicesUneven, 0
	}
	ad.narrow(wholePod)
	if ad.wantsNothing() && ad.want.Nodes == 0 {
		return NoDetail, 0
	}
	if o := ad.try.Place(&ad.want, &ad.grant); o != joint.Placed {
		return detailOf[o], 0
	}
	mask, exclusive := ad.grant.Nodes, ad.grant.Exclusive
	nodes := ad.m.expand(mask)
	ad.held = joint.Held{CPUs: ad.grant.CPUs, Amounts: append(ad.held.Amounts[:0], ad.grant.Amounts...),
		Devices: append(ad.held.Devices[:0], ad.grant.Devices...)}
	if d, c := ad.deal(); d != NoDetail {
		return d, c
	}
	if d, c := ad.provision.provideAll(mask); d != NoDetail {
		return d, c
	}
	for c := range ad.d.Containers {
		got := &ad.d.Containers[c]
		if !got.CPUs.IsEmpty() || len(got.Memory) > 0 || len(got.Shares) > 0 || len(got.Provided) > 0 || len(got.Devices) > 0 {
			got.Hint = Hint{NUMA: nodes, Preferred: true}
		}
		if !got.CPUs.IsEmpty() {
			got.Exclusive = exclusive
		}
	}
	return NoDetail, 0
}

// deal divides the pod's resources (held) among its containers. A container gets no resource of a
// container that runs at the same time. Containers with exclusive CPUs come before containers with
// CPU shares, because shares could otherwise take the CPU time of these CPUs. Init containers come
// last, and use resources of the containers that start after them.
func (ad *jointAdmission) deal() (Detail, int) {
	for pass := range 3 {
		ad.dealt = false
		for c := range ad.r.Containers {
			turn := 1
			switch {
			case ad.r.Containers[c].Kind == Init:
				turn = 2
			case ad.pinsWhole(c):
				turn = 0
			}
			if turn != pass {
				continue
			}
			if d := ad.turn(c); d != NoDetail {
				return d, c
			}
		}
	}
	return NoDetail, 0
}

// turn places container c on the pod's resources that are free in pool. If c runs at the same time
// as the next container, the resources that c takes stay taken in pool.
func (ad *jointAdmission) turn(c int) Detail {
	ad.wantContainer(c)
	if ad.wantsNothing() {
		return NoDetail
	}
	dropPodWishes(&ad.want)
	ad.claims.keepNear(c)
	if !ad.dealt {
		ad.leave(c)
	}
	if o := ad.pool.Place(&ad.want, &ad.grant); o != joint.Placed {
		return detailOf[o]
	}
	ad.record(c)
	ad.dealt = ad.r.Containers[c].Kind != Init
	return NoDetail
}

// leave makes the pod's resources free in pool, except the resources of containers that run at the
// same time as c.
func (ad *jointAdmission) leave(c int) {
	ad.takeOver()
	ad.pool.BeginFull()
	ad.m.obey.joint.Give(&ad.pool.Book, &ad.part)
	for o := range ad.r.Containers {
		if ad.beside(c, o) {
			ad.m.obey.takeContainer(&ad.pool.Book, &ad.d.Containers[o], ad.want.CPUs > 0)
			ad.entered++
		}
	}
}

// dropPodWishes removes the rules that apply to the pod as a whole, and not to a container.
func dropPodWishes(w *joint.Want) {
	w.Width, w.Nodes, w.PerNode, w.Rules = joint.AnyWidth, 0, 0, joint.Rules{}
	if w.Same != joint.Anywhere {
		w.SameHow = joint.Preferred // the rule applies to the pod's devices together
	}
	for i := range w.Devices {
		w.Devices[i].All = false
	}
}

// beside reports whether container o has its resources at the same time as c. App containers and
// sidecars run together. An init container runs together with the sidecars before it.
func (ad *jointAdmission) beside(c, o int) bool {
	if c == o {
		return false
	}
	kind, other := ad.r.Containers[c].Kind, ad.r.Containers[o].Kind
	if kind == Init {
		return other == Sidecar && o < c
	}
	return other != Init
}

// runEach places one container after another. App containers and sidecars come first. runEach then
// places each init container on resources that the pod already has. An init container that does not
// fit there may also use other free resources.
func (ad *jointAdmission) runEach() (Detail, int) {
	for c := range ad.r.Containers {
		if ad.r.Containers[c].Kind == Init {
			continue
		}
		ad.wantContainer(c)
		ad.narrow(c)
		if ad.wantsNothing() {
			continue
		}
		if o := ad.try.Place(&ad.want, &ad.grant); o != joint.Placed {
			return detailOf[o], c
		}
		ad.record(c)
		if d := ad.provision.provide(c, ad.grant.Nodes); d != NoDetail {
			return d, c
		}
	}
	added := false
	for c := range ad.r.Containers {
		if ad.r.Containers[c].Kind != Init {
			continue
		}
		if !added {
			ad.heldSoFar()
			added = true
		}
		if d := ad.runInit(c); d != NoDetail {
			return d, c
		}
	}
	return NoDetail, 0
}

func (ad *jointAdmission) runInit(c int) Detail {
	ad.wantContainer(c)
	ad.narrow(c)
	if ad.wantsNothing() {
		return NoDetail
	}
	return ad.placeInit(c)
}

// placeInit places init container c, whose request is in want, after the app containers and
// sidecars. held has the pod's resources so far.
func (ad *jointAdmission) placeInit(c int) Detail {
	ad.takeOver()
	ad.pool.BeginFull()
	ad.m.obey.joint.Give(&ad.pool.Book, &ad.part)
	ad.takeSidecars(c)
	pays := ad.want.Pays
	ad.want.Pays = false // the pod already has all of these CPUs
	placed := ad.pool.Place(&ad.want, &ad.grant) == joint.Placed
	if ad.want.Pays = pays; !placed {
		ad.pool.Begin(&ad.try.Book)
		ad.m.obey.joint.Give(&ad.pool.Book, &ad.part)
		if ad.want.CPUs > 0 {
			ad.m.obey.joint.Trim(&ad.pool.Book, &ad.try.Book, &ad.part)
		}
		ad.takeSidecars(c)
		if o := ad.pool.Place(&ad.want, &ad.grant); o != joint.Placed {
			return detailOf[o]
		}
	}
	ad.m.obey.joint.Give(&ad.try.Book, &ad.held)
	ad.record(c)
	ad.holdInit(c)
	ad.m.obey.joint.Take(&ad.try.Book, &ad.held)
	return ad.provision.provide(c, ad.grant.Nodes)
}

// takeOver fills part with the pod's resources that the current container may use: CPUs if it gets
// exclusive CPUs, otherwise CPU time, and in both cases memory and devices. The exclusive CPUs of a
// container belong to the pod even while the container does not run, so that no other pod uses
// their CPU time.
func (ad *jointAdmission) takeOver() {
	own := ad.want.CPUs > 0
	ad.part = joint.Held{Amounts: ad.part.Amounts[:0], Devices: append(ad.part.Devices[:0], ad.held.Devices...)}
	if own {
		ad.part.CPUs, ad.part.Alone, ad.part.Exclusive = ad.held.CPUs, ad.held.Alone, ad.held.Exclusive
	}
	for _, a := range ad.held.Amounts {
		if a.Kind != joint.CPU || !own {
			ad.part.Amounts = append(ad.part.Amounts, a)
		}
	}
}

func (ad *jointAdmission) takeSidecars(c int) {
	for o := range c {
		if ad.r.Containers[o].Kind == Sidecar {
			ad.m.obey.takeContainer(&ad.pool.Book, &ad.d.Containers[o], ad.want.CPUs > 0)
		}
	}
}

// pinsWhole reports whether container c gets exclusive CPUs. The container must ask for whole CPUs,
// and Rules.Shares must be unset. The pod must also be Guaranteed, as the kubelet requires, or have
// rules for its CPUs (Rules.CPUs).
func (ad *jointAdmission) pinsWhole(c int) bool {
	milli := ad.r.Containers[c].MilliCPU
	return ad.rules.Shares == joint.Unset && milli > 0 && milli%1000 == 0 && (ad.m.guaranteed(ad.r) || ad.rules.CPUs != joint.Rules{})
}

func (ad *jointAdmission) width() joint.Width {
	switch ad.rules.Policy {
	case PolicyRestricted:
		return joint.Fewest
	case PolicySingleNUMANode:
		return joint.One
	}
	return joint.AnyWidth
}

func (ad *jointAdmission) wantContainer(c int) {
	w, r := &ad.want, &ad.r.Containers[c]
	w.CPUs, w.Amounts, w.Devices, w.Width, w.Rules = 0, w.Amounts[:0], w.Devices[:0], ad.width(), ad.rules.CPUs
	w.Within, w.WithinEmpty, w.CPUsWithin, w.CPUsWithinEmpty = nil, nil, nil, nil
	w.Pays = !ad.rules.MayWithhold
	switch {
	case ad.pinsWhole(c):
		w.CPUs = int(r.MilliCPU / 1000)
	case r.MilliCPU > 0:
		w.Amounts = append(w.Amounts, joint.Amount{Kind: joint.CPU, N: uint64(r.MilliCPU)})
	}
	for i := range r.Memory {
		if k, ok := ad.m.obey.joint.Amounts.Kind(r.Memory[i].Resource); ok && r.Memory[i].Bytes > 0 {
			w.Amounts = append(w.Amounts, joint.Amount{Kind: k, N: r.Memory[i].Bytes})
		}
	}
	ad.wantsDevices(c)
}

// wantPod fills want with the pod's peak request of each resource.
func (ad *jointAdmission) wantPod() {
	w := &ad.want
	w.CPUs, w.Amounts, w.Devices, w.Width, w.Rules = 0, w.Amounts[:0], w.Devices[:0], ad.width(), ad.rules.CPUs
	w.Within, w.WithinEmpty, w.CPUsWithin, w.CPUsWithinEmpty = nil, nil, nil, nil
	w.Pays = !ad.rules.MayWithhold
	var cpus Peak[int]
	var shares Peak[uint64]
	for c := range ad.r.Containers {
		r := &ad.r.Containers[c]
		if ad.pinsWhole(c) {
			cpus.Add(r.Kind, int(r.MilliCPU/1000))
		} else {
			shares.Add(r.Kind, uint64(r.MilliCPU))
		}
	}
	w.CPUs = cpus.Most()
	if n := shares.Most(); n > 0 {
		w.Amounts = append(w.Amounts, joint.Amount{Kind: joint.CPU, N: n})
	}
	for k := joint.CPU + 1; k < ad.m.obey.joint.Amounts.Kinds(); k++ {
		var sum Peak[uint64]
		for c := range ad.r.Containers {
			bytes, _ := ad.r.Containers[c].memory(ad.m.obey.joint.Amounts.KindName(k))
			sum.Add(ad.r.Containers[c].Kind, ad.m.obey.joint.Amounts.Whole(joint.Amount{Kind: k, N: bytes}))
		}
		if n := sum.Most(); n > 0 {
			w.Amounts = append(w.Amounts, joint.Amount{Kind: k, N: n})
		}
	}
	ad.wantsPodDevices()
}

// record writes the grant to the decision about container c.
func (ad *jointAdmission) record(c int) {
	g, got := &ad.grant, &ad.d.Containers[c]
	got.CPUs, got.Exclusive = g.CPUs, joint.Shareable
	if ad.want.CPUs > 0 {
		got.Exclusive = g.Exclusive
	}
	got.Hint = Hint{NUMA: ad.m.expand(g.Nodes), Preferred: true}
	got.Memory, got.Shares = got.Memory[:0], got.Shares[:0]
	for _, a := range g.Amounts {
		id := ad.m.space.ID(int(a.Node))
		if a.Kind == joint.CPU {
			got.Shares = append(got.Shares, CPUShare{NUMA: id, MilliCPU: int64(a.N)})
		} else {
			got.Memory = append(got.Memory, MemoryBlock{Resource: ad.m.obey.joint.Amounts.KindName(a.Kind), NUMA: topology.NUMASet(0).With(id), Bytes: a.N})
		}
	}
	ad.giveGranted(c)
}

// bind records which resources of container c the node must bind to NUMA nodes.
func (ad *jointAdmission) bind(c int) {
	got := &ad.d.Containers[c]
	got.Bounds = 0
	if len(got.Shares) > 0 && ad.width() != joint.AnyWidth {
		got.Bounds |= BoundCPUs
	}
	if len(got.Memory) > 0 && ad.rules.PinMemory {
		got.Bounds |= BoundMemory
	}
}

// heldSoFar fills held with the resources of the containers that are placed so far.
func (ad *jointAdmission) heldSoFar() {
	p := peakOf{m: ad.m.obey, held: &ad.held, peak: ad.peak}
	p.begin()
	for c := range ad.d.Containers {
		p.add(&ad.d.Containers[c])
	}
	p.end()
	ad.peak = p.peak
	ad.turns, ad.passed = ad.turns.empty(len(p.peak)), 0
	ad.entered += len(ad.d.Containers)
}

// holdInit adds the resources of init container c to held, which already has the init containers
// before c. It does not add up these earlier init containers again, because a pod may have
// hundreds.
func (ad *jointAdmission) holdInit(c int) {
	p := peakOf{m: ad.m.obey, held: &ad.held, peak: ad.turns}
	for ; ad.passed < c; ad.passed++ {
		if ad.r.Containers[ad.passed].Kind == Sidecar {
			p.add(&ad.d.Containers[ad.passed])
			ad.entered++
		}
	}
	p.add(&ad.d.Containers[c])
	ad.entered++
	for i := range ad.peak {
		ad.peak[i].init = max(ad.peak[i].init, ad.turns[i].Most())
	}
	p.peak = ad.peak
	p.end()
}

var detailOf = [...]Detail{
	joint.Placed: NoDetail, joint.OddCPUs: OddCPUs, joint.UnequalCores: UnequalCores, joint.NoCPUs: NoCPUs, joint.NoCores: NoSuchCores,
	joint.NoAmount: NoRoom, joint.NoDevices: NoDevices, joint.NotTogether: NotTogether, joint.TooWide: TooWide, joint.NotOffered: NotProvided,
	joint.OutOfReach: ProvidedApart, joint.Withholds: Withholds, joint.NotExactly: NotExactly,
}

func (ad *jointAdmission) wantsNothing() bool {
	w := &ad.want
	return w.CPUs == 0 && len(w.Amounts) == 0 && len(w.Devices) == 0 && w.Within == nil
}
