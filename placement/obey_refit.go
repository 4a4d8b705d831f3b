package placement

import (
	"slices"

	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// Refit decides if a pod of the state can get new amounts of CPU and memory, on a node where Berth
// decides. Each container keeps its devices, and gets CPUs and memory only on the NUMA nodes that
// it is on. If it asks for more CPUs, it keeps the CPUs that it has and gets additional ones. If it
// asks for fewer, it keeps some of its CPUs. No other container of the pod gets the CPUs that it
// gives up. The result fulfils the pod's rules, checked container by container. Refit writes the
// decision about all containers to d, and does not change the state.
func Refit(s *State, r *Request, d *Decision) Verdict {
	refused := Verdict{Reason: NoBerth, Detail: NoRoom, Scarcity: Resolvable}
	if s.m.obey == nil || s.pod(r.UID) == nil {
		return refused
	}
	f := refit{s: s.Clone(), r: r}
	if v := Decide(f.s, r, d); !v.OK() { // d now has the pod's present resources
		return v
	}
	f.nodes = s.m.obey.nodesOfCPUs(d)
	for c := range r.Containers {
		detail := f.container(c, &d.Containers[c])
		if detail != NoDetail {
			refused.Container, refused.Detail = int16(c), detail
			return refused
		}
	}
	if !f.fits(d) {
		return refused
	}
	if r.Rules.NUMANodes > 0 && f.nodes != s.m.obey.nodesOfCPUs(d) {
		refused.Detail = NotExactly
		return refused
	}
	v := Verdict{}
	for c := range d.Containers {
		v.NUMA |= s.m.obey.nodesHeld(&d.Containers[c])
	}
	return v
}

// refit has a state in which the pod has both its former and its new resources.
type refit struct {
	s *State
	r *Request
	// nodes are the NUMA nodes of the pod's former CPUs.
	nodes topology.NUMASet
}

func (m *obeyModel) nodesOfCPUs(d *Decision) (nodes topology.NUMASet) {
	for i := range d.Containers {
		nodes |= m.node.nodesOf(&d.Containers[i].CPUs)
	}
	return nodes
}

// container changes the decision about container c to its new request.
func (f *refit) container(c int, got *ContainerDecision) Detail {
	asks, m := &f.r.Containers[c], f.s.m.obey
	old, target := got.held(), got.held()
	bytes, whole := asks.Bytes(memory.Regular), asks.MilliCPU%1000 == 0
	switch {
	case len(got.Provided) > 0 || f.r.PodLevel:
		return NotProvided
	case got.CPUs.IsEmpty() && asks.MilliCPU != sharesOf(got), !got.CPUs.IsEmpty() && !whole, !got.CPUs.IsEmpty() && asks.MilliCPU == 0:
		return OddCPUs // exclusive CPUs are whole, and CPU time cannot change
	case bytes == 0 && memoryOf(got) > 0:
		return NoRoom
	}
	if bytes == memoryOf(got) && asks.MilliCPU == 1000*int64(got.CPUs.Len())+sharesOf(got) {
		return NoDetail // the container keeps all its resources
	}
	if !f.remember(&target, bytes, memoryOf(got)) {
		return NoRoom
	}
	n := int(asks.MilliCPU / 1000)
	sets := []topology.CPUSet{got.CPUs}
	if have := got.CPUs.Len(); have > 0 && n > have {
		sets = f.more(c, &old, n-have)
	} else if n < have {
		sets = f.fewer(c, &target, n)
	}
	for _, cpus := range sets {
		target.CPUs = cpus
		if f.accepts(c, &target, got.CPUs.Len() > n) {
			got.CPUs, got.Memory = cpus, target.Memory
			got.Hint = Hint{NUMA: m.nodesHeld(got), Preferred: true}
			f.hold(c, &target, &old)
			return NoDetail
		}
	}
	return NoCPUs
}

func sharesOf(d *ContainerDecision) (milli int64) {
	for _, s := range d.Shares {
		milli += s.MilliCPU
	}
	return milli
}

func memoryOf(d *ContainerDecision) (bytes uint64) {
	for i := range d.Memory {
		if d.Memory[i].Resource == memory.Regular {
			bytes += d.Memory[i].Bytes
		}
	}
	return bytes
}

// remember changes the memory of a container from had to bytes, on its present NUMA nodes. It
// returns false if these NUMA nodes have no room.
func (f *refit) remember(c *ContainerAllocation, bytes, had uint64) bool {
	k, known := f.s.m.obey.joint.Amounts.Kind(memory.Regular)
	if bytes == had || !known {
		return bytes == had
	}
	more, less := bytes-min(had, bytes), had-min(had, bytes)
	for i := range c.Memory {
		b := &c.Memory[i]
		mask := f.s.m.compact(b.NUMA)
		if b.Resource != memory.Regular || mask == 0 {
			continue
		}
		n := min(more, f.s.m.obey.joint.Amounts.Room(f.s.account, k, mask.Lowest()))
		b.Bytes, more = b.Bytes+n, more-n
	}
	for i := range slices.Backward(c.Memory) {
		b := &c.Memory[i]
		if b.Resource != memory.Regular {
			continue
		}
		n := min(less, b.Bytes)
		b.Bytes, less = b.Bytes-n, less-n
	}
	c.Memory = slices.DeleteFunc(c.Memory, func(b MemoryBlock) bool { return b.Resource == memory.Regular && b.Bytes == 0 })
	return more == 0
}

// more returns possible sets of CPUs for a container that needs n additional CPUs. Each set
// contains the CPUs that the container has.
func (f *refit) more(c int, old *ContainerAllocation, n int) (sets []topology.CPUSet) {
	one := f.alone(c)
	one.Containers[0].MilliCPU, one.Containers[0].Memory, one.Containers[0].Devices = 1000*int64(n), nil, nil
	one.Rules.Policy, one.Rules.NUMANodes, one.Rules.Devices, one.Rules.CPUs.Exclusive, one.Rules.CPUs.ExclusiveHow = PolicyNone, 0, DeviceRules{}, joint.Shareable, joint.Unset
	if one.Rules.CPUs.L3 == joint.Required {
		one.Rules.CPUs.L3 = joint.Preferred
	}
	if cpus, ok := f.choose(f.s.Clone(), &one, old); ok {
		sets = append(sets, cpus.Or(&old.CPUs))
	}
	in := f.s.Clone()
	in.m.obey.joint.Give(in.account, in.m.obey.heldBy(&PodAllocation{Containers: []ContainerAllocation{{CPUs: old.CPUs, Exclusive: old.Exclusive}}}))
	one.Containers[0].MilliCPU = f.r.Containers[c].MilliCPU
	if cpus, ok := f.choose(in, &one, old); ok && old.CPUs.IsSubsetOf(&cpus) {
		sets = append(sets, cpus)
	}
	return sets
}

// choose places a request on the NUMA nodes of a container's present CPUs, and returns the CPUs.
func (f *refit) choose(in *State, one *Request, old *ContainerAllocation) (topology.CPUSet, bool) {
	m := f.s.m.obey
	m.joint.Only(in.account, m.node.compact(m.node.nodesOf(&old.CPUs)))
	var d Decision
	if v := Decide(in, one, &d); !v.OK() {
		return topology.CPUSet{}, false
	}
	return d.Containers[0].CPUs, true
}

// fewer returns sets of n CPUs that a container could keep if it gives up its other CPUs.
func (f *refit) fewer(c int, target *ContainerAllocation, n int) []topology.CPUSet {
	var sets []topology.CPUSet
	for _, policy := range []Policy{NodePolicy, PolicyNone} {
		if d, ok := f.confined(c, target, policy); ok && d.CPUs.Len() == n {
			sets = append(sets, d.CPUs)
		}
	}
	return sets
}

// accepts reports whether the resources of target fulfil the pod's rules for container c. A
// container that shrinks may stay on more NUMA nodes than it then needs.
func (f *refit) accepts(c int, target *ContainerAllocation, shrinks bool) bool {
	for _, policy := range []Policy{NodePolicy, PolicyNone} {
		d, ok := f.confined(c, target, policy)
		if ok && d.CPUs == target.CPUs && slices.Equal(d.Memory, target.Memory) && slices.EqualFunc(d.Devices, target.Devices, sameDevices) {
			return true
		}
		if !shrinks {
			return false
		}
	}
	return false
}

// confined computes the decision about a container as if only the resources of place were free.
func (f *refit) confined(c int, place *ContainerAllocation, policy Policy) (*ContainerDecision, bool) {
	in, one := f.s.Clone(), f.alone(c)
	in.Release(f.r.UID)
	held := in.m.obey.heldBy(&PodAllocation{Containers: []ContainerAllocation{*place}})
	in.m.obey.joint.Confine(in.account, held, held)
	if policy != NodePolicy {
		one.Rules.Policy = policy
	}
	var d Decision
	if v := Decide(in, &one, &d); !v.OK() {
		return nil, false
	}
	return &d.Containers[0], true
}

// alone returns a request with only container c, without rules that apply to the pod as a whole.
// The pod still fulfils these rules after the resize: its devices stay, and Refit checks the number
// of NUMA nodes.
func (f *refit) alone(c int) Request {
	one := Request{UID: f.r.UID + "/" + f.r.Containers[c].Name, Containers: []ContainerRequest{f.r.Containers[c]}, Guaranteed: f.r.Guaranteed, Rules: f.r.Rules}
	one.Containers[0].Kind = App
	one.Rules.Scope, one.Rules.Keep, one.Rules.Devices.PerNode = ContainerScope, nil, 0
	if f.r.Rules.Scope != ContainerScope && len(f.r.Containers) > 1 {
		one.Rules.NUMANodes = 0 // the number applies to the pod
	}
	return one
}

// hold gives the pod both the former and the new resources of a container.
func (f *refit) hold(c int, target, old *ContainerAllocation) {
	pod := *f.s.pod(f.r.UID)
	pod.Containers = slices.Clone(pod.Containers)
	at := slices.IndexFunc(pod.Containers, func(h ContainerAllocation) bool { return h.Name == f.r.Containers[c].Name })
	if at < 0 {
		return
	}
	pod.Containers[at].CPUs = target.CPUs.Or(&old.CPUs)
	pod.Containers[at].Memory = MostMemory(target.Memory, old.Memory)
	f.s.Release(f.r.UID)
	jointBooks{f.s}.take(&pod)
}

// MostMemory returns, for each kind of memory on each set of NUMA nodes, the larger amount of a and
// b.
func MostMemory(a, b []MemoryBlock) []MemoryBlock {
	out := slices.Clone(a)
	for _, block := range b {
		at := slices.IndexFunc(out, func(o MemoryBlock) bool { return o.Resource == block.Resource && o.NUMA == block.NUMA })
		if at < 0 {
			out = append(out, block)
		} else {
			out[at].Bytes = max(out[at].Bytes, block.Bytes)
		}
	}
	return out
}

// fits reports whether the node has room for the decision together with the pod's former resources,
// which the pod still has.
func (f *refit) fits(d *Decision) bool {
	in, m := f.s.Clone(), f.s.m.obey
	in.Release(f.r.UID)
	for _, pod := range []*PodAllocation{d.Held(), f.s.pod(f.r.UID)} {
		held := m.heldBy(pod)
		b := m.joint.NewBook()
		b.CopyFrom(in.account)
		if m.joint.Problem(b, held) != "" {
			return false
		}
		m.joint.Take(b, held)
		if m.joint.Amounts.Overdrawn(b, f.s.account) {
			return false
		}
	}
	return true
}
