package placement

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement/device"
	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/placement/memory"
)

// Explain explains why the node refuses the request. If the node admits the request, the Reason is
// Admitted. Explain and Admit always give the same Reason and Detail. Explain allocates memory.
func Explain(s *State, r *Request) Refusal {
	m := s.m
	rules := m.rulesFor(r.Rules)
	out := Refusal{UID: r.UID, Policy: rules.Policy.String(), asked: r.Rules, alone: len(r.Containers) == 1}
	if rules.Policy != PolicyNone {
		out.Scope = rules.Scope.String()
	}
	v := Admit(s, r)
	out.Reason, out.Detail, out.Rule = v.Reason, v.Detail, v.Detail.Text()
	if v.Detail == ProviderElsewhere {
		return m.supplies.explainForeign(r, out, &v)
	}
	if v.Detail == DevicesNowhere || v.Detail == DevicesOpen {
		c, resource, _ := s.uncounted(r)
		out.Container, out.Rule = r.Containers[c].Name, resource+": "+out.Rule
		return out
	}
	if v.OK() || v.Reason == InvalidRequest {
		return out
	}
	out.Scarcity, out.Cut = v.Scarcity.String(), v.Cut
	if s.Pods() == 0 {
		out.Scarcity = Unresolvable.String() // there are no pods to remove
	}
	if v.Detail == KeptForDevices {
		return s.explainKept(r, out, &v)
	}
	return m.newDecider().explain(s, r, out, &v)
}

func (ad *admission) explain(s *State, r *Request, out Refusal, v *Verdict) Refusal {
	switch v.Detail {
	case PodLevelOff, NoneToShare, EmptySharedPool, DefectLateDevices, DefectRestartRepeats:
		return out
	}
	rules := ad.m.rulesFor(r.Rules)
	ad.rules = rules
	ad.begin(s, r, new(Decision), false)
	c := int(v.Container)
	if rules.Policy != PolicyNone && rules.Scope == PodScope && (v.Detail == NotPreferred || ad.whole) {
		c = wholePod
	} else {
		out.Container = r.Containers[c].Name
		ad.run(c)
	}
	out.Needs = explainNeeds(ad, c)
	if slices.ContainsFunc(out.Needs, func(n Need) bool { return n.isMemory() && n.lacksEver() }) {
		out.Scarcity = Unresolvable.String() // no amount of free memory would be enough
	}
	return out
}

// explainNeeds returns the needs of container c, or of the pod, with the amounts that were free
// when the admission stopped.
func explainNeeds(ad *admission, c int) []Need {
	needs := slices.Concat(cpuNeeds(ad, c), memoryNeeds(ad, c), deviceNeeds(ad, c))
	if ad.rules.Policy != PolicyNone && ad.collect(c, hint.Preferred) == NoDetail {
		for i := range needs {
			prefer(ad, &needs[i])
		}
	}
	return needs
}

// prefer sets n.Preferred and n.Anywhere from the hints. Ordinary memory and huge pages share a
// list of hints.
func prefer(ad *admission, n *Need) {
	name := n.Resource
	if strings.HasPrefix(name, "hugepages-") && !slices.Contains(ad.of[:ad.used], name) {
		name = memory.Regular
	}
	i := slices.Index(ad.of[:ad.used], name)
	if i < 0 || ad.lists[i].Kind == hint.NoPreference {
		n.Anywhere = true
		n.Fewest, n.FewestUsable = 0, 0
		return
	}
	for _, mask := range ad.m.space.BySize() {
		if ad.rules.Policy == PolicySingleNUMANode && mask.Len() > 1 {
			break
		}
		if ad.lists[i].Kind == hint.Masks && ad.lists[i].Preferred.Has(mask) {
			n.Preferred = append(n.Preferred, ad.m.expand(mask).String())
		}
	}
}

func cpuNeeds(ad *admission, c int) []Need {
	var asked int
	if c == wholePod {
		asked = ad.m.podCPUs(ad.r)
	} else {
		asked = ad.exclusiveCPUs(c)
	}
	if asked == 0 {
		return nil
	}
	free := ad.cpus.shared.AndNot(&ad.m.cpus.reserved)
	free = free.Or(&ad.cpus.reusable)
	ever := ad.m.cpus.topology.CPUs()
	ever = ever.AndNot(&ad.m.cpus.reserved)
	n := Need{Resource: cpuResource, Asked: uint64(asked), Free: uint64(free.Len()), Fewest: ad.m.fewestForCPUs(asked), Whole: ad.m.cpus.topology.WholeCore()}
	for i := range ad.m.nodeCPUs {
		node := &ad.m.nodeCPUs[i]
		n.Nodes = append(n.Nodes, NodeAmount{NUMA: node.id, Free: uint64(node.cpus.AndLen(&free)), Total: uint64(node.cpus.AndLen(&ever)),
			Reused: uint64(node.cpus.AndLen(&ad.cpus.reusable))})
	}
	if usable := n.fewestUsable(); usable > n.Fewest && ad.m.cpus.hinter != nil {
		n.FewestUsable = usable
	}
	return []Need{n}
}

// fewestUsable returns the number of NUMA nodes that the request needs on an empty machine. It
// returns 0 if even all NUMA nodes together have too little.
func (n *Need) fewestUsable() int {
	totals := make([]uint64, len(n.Nodes))
	for i := range n.Nodes {
		totals[i] = n.Nodes[i].Total
	}
	if k := fewest(totals, n.Asked); k <= len(totals) {
		return k
	}
	return 0
}

func memoryNeeds(ad *admission, c int) (needs []Need) {
	if ad.m.mem == nil || !ad.pins() || ad.memory.needsOf(c) != NoDetail {
		return nil
	}
	for _, need := range ad.memory.needs {
		n := Need{Resource: ad.m.mem.Names()[need.Kind], Asked: need.Bytes, Fewest: ad.m.mem.MinSize(ad.memory.needs)}
		for pos := range ad.m.space.Len() {
			a := NodeAmount{
				NUMA:  ad.m.space.ID(pos),
				Free:  ad.m.mem.Free(ad.memory.book, need.Kind, pos) + ad.memory.reuse.Bytes(1<<pos, need.Kind),
				Total: ad.m.mem.Allocatable(need.Kind, pos),
			}
			if _, cells := ad.memory.book.Group(pos); cells != 1<<pos {
				a.Group = ad.m.expand(cells).String()
			}
			n.Free += a.Free
			n.Nodes = append(n.Nodes, a)
		}
		needs = append(needs, n)
	}
	return needs
}

func deviceNeeds(ad *admission, c int) (needs []Need) {
	for i := range ad.devices.slots[:ad.devices.used] {
		s := &ad.devices.slots[i]
		var sum Peak[int64]
		for j := range ad.r.Containers {
			if c == wholePod || c == j {
				sum.Add(ad.r.Containers[j].Kind, ad.r.Containers[j].devices(s.pool.resource))
			}
		}
		if sum.Most() == 0 {
			continue
		}
		needs = append(needs, s.need(ad.m, uint64(sum.Most())))
	}
	return needs
}

func (s *slot) need(m *Model, asked uint64) Need {
	p := s.pool.pool
	free := slices.Clone(p.Healthy())
	free.AndNot(s.inUse)
	free.Or(s.reusable)
	n := Need{Resource: s.pool.resource, Asked: asked, Free: uint64(free.Len())}
	if p.Aligned() && m.space != nil {
		n.Fewest = p.MinSize(int(asked))
	}
	all := make(device.Set, p.Words())
	for i := range p.Len() {
		all.Add(i)
	}
	for pos := 0; m.space != nil && pos < m.space.Len(); pos++ {
		if total := p.Touching(all, pos); total > 0 {
			n.Nodes = append(n.Nodes, NodeAmount{NUMA: m.space.ID(pos), Free: uint64(p.Touching(free, pos)), Total: uint64(total),
				Reused: uint64(p.Touching(s.reusable, pos))})
		}
	}
	return n
}
