package placement

import (
	"math"
	"slices"
)

// Meanwhile is an event on a node while a pod is being admitted. Each manager of a kubelet looks
// for pods that are gone when it is asked for hints or to allocate (removeStaleState,
// UpdateAllocatedDevices), so a pod can disappear in the middle of an admission.
type Meanwhile struct {
	// Step is the question before which it happens, from 0 to Model.Steps.
	Step int
	// UID names the pod that it happens to.
	UID string
	// Container is the one that starts, by which the memory of init containers before it is freed.
	// Empty says that the pod ends.
	Container string
}

// Steps returns how many questions a kubelet asks its managers while it admits the request: for
// each container one to each manager for hints, unless the policy is none, and one to allocate.
// With the scope pod, hints are asked for once.
func (m *Model) Steps(r *Request) int {
	rules, n := m.rulesFor(r.Rules), len(r.Containers)
	switch {
	case rules.Policy == PolicyNone:
		return len(providers) * n
	case m.whole(r):
		return len(providers) * 2
	case rules.Scope == PodScope:
		return len(providers) * (n + 1)
	}
	return len(providers) * 2 * n
}

// DecideAmid is Decide with events during the admission. No pod may be named twice. If there is an
// event, the verdict's Scarcity is always Resolvable.
func DecideAmid(s *State, r *Request, meanwhile []Meanwhile, d *Decision) Verdict {
	in := s.m.admissions.Get().(*room)
	kubelet, predicted := in.decider.(*admission)
	if predicted {
		kubelet.meanwhile, kubelet.step = meanwhile, 0
	}
	v := in.decide(s, r, d)
	if predicted {
		kubelet.meanwhile = nil
	}
	s.m.admissions.Put(in)
	return v
}

// Notices reports whether the event removes anything from the books of the manager that is asked at
// its step. If not, the event makes no difference.
func (s *State) Notices(e *Meanwhile) bool {
	pod := s.pod(e.UID)
	return pod != nil && slices.ContainsFunc(pod.Containers, func(c ContainerAllocation) bool {
		switch providers[e.Step%len(providers)].(type) {
		case deviceProvider:
			return len(c.Devices) > 0 && e.Container == ""
		case cpuProvider:
			return !c.CPUs.IsEmpty() && e.Container == ""
		}
		return len(c.Memory) > 0
	})
}

// CommitAmid is Commit after an admission with events. Each manager frees what a pod held when it
// is next asked, and this can matter. Which NUMA nodes of several provide the bytes depends on what
// they have at that moment. And if the CPU manager gave this pod CPUs that the other still had,
// they are freed too (DefectForeignCPUs).
func (s *State) CommitAmid(r *Request, meanwhile []Meanwhile, d *Decision) {
	l := leaving{s: kubeletBooks{s}, r: r, events: meanwhile}
	for at := range l.noticed {
		l.noticed[at] = make([]bool, len(meanwhile))
	}
	s.books().commit(r, d, &l)
	l.finish()
}

// leaving is what happens while an admission is written down. A nil one is nothing.
type leaving struct {
	s      kubeletBooks
	r      *Request
	events []Meanwhile
	// noticed says, by provider, which events that manager has noticed.
	noticed [managers][]bool
}

// give comes before a manager is asked for the container of that place.
func (l *leaving) give(manager provider, container int) {
	if l != nil {
		at := slices.Index(providers[:], manager)
		l.until(at, l.s.m.allocates(l.r, container)+at)
	}
}

// until has a manager notice what happens up to a step.
func (l *leaving) until(at, step int) {
	for i := range l.events {
		if e := &l.events[i]; !l.noticed[at][i] && e.Step <= step {
			l.noticed[at][i] = true
			l.giveBack(providers[at], e)
		}
	}
}

// giveBack gives a manager what a pod, or its init containers, held of it.
func (l *leaving) giveBack(manager provider, e *Meanwhile) {
	_, ofMemory := manager.(memoryProvider)
	switch {
	case e.Container != "" && ofMemory:
		l.s.Start(e.UID, []string{e.Container})
	case e.Container != "":
	case manager == provider(cpuProvider{}):
		if p := l.s.pod(e.UID); p != nil && !p.stranded() {
			all := p.CPUs()
			l.s.shared = l.s.shared.Or(&all)
		}
	case ofMemory:
		if p := l.s.pod(e.UID); p != nil {
			for b := range p.Blocks() {
				l.s.releaseMemory([]MemoryBlock{*b})
			}
		}
	default:
		for _, c := range l.s.containersOf(e.UID) {
			for j := range c.Devices {
				l.s.pools.release(&c.Devices[j])
			}
		}
	}
}

// finish has all of it have happened.
func (l *leaving) finish() {
	for at := range providers {
		l.until(at, math.MaxInt)
	}
	for i := range l.events {
		if at, ok := l.s.find(l.events[i].UID); ok && l.events[i].Container == "" {
			pod := l.s.pods[at].pod
			l.s.drop(at)
			l.s.strand(pod)
		}
	}
}

// Happen records the events during an admission that ended with a refusal.
func (s *State) Happen(meanwhile []Meanwhile) {
	for i := range meanwhile {
		if e := &meanwhile[i]; e.Container != "" {
			s.Start(e.UID, []string{e.Container})
		} else {
			s.Release(e.UID)
		}
	}
}

// allocates is the first of the questions by which the managers allocate for the container of that
// place in the request.
func (m *Model) allocates(r *Request, container int) int {
	n := len(providers)
	switch rules := m.rulesFor(r.Rules); {
	case rules.Policy == PolicyNone:
		return n * container
	case m.whole(r):
		return n
	case rules.Scope == PodScope:
		return n * (container + 1)
	}
	return n * (2*container + 1)
}

// pass comes before each question to a manager.
func (ad *admission) pass() {
	for i := range ad.meanwhile {
		if e := &ad.meanwhile[i]; e.Step == ad.step {
			ad.happen(e)
		}
	}
	ad.step++
}

// happen gives back, in the admission, what a pod or its init containers held.
func (ad *admission) happen(e *Meanwhile) {
	pod := ad.s.pod(e.UID)
	if pod == nil {
		return
	}
	if e.Container != "" && pod.Whole != nil {
		return // its memory comes back with the last container
	}
	if e.Container != "" {
		at := slices.IndexFunc(pod.Containers, func(c ContainerAllocation) bool { return c.Name == e.Container })
		for i := range pod.Containers[:max(at, 0)] {
			if c := &pod.Containers[i]; c.Kind == Init && ad.m.mem != nil {
				ad.m.mem.release(ad.memory.book, c.Memory)
			}
		}
		return
	}
	if !pod.stranded() {
		all := pod.CPUs()
		ad.cpus.shared = ad.cpus.shared.Or(&all)
	}
	if ad.m.mem != nil {
		for b := range pod.Blocks() {
			ad.m.mem.release(ad.memory.book, []MemoryBlock{*b})
		}
	}
	for i := range pod.Containers {
		ad.giveBack(&pod.Containers[i])
	}
}

// giveBack gives a container's devices back.
func (ad *admission) giveBack(c *ContainerAllocation) {
	for i := range c.Devices {
		s := ad.slot(c.Devices[i].Resource)
		if s == nil {
			continue
		}
		for _, id := range c.Devices[i].IDs {
			if j, ok := s.pool.pool.Find(id); ok {
				s.inUse.Remove(j)
			}
		}
	}
}
