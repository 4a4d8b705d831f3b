package placement

import (
	"slices"

	"github.com/berth-dev/berth/topology"
)

// Meanwhile is what happens on a node while a pod is being admitted. Each manager of a kubelet
// looks for pods that have gone whenever it is asked for hints or to allocate (removeStaleState,
// UpdateAllocatedDevices), so one admission can see a pod first there and then gone.
type Meanwhile struct {
	// Step is the question before which it happens, from 0 to Model.Steps.
	Step int
	// UID names the pod that it happens to.
	UID string
	// Container is the one that starts, by which the memory of init containers before it is freed.
	// Empty says that the pod ends.
	Container string
}

// Steps is how many questions a kubelet puts to its managers while it admits the request: for each
// container one to each for hints, unless the policy is none, and one to allocate. With the pod
// scope hints are asked for once.
func (m *Model) Steps(r *Request) int {
	rules, n := m.rulesFor(r.Rules), len(r.Containers)
	switch {
	case rules.Policy == PolicyNone:
		return len(providers) * n
	case rules.Scope == PodScope:
		return len(providers) * (n + 1)
	}
	return len(providers) * 2 * n
}

// DecideAmid is Decide on a node where things happen while the pod is admitted. No pod may be named
// twice. Where anything happens, the verdict's Scarcity is always Resolvable.
func DecideAmid(s *State, r *Request, meanwhile []Meanwhile, d *Decision) Verdict {
	ad := s.m.admissions.Get().(*admission)
	ad.meanwhile, ad.step = meanwhile, 0
	v := ad.decide(s, r, d)
	ad.meanwhile = nil
	s.m.admissions.Put(ad)
	return v
}

// Notices says whether the manager that is asked at the step has anything in its books that what
// happens takes away: to others it makes no difference.
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

// CommitAmid is Commit after an admission during which things happened.
func (s *State) CommitAmid(r *Request, meanwhile []Meanwhile, d *Decision) {
	var late topology.CPUSet
	for i := range meanwhile {
		if e := &meanwhile[i]; e.Container == "" && e.Step >= s.m.Steps(r)-1 {
			late = late.Or(s.cpusOf(e.UID))
		}
	}
	s.Happen(meanwhile)
	s.Commit(r, d)
	// The CPU manager puts back what a pod held that left after its last question, also where it
	// has given it to this one by mistake (DefectForeignCPUs).
	s.shared = s.shared.Or(&late)
}

// cpusOf is the union of what the containers of a pod hold.
func (s *State) cpusOf(uid string) *topology.CPUSet {
	var all topology.CPUSet
	if p := s.pod(uid); p != nil {
		for i := range p.Containers {
			all = all.Or(&p.Containers[i].CPUs)
		}
	}
	return &all
}

// Happen writes down what happened while a pod was refused.
func (s *State) Happen(meanwhile []Meanwhile) {
	for i := range meanwhile {
		if e := &meanwhile[i]; e.Container != "" {
			s.Start(e.UID, []string{e.Container})
		} else {
			s.Release(e.UID)
		}
	}
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
	if e.Container != "" {
		at := slices.IndexFunc(pod.Containers, func(c ContainerAllocation) bool { return c.Name == e.Container })
		for i := range pod.Containers[:max(at, 0)] {
			if c := &pod.Containers[i]; c.Kind == Init && ad.m.mem != nil {
				ad.m.releaseBlocks(ad.memory.book, c.Memory)
			}
		}
		return
	}
	for i := range pod.Containers {
		ad.giveBack(&pod.Containers[i])
	}
}

func (ad *admission) giveBack(c *ContainerAllocation) {
	ad.cpus.shared = ad.cpus.shared.Or(&c.CPUs)
	if ad.m.mem != nil {
		ad.m.releaseBlocks(ad.memory.book, c.Memory)
	}
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
