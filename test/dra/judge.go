package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/topology"
)

// alignment compares the NUMA nodes of a container's devices and CPUs.
type alignment int

// The alignments.
const (
	neutral    alignment = iota // it has no CPUs of its own, or no device that is on a NUMA node
	aligned                     // each such device is on a NUMA node of the CPUs
	misaligned                  // some device is not
)

// align judges devices by the CPUs; which is the first that is elsewhere.
func align(m *topology.Machine, cpus topology.CPUSet, devices []sample) (how alignment, which string) {
	if cpus.IsEmpty() {
		return neutral, ""
	}
	near := m.NodesOf(cpus)
	for _, d := range devices {
		switch {
		case d.at == nowhere:
		case !near.Has(topology.NUMAID(d.at)):
			return misaligned, fmt.Sprintf("%s is on NUMA node %d, and the CPUs %v are on %v", d.Name, d.at, cpus, near)
		default:
			how = aligned
		}
	}
	return how, ""
}

// held reads the exclusive CPUs of all containers of a node.
func held(dir hollow.Dir) ([]kubeletstate.CPUEntry, error) {
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
	return state.Entries, nil
}

// cpusOf returns the CPUs of a pod's container.
func cpusOf(all []kubeletstate.CPUEntry, pod *corev1.Pod, container string) (cpus topology.CPUSet) {
	for _, e := range all {
		if e.PodUID == string(pod.UID) && e.Container == container {
			cpus = e.CPUs
		}
	}
	return cpus
}

// overlap describes CPUs that two pods have; "" for none.
func overlap(all []kubeletstate.CPUEntry) string {
	for i, a := range all {
		for _, b := range all[:i] {
			if a.PodUID != b.PodUID && a.CPUs.Intersects(&b.CPUs) {
				return fmt.Sprintf("CPUs %v of pod %s and %v of pod %s", a.CPUs, a.PodUID, b.CPUs, b.PodUID)
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

// its reports whether the claim uses the device, rather than having administrative access.
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
