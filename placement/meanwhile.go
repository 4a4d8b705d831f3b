package placement

import (
	"math"
	"slices"
)

// Meanwhile is an event on a node during the admission of a pod. When the kubelet asks one of its
// managers for hints or for an allocation, the manager first frees the resources of pods that are
// gone (removeStaleState, UpdateAllocatedDevices). So resources can become free in the middle of an
// admission.
type Meanwhile struct {
	// Step is the index of the question to a manager before which the event happens, from 0 to
	// Model.Steps.
	Step int
	// UID names the pod of the event.
	UID string
	// Container is the container that starts, which frees the memory of the init containers before
	// it. If Container is "", the event is the end of the pod.
	Container string
}

// Steps returns the number of questions that a kubelet asks its managers during the admission of
// the request. For each container it asks each manager once to allocate. Unless the policy is none,
// it also asks each manager once for hints: for each container, or with the scope pod for the pod.
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

// DecideAmid does what Decide does, with events during the admission. Each pod may have one event.
// If there is an event, the verdict's Scarcity is always Resolvable.
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

// Notices reports whether the event frees resources of a manager. Otherwise the event has no
// effect.
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

// CommitAmid does what Commit does, after an admission with events. Each manager frees the
// resources of an ended pod at the kubelet's next question. The step of an event can change which
// NUMA nodes provide memory. If the CPU manager gave the new pod CPUs that the ended pod still had,
// it frees these CPUs too (DefectForeignCPUs).
func (s *State) CommitAmid(r *Request, meanwhile []Meanwhile, d *Decision) {
	l := leaving{books: kubeletBooks{s}, r: r, events: meanwhile}
	for at := range l.noticed {
		l.noticed[at] = make([]bool, len(meanwhile))
	}
	s.books().commit(r, d, &l)
	l.finish()
}

// leaving has the events of an admission that is being recorded. A nil leaving has no events.
type leaving struct {
	books  kubeletBooks
	r      *Request
	events []Meanwhile
	// noticed records, by provider, the events that the manager has noticed.
	noticed [managers][]bool
}

// give makes a manager notice the events that happen before it allocates for a container, by index
// in the request.
func (l *leaving) give(manager provider, container int) {
	if l != nil {
		at := slices.Index(providers[:], manager)
		l.until(at, l.books.s.m.allocates(l.r, container)+at)
	}
}

// until makes the manager at a position in providers notice all events up to a step.
func (l *leaving) until(at, step int) {
	for i := range l.events {
		if e := &l.events[i]; !l.noticed[at][i] && e.Step <= step {
			l.noticed[at][i] = true
			l.giveBack(providers[at], e)
		}
	}
}

// giveBack frees the resources that a pod, or its init containers, have from a manager.
func (l *leaving) giveBack(manager provider, e *Meanwhile) {
	pod := l.books.s.pod(e.UID)
	_, ofMemory := manager.(memoryProvider)
	switch {
	case pod == nil:
	case e.Container != "" && ofMemory:
		l.books.s.Start(e.UID, []string{e.Container})
	case e.Container != "":
	case manager == provider(cpuProvider{}):
		l.books.releaseCPUs(pod)
	case ofMemory:
		l.books.releaseMemory(pod)
	default:
		l.books.releaseDevices(pod)
	}
}

// finish makes all managers notice all events.
func (l *leaving) finish() {
	for at := range providers {
		l.until(at, math.MaxInt)
	}
	for i := range l.events {
		if at, ok := l.books.s.find(l.events[i].UID); ok && l.events[i].Container == "" {
			pod := l.books.s.pods[at].pod
			l.books.s.drop(at)
			l.books.strand(pod)
		}
	}
}

// Happen records the events of an admission that the kubelet refused.
func (s *State) Happen(meanwhile []Meanwhile) {
	for i := range meanwhile {
		if e := &meanwhile[i]; e.Container != "" {
			s.Start(e.UID, []string{e.Container})
		} else {
			s.Release(e.UID)
		}
	}
}

// allocates returns the step at which the kubelet asks the first manager to allocate for a
// container, by index in the request.
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

// pass applies the events that happen before the kubelet's next question, and counts the question.
func (ad *admission) pass() {
	for i := range ad.meanwhile {
		if e := &ad.meanwhile[i]; e.Step == ad.step {
			ad.happen(e)
		}
	}
	ad.step++
}

// happen frees, in the admission, the resources of a pod or of its init containers.
func (ad *admission) happen(e *Meanwhile) {
	pod := ad.s.pod(e.UID)
	if pod == nil {
		return
	}
	if e.Container != "" && pod.Whole != nil {
		return // the pod's memory is freed with the last container
	}
	if e.Container != "" {
		at := slices.IndexFunc(pod.Containers, func(c ContainerAllocation) bool { return c.Name == e.Container })
		for i := range pod.Containers[:max(at, 0)] {
			if c := &pod.Containers[i]; c.Kind == Init {
				ad.m.releaseBlocks(ad.memory.book, c.Memory)
			}
		}
		return
	}
	if !pod.stranded() {
		all := pod.CPUs()
		ad.cpus.shared = ad.cpus.shared.Or(&all)
	}
	for b := range pod.Blocks() {
		ad.m.releaseBlock(ad.memory.book, b)
	}
	for i := range pod.Containers {
		ad.giveBack(&pod.Containers[i])
	}
}

// giveBack frees the devices of a container in the admission.
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
