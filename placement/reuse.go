package placement

import (
	"slices"

	"github.com/berth-dev/berth/placement/device"
	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// reuseMemo has the resources of init containers that a kubelet's managers remember as reusable,
// for the last pod to which they allocated. Each manager forgets them when it allocates to another
// pod, and all managers forget them at a restart (call RememberReuse again). The end of the pod
// does not make the managers forget them.
type reuseMemo struct {
	cpuUID string
	cpus   topology.CPUSet

	memoryUID string
	memory    memory.Reuse

	deviceUID string
	devices   []DeviceAllocation // never changed in place
}

// RememberReuse makes the state remember the reusable resources of the last pod's init containers,
// as a kubelet does. This matters only if the same UID is admitted twice in a row: the kubelet then
// assigns resources that it has already freed, and counts wrongly. A replay needs this. A scheduler
// must not use it, because it removes pods from copies of a state and adds them again.
func (s *State) RememberReuse() { s.reuse = &reuseMemo{} }

// clone returns an independent copy, or nil for nil.
func (u *reuseMemo) clone() *reuseMemo {
	if u == nil {
		return nil
	}
	out := *u
	out.memory = memory.Reuse{}
	out.memory.CopyFrom(&u.memory)
	return &out
}

// recall makes the remembered resources reusable in the admission, if they are of the same pod.
func (ad *admission) recall(u *reuseMemo) {
	uid := ad.r.UID
	if u.cpuUID == uid {
		ad.cpus.reusable = u.cpus
	}
	if u.memoryUID == uid && ad.m.mem != nil {
		ad.memory.reuse.CopyFrom(&u.memory)
	}
	if u.deviceUID != uid {
		return
	}
	for i := range u.devices {
		s := ad.slot(u.devices[i].Resource)
		if s == nil {
			continue
		}
		for _, id := range u.devices[i].IDs {
			if j, ok := s.pool.pool.Find(id); ok {
				s.reusable.Add(j)
			}
		}
	}
}

// remember updates the memo after a decision was committed, as the managers do. mem is the
// memoryCommit after the last container.
func (s *State) remember(d *Decision, mem *memoryCommit) {
	u := s.reuse
	if u == nil {
		return
	}
	for i := range d.Containers {
		c := &d.Containers[i]
		if !c.CPUs.IsEmpty() {
			u.rememberCPUs(d.UID, c)
		}
		if len(c.Memory) > 0 {
			u.memoryUID = d.UID
			u.memory.CopyFrom(&mem.reuse)
		}
		u.rememberDevices(d.UID, c)
	}
}

func (u *reuseMemo) rememberCPUs(uid string, c *ContainerDecision) {
	if u.cpuUID != uid {
		u.cpuUID, u.cpus = uid, topology.CPUSet{}
	}
	if c.Kind == Init {
		u.cpus = u.cpus.Or(&c.CPUs)
	} else {
		u.cpus = u.cpus.AndNot(&c.CPUs)
	}
}

func (u *reuseMemo) rememberDevices(uid string, c *ContainerDecision) {
	if u.deviceUID != uid {
		u.deviceUID, u.devices = uid, nil
	}
	for i := range c.Devices {
		a := &c.Devices[i]
		all := slices.Clone(u.devices)
		at := slices.IndexFunc(all, func(o DeviceAllocation) bool { return o.Resource == a.Resource })
		if at < 0 {
			at, all = len(all), append(all, DeviceAllocation{Resource: a.Resource})
		}
		ids := slices.DeleteFunc(slices.Clone(all[at].IDs), func(id string) bool { return slices.Contains(a.IDs, id) })
		if c.Kind == Init {
			ids = append(ids, a.IDs...)
		}
		all[at].IDs = ids
		u.devices = all
	}
}

// dropLost frees, in the admission, the CPUs and memory of containers that the pod no longer has
// (removeStaleState).
func (ad *admission) dropLost() {
	if ad.held.Whole != nil {
		return // the kubelet frees everything with the last container
	}
	lost, kept := lostCPUs(ad.held, ad.r.hasContainer)
	lost = lost.AndNot(&kept)
	ad.cpus.shared = ad.cpus.shared.Or(&lost)
	for i := range ad.held.Containers {
		if c := &ad.held.Containers[i]; ad.m.mem != nil && !ad.r.hasContainer(c.Name) {
			ad.m.mem.release(ad.memory.book, c.Memory)
		}
	}
}

// lostCPUs returns the CPUs of the containers that the pod no longer has, and the CPUs of its
// remaining containers.
func lostCPUs(pod *PodAllocation, has func(string) bool) (lost, kept topology.CPUSet) {
	for i := range pod.Containers {
		if c := &pod.Containers[i]; has(c.Name) {
			kept = kept.Or(&c.CPUs)
		} else {
			lost = lost.Or(&c.CPUs)
		}
	}
	return lost, kept
}

func (r *Request) hasContainer(name string) bool {
	for i := range r.Containers {
		if r.Containers[i].Name == name {
			return true
		}
	}
	return false
}

// dropLost does what admission.dropLost does, but in the state itself. The devices of a removed
// container stay with the pod, because the device manager looks only at pods. It returns the
// remaining containers.
func (s kubeletBooks) dropLost(pod *PodAllocation, r *Request) (rest []ContainerAllocation) {
	lost, kept := lostCPUs(pod, r.hasContainer)
	lost = lost.AndNot(&kept)
	s.shared = s.shared.Or(&lost)
	for i := range pod.Containers {
		c := pod.Containers[i]
		if r.hasContainer(c.Name) {
			continue
		}
		s.releaseMemory(c.Memory)
		if len(c.Devices) > 0 {
			c.CPUs, c.Memory = topology.CPUSet{}, nil
			rest = append(rest, c)
		}
	}
	return rest
}

// doubled returns the number of devices that are both reusable and free, and so would be counted
// twice.
func doubled(available, reusable device.Set) int {
	n := 0
	for i := range reusable {
		for w := reusable[i] & available[i]; w != 0; w &= w - 1 {
			n++
		}
	}
	return n
}
