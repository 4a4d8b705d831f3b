package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/test/obeyed"
	"github.com/berth-dev/berth/topology"
)

// alignment compares the NUMA nodes of a container's devices and CPUs.
type alignment int

// The alignments.
const (
	neutral    alignment = iota // the container has no exclusive CPUs, or no device on a NUMA node
	aligned                     // each device with a NUMA node is on a NUMA node of the CPUs
	misaligned                  // some device is on another NUMA node
)

// align compares the devices with the CPUs, and with the NUMA nodes of the memory, which are 0 if
// the node binds no memory. which is the first misaligned device.
func align(m *topology.Machine, mine belongings, devices []sample) (how alignment, which string) {
	if mine.cpus.IsEmpty() {
		return neutral, ""
	}
	near := m.NodesOf(mine.cpus)
	for _, d := range devices {
		switch {
		case d.at == nowhere:
		case !near.Has(topology.NUMAID(d.at)):
			return misaligned, fmt.Sprintf("%s is on NUMA node %d, and the CPUs %v are on %v", d.Name, d.at, mine.cpus, near)
		case mine.memory != 0 && !mine.memory.Has(topology.NUMAID(d.at)):
			return misaligned, fmt.Sprintf("%s is on NUMA node %d, and the memory on %v", d.Name, d.at, mine.memory)
		default:
			how = aligned
		}
	}
	return how, ""
}

// belongings are the CPUs of a container and the NUMA nodes of its memory.
type belongings struct {
	uid, container string
	cpus           topology.CPUSet
	memory         topology.NUMASet
}

// held reads the exclusive CPUs of all containers of a node: from its kubelet's checkpoint, or from
// the cgroups if Berth decides there.
func (c *cluster) held(node string, pods []corev1.Pod) ([]belongings, error) {
	dir, err := c.dir(node)
	if err != nil {
		return nil, err
	}
	if obeying(node) {
		return confined(dir, pods), nil
	}
	data, err := os.ReadFile(dir.Checkpoint(kubeletstate.CPUFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	state, err := kubeletstate.ParseCPU(kubeletstate.CPUFile, data)
	if err != nil {
		return nil, err
	}
	var all []belongings
	for _, e := range state.Entries {
		all = append(all, belongings{uid: e.PodUID, container: e.Container, cpus: e.CPUs})
	}
	return all, nil
}

// confined returns the containers of pods. If a container has another number of CPUs than it
// requested, its entry has no CPUs.
func confined(dir hollow.Dir, pods []corev1.Pod) (all []belongings) {
	for _, g := range obeyed.ReadCgroups(dir.Cgroups()) {
		at := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return string(pod.UID) == g.UID })
		if at < 0 {
			continue
		}
		for i := range pods[at].Spec.Containers {
			c := &pods[at].Spec.Containers[i]
			if c.Name != g.Container {
				continue
			}
			b := belongings{uid: g.UID, container: g.Container, memory: g.Mems}
			if c.Resources.Limits.Cpu().Value() == int64(g.CPUs.Len()) {
				b.cpus = g.CPUs
			}
			all = append(all, b)
		}
	}
	return all
}

// of returns the belongings of a pod's container, and whether there is an entry.
func of(all []belongings, pod *corev1.Pod, container string) (belongings, bool) {
	for _, b := range all {
		if b.uid == string(pod.UID) && b.container == container {
			return b, true
		}
	}
	return belongings{}, false
}

// overlap describes CPUs that two pods have; "" for none.
func overlap(all []belongings) string {
	for i, a := range all {
		for _, b := range all[:i] {
			if a.uid != b.uid && a.cpus.Intersects(&b.cpus) {
				return fmt.Sprintf("CPUs %v of pod %s and %v of pod %s", a.cpus, a.uid, b.cpus, b.uid)
			}
		}
	}
	return ""
}

// claimsOf returns the names of the pod's claims.
func claimsOf(pod *corev1.Pod) (names []string) {
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			names = append(names, *c.ResourceClaimName)
		}
	}
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			names = append(names, *s.ResourceClaimName)
		}
	}
	return names
}

// results are the devices of a claim; none if it is not allocated.
func results(claim *resourceapi.ResourceClaim) []resourceapi.DeviceRequestAllocationResult {
	if claim.Status.Allocation == nil {
		return nil
	}
	return claim.Status.Allocation.Devices.Results
}

// its reports whether the claim uses the device, and does not only have admin access.
func its(r *resourceapi.DeviceRequestAllocationResult) bool {
	return r.AdminAccess == nil || !*r.AdminAccess
}

// place is a device of a driver of a node.
type place struct {
	driverOf
	device string
}

func placeOf(r *resourceapi.DeviceRequestAllocationResult) place {
	return place{driverOf{r.Pool, r.Driver}, r.Device}
}
