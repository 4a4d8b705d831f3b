package kubeletstate

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Snapshot returns the checkpoints as the engine's plain data, pods ascending by UID and every container taken for an
// ordinary one: the kubelet does not write down which were init containers. all is every CPU that the kubelet sees; without a
// CPU checkpoint all are shared. Of the devices, only those that are registered or held are known, and the NUMA nodes only of
// those held: a caller who knows better replaces the pools.
func (s *State) Snapshot(all topology.CPUSet) placement.Snapshot {
	snap := placement.Snapshot{SharedCPUs: all}
	pods := podBook{}
	if s.CPU != nil && s.CPU.Policy == "static" {
		snap.SharedCPUs = s.CPU.Shared
		for _, e := range s.CPU.Entries {
			pods.container(e.PodUID, e.Container).CPUs = e.CPUs
		}
	}
	if s.Memory != nil && s.Memory.Policy == "Static" {
		for _, n := range s.Memory.Nodes {
			snap.Memory = append(snap.Memory, n.MemoryTable)
		}
		for _, e := range s.Memory.Entries {
			pods.container(e.PodUID, e.Container).Memory = e.Blocks
		}
	}
	if s.Devices != nil {
		for _, e := range s.Devices.Entries {
			c := pods.container(e.PodUID, e.Container)
			c.Devices = append(c.Devices, placement.DeviceAllocation{Resource: e.Resource, IDs: ids(e.Devices)})
		}
		snap.Devices = s.Devices.pools()
	}
	snap.Pods = pods.sorted()
	return snap
}

func ids(devices []HeldDevice) []string {
	out := make([]string, len(devices))
	for i, d := range devices {
		out[i] = d.ID
	}
	return out
}

// pools returns what is registered and what is held, by resource. A device that is held and not registered is unhealthy.
func (s *DeviceState) pools() []placement.DevicePool {
	byResource := map[string]map[string]placement.Device{}
	put := func(resource string, d placement.Device) {
		if byResource[resource] == nil {
			byResource[resource] = map[string]placement.Device{}
		}
		byResource[resource][d.ID] = d
	}
	for resource, registered := range s.Registered {
		for _, id := range registered {
			put(resource, placement.Device{ID: id})
		}
	}
	for _, e := range s.Entries {
		for _, h := range e.Devices {
			healthy := slices.Contains(s.Registered[e.Resource], h.ID)
			put(e.Resource, placement.Device{ID: h.ID, NUMA: h.NUMA, HasTopology: h.NUMA != 0, Unhealthy: !healthy})
		}
	}
	var pools []placement.DevicePool
	for resource, devices := range byResource {
		pool := placement.DevicePool{Resource: resource, Preference: placement.UnknownPreference}
		for _, d := range devices {
			pool.Devices = append(pool.Devices, d)
		}
		slices.SortFunc(pool.Devices, func(a, b placement.Device) int { return strings.Compare(a.ID, b.ID) })
		pools = append(pools, pool)
	}
	slices.SortFunc(pools, func(a, b placement.DevicePool) int { return strings.Compare(a.Resource, b.Resource) })
	return pools
}

// podBook collects what containers hold, from checkpoints that know nothing of one another.
type podBook map[string]map[string]*placement.ContainerAllocation

func (b podBook) container(uid, name string) *placement.ContainerAllocation {
	pod := b[uid]
	if pod == nil {
		pod = map[string]*placement.ContainerAllocation{}
		b[uid] = pod
	}
	if pod[name] == nil {
		pod[name] = &placement.ContainerAllocation{Name: name}
	}
	return pod[name]
}

func (b podBook) sorted() []placement.PodAllocation {
	var out []placement.PodAllocation
	for uid, containers := range b {
		pod := placement.PodAllocation{UID: uid}
		for _, c := range containers {
			pod.Containers = append(pod.Containers, *c)
		}
		slices.SortFunc(pod.Containers, func(x, y placement.ContainerAllocation) int { return strings.Compare(x.Name, y.Name) })
		out = append(out, pod)
	}
	slices.SortFunc(out, func(x, y placement.PodAllocation) int { return strings.Compare(x.UID, y.UID) })
	return out
}
