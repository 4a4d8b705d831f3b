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
	// Step is the number of a question that the kubelet asks a manager. The event happens directly
	// before this question. Numbers start at 0. The number Model.Steps means that the event happens
	// after the last question.
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
// If it places the pod by spec.resources, it asks each manager once for hints and once to allocate.
func (m *Model) Steps(r *Request) int {
	return m.allocates(r, len(r.Containers)-1) + managers
}

// DecideAmid is Decide for an admission during which events happen. Each pod may have one event. If
// Berth decides, the events have no effect.
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

// Notices reports whether the manager that the kubelet asks at e.Step has resources that the event
// can free. If it has none, the event does not change this manager's answer.
func (s *State) Notices(e *Meanwhile) bool {
	pod := s.pod(e.UID)
	return pod != nil && slices.ContainsFunc(pod.Containers, func(c ContainerAllocation) bool {
		switch e.Step % managers {
		case ofDevices:
			return len(c.Devices) > 0 && e.Container == ""
		case ofCPUs:
			return !c.CPUs.IsEmpty() && e.Container == ""
		}
		return len(c.Memory) > 0
	})
}

// CommitAmid records an admission during which events happened. Each manager frees the resources of
// an ended pod when the kubelet asks it the next question. So the step of an event can change which
// NUMA nodes provide memory. If the CPU manager gave the new pod CPUs that the ended pod still had,
// the CPU manager then frees these CPUs although the new pod uses them (DefectForeignCPUs).
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
	// noticed records, by manager, the events that it has noticed.
	noticed [managers][]bool
}

// give makes a manager notice the events that happen before it allocates for a container (an index
// in the request).
func (l *leaving) give(manager, container int) {
	if l != nil {
		l.until(manager, l.books.s.m.allocates(l.r, container)+manager)
	}
}

// until makes a manager notice all events up to a step.
func (l *leaving) until(manager, step int) {
	for i := range l.events {
		if e := &l.events[i]; !l.noticed[manager][i] && e.Step <= step {
			l.noticed[manager][i] = true
			l.giveBack(manager, e)
		}
	}
}

// giveBack frees the resources that a pod, or its init containers, have from a manager.
func (l *leaving) giveBack(manager int, e *Meanwhile) {
	pod := l.books.s.pod(e.UID)
	switch {
	case pod == nil:
	case e.Container != "" && manager == ofMemory:
		l.books.s.Start(e.UID, []string{e.Container})
	case e.Container != "":
	case manager == ofCPUs:
		l.books.releaseCPUs(pod)
	case manager == ofMemory:
		l.books.releaseMemory(pod)
	default:
		l.books.releaseDevices(pod)
	}
}

// finish makes all managers notice all events, and removes the ended pods from the table.
func (l *leaving) finish() {
	for manager := range managers {
		l.until(manager, math.MaxInt)
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
// container (an index in the request).
func (m *Model) allocates(r *Request, container int) int {
	const n = managers
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
				releaseBlocks(ad.m, ad.memory.book, c.Memory)
			}
		}
		return
	}
	if !pod.stranded() {
		all := pod.CPUs()
		ad.cpus.shared = ad.cpus.shared.Or(&all)
	}
	for b := range pod.Blocks() {
		b.release(ad.m, ad.memory.book)
	}
	for i := range pod.Containers {
		ad.devices.giveBack(&pod.Containers[i])
	}
}
