package placement

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/placement/joint"
)

// commit records an admission. A pod that the state already has keeps its resources.
func (b jointBooks) commit(_ *Request, d *Decision, _ *leaving) {
	if b.s.pod(d.UID) == nil {
		b.take(d.Held())
	}
}

func (b jointBooks) take(pod *PodAllocation) {
	b.s.put(pod)
	b.enter(b.s.m.obey.joint.Take, pod)
	b.enterProvided(pod, true)
}

func (b jointBooks) release(pod *PodAllocation) {
	b.enter(b.s.m.obey.joint.Give, pod)
	b.enterProvided(pod, false)
}

// Hold records, on a node where Berth decides, an allocation that an earlier decision or a report
// gives to a pod. A pod that the state already has keeps its resources. Hold leaves out amounts
// that the machine cannot have. It also leaves out CPUs and devices that another pod has, or that
// no pod can have. problem describes one of these CPUs or devices, and is "" if there are none.
func (s *State) Hold(p *PodAllocation) (problem string) {
	if s.m.obey == nil || s.pod(p.UID) != nil {
		return ""
	}
	pod := &PodAllocation{UID: p.UID, Containers: slices.Clone(p.Containers)}
	for i := range pod.Containers {
		c := &pod.Containers[i]
		c.Shares = slices.DeleteFunc(slices.Clone(c.Shares), func(a CPUShare) bool { return !s.m.obey.hasShare(a) })
		c.Memory = slices.DeleteFunc(slices.Clone(c.Memory), func(b MemoryBlock) bool { return !s.m.obey.hasBlock(&b) })
		c.Provided = slices.DeleteFunc(slices.Clone(c.Provided), func(p Provided) bool { return !s.m.supplies.has(p) })
	}
	problem = s.m.obey.joint.Problem(s.account, s.m.obey.heldBy(pod))
	for i := range pod.Containers {
		problem = cmp.Or(problem, s.m.obey.strangers(&pod.Containers[i]))
	}
	if problem != "" {
		free := s.m.obey.joint.Cores.Free(s.account)
		for i := range pod.Containers {
			c := &pod.Containers[i]
			c.CPUs, c.Exclusive = c.CPUs.And(&free), joint.Shareable
			c.Devices = s.m.obey.onlyFree(s.account, c.Devices)
		}
	}
	jointBooks{s}.take(pod)
	return problem
}

func (b jointBooks) enter(enter func(*joint.Book, *joint.Held), pod *PodAllocation) {
	held := b.s.m.obey.heldBy(pod)
	enter(b.s.account, held)
	b.inUse(held)
	b.s.shared = b.s.m.obey.joint.Cores.Shared(b.s.account)
}

// inUse marks each device of held in the pools as in use if the account has it as taken, otherwise
// as free.
func (b jointBooks) inUse(held *joint.Held) {
	s := b.s
	for _, d := range held.Devices {
		p := s.pools.index(s.m.obey.joint.Devices.KindName(d.Kind))
		if p < 0 {
			continue
		}
		i, ok := s.pools[p].pool.Find(s.m.obey.joint.Devices.ID(d))
		switch {
		case !ok:
		case s.m.obey.joint.Devices.IsTaken(s.account, d):
			s.pools[p].inUse.Add(i)
		default:
			s.pools[p].inUse.Remove(i)
		}
	}
}

// enterProvided adds the pod's peak use of providers' resources to given, or subtracts it if take
// is false.
func (b jointBooks) enterProvided(pod *PodAllocation, take bool) {
	s := b.s
	for i := range s.given {
		var sum Peak[uint64]
		for c := range pod.Containers {
			n := uint64(0)
			for k := range pod.Containers[c].Provided {
				if at, ok := s.m.supplies.placeOf(&pod.Containers[c].Provided[k]); ok && at == i {
					n += pod.Containers[c].Provided[k].Amount
				}
			}
			sum.Add(pod.Containers[c].Kind, n)
		}
		if n := sum.Most(); take {
			s.given[i] += n
		} else {
			s.given[i] -= min(n, s.given[i])
		}
	}
}

// restore rebuilds the account from the pods. It returns an error if two pods hold the same CPU or
// device, if a pod holds a CPU that is reserved or that the machine does not have, or if a pod has
// an amount that the machine cannot have (checkAmounts).
func (b jointBooks) restore(*Snapshot) error {
	s := b.s
	s.account.CopyFrom(s.m.empty.account)
	clear(s.given)
	for _, p := range s.byOrder() {
		h := s.m.obey.heldBy(p)
		if problem := s.m.obey.joint.Problem(s.account, h); problem != "" {
			return contradiction("pods["+p.UID+"].containers[*].cpus", h.CPUs.String(), "CPUs that the pod can have: "+problem)
		}
		for i := range p.Containers {
			if err := s.m.obey.checkAmounts(p, &p.Containers[i]); err != nil {
				return err
			}
		}
		s.m.obey.joint.Take(s.account, h)
		b.enterProvided(p, true)
	}
	b.markSick()
	s.shared = s.m.obey.joint.Cores.Shared(s.account)
	return nil
}

// recount rebuilds the account from the pods in the state and from the plugins' reports.
func (b jointBooks) recount() {
	s := b.s
	s.account.CopyFrom(s.m.empty.account)
	for i := range s.pods {
		s.m.obey.joint.Take(s.account, s.m.obey.heldBy(s.pods[i].pod))
	}
	b.markSick()
}

// markSick records in the account which of the devices that Berth assigns are unhealthy according
// to the plugins.
func (b jointBooks) markSick() {
	s := b.s
	for i := range s.pools {
		kind, ours := s.m.obey.kindOfDevice(s.pools[i].resource)
		if !ours {
			continue
		}
		for j := range s.pools[i].source.Devices {
			if d := &s.pools[i].source.Devices[j]; d.Unhealthy {
				if ref, ok := s.m.obey.joint.Devices.Find(kind, d.ID); ok {
					s.m.obey.joint.Devices.MarkSick(s.account, ref)
				}
			}
		}
	}
}

// check returns an error if the account does not agree with the pods.
func (b jointBooks) check() error {
	s := b.s
	again := s.Clone()
	if err := (jointBooks{again}).restore(nil); err != nil {
		return err
	}
	if !again.account.Equal(s.account) || again.shared != s.shared || !slices.Equal(again.given, s.given) {
		return contradiction("sharedCPUs", s.shared.String(), again.shared.String()+", according to the pods")
	}
	return nil
}
