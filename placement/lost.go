package placement

import "github.com/berth-dev/berth/topology"

// dropLost frees, in the admission, the CPUs and memory of containers that the pod no longer has
// (removeStaleState).
func (ad *admission) dropLost() {
	if ad.held.Whole != nil {
		return // the kubelet frees everything with the last container
	}
	lost := lostCPUs(ad.held, ad.r)
	ad.cpus.shared = ad.cpus.shared.Or(&lost)
	for i := range ad.held.Containers {
		if c := &ad.held.Containers[i]; !ad.r.hasContainer(c.Name) {
			releaseBlocks(ad.m, ad.memory.book, c.Memory)
		}
	}
}

// lostCPUs returns the CPUs of containers that the pod no longer has, except CPUs that another
// container has too.
func lostCPUs(pod *PodAllocation, r *Request) topology.CPUSet {
	var lost, kept topology.CPUSet
	for i := range pod.Containers {
		if c := &pod.Containers[i]; r.hasContainer(c.Name) {
			kept = kept.Or(&c.CPUs)
		} else {
			lost = lost.Or(&c.CPUs)
		}
	}
	return lost.AndNot(&kept)
}

func (r *Request) hasContainer(name string) bool {
	for i := range r.Containers {
		if r.Containers[i].Name == name {
			return true
		}
	}
	return false
}

// dropLost frees, in the state itself, the CPUs and memory of containers that the pod no longer
// has. The devices of a removed container stay with the pod, because the device manager frees
// devices only when a whole pod is gone. dropLost returns the removed containers that have devices.
func (b kubeletBooks) dropLost(pod *PodAllocation, r *Request) (rest []ContainerAllocation) {
	lost := lostCPUs(pod, r)
	b.s.shared = b.s.shared.Or(&lost)
	for i := range pod.Containers {
		c := pod.Containers[i]
		if r.hasContainer(c.Name) {
			continue
		}
		releaseBlocks(b.s.m, b.s.book, c.Memory)
		if len(c.Devices) > 0 {
			c.CPUs, c.Memory = topology.CPUSet{}, nil
			rest = append(rest, c)
		}
	}
	return rest
}
