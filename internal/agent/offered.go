package agent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/offer"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// If the agent offers a resource, the kubelet has only tokens for its devices (package offer). So
// the report ignores the entries of such resources in the kubelet's checkpoint. The agent itself
// reports the devices and their owners.

// claim removes the resources that the agent itself offers from m.books.state.Devices, and fills in
// s.stale. The result rival describes another program that offers these resources or devices, or a
// pod that has devices of another plugin. It is "" if there is none.
func (m *mirror) claim(s *sighting) (rival string) {
	b, offered := m.devices, s.platform.offered
	b.own = map[string]bool{}
	for i := range offered {
		for _, name := range wire.DeviceNames(offered[i].Resource) {
			b.own[name] = true
		}
	}
	books := m.books.state.Devices
	if books == nil || len(offered) == 0 {
		return ""
	}
	rival = offer.Rival(offered, books.Registered)
	mine := *books
	mine.Registered = maps.Clone(books.Registered)
	maps.DeleteFunc(mine.Registered, func(resource string, _ []string) bool { return b.own[resource] })
	mine.Entries = nil
	for _, e := range books.Entries {
		switch {
		case !b.own[e.Resource]:
			mine.Entries = append(mine.Entries, e)
		case rival == "":
			rival = foreign(s, &e)
		}
		if b.own[e.Resource] && s.booting && s.ended(e.PodUID) {
			s.stale = append(s.stale, wire.DeviceOf(e.Resource))
		}
	}
	m.books.state.Devices = &mine
	return rival
}

// foreign describes the pod of an entry with a device that is not a token of the agent. It returns
// "" if there is no such device, or if the pod has ended.
func foreign(s *sighting, e *kubeletstate.DeviceEntry) string {
	at := slices.IndexFunc(e.Devices, func(d kubeletstate.HeldDevice) bool { return !offer.IsToken(d.ID) })
	f, known := s.pods[e.PodUID]
	if at < 0 || known && !f.ended.IsZero() {
		return ""
	}
	pod := "with UID " + e.PodUID
	if known {
		pod = f.key()
	}
	return fmt.Sprintf("pod %s has device %.100s of %s from another device plugin, but the agent offers that resource", pod, e.Devices[at].ID, e.Resource)
}

// addOffered adds the pools of the devices that the agent offers.
func (s *sighting) addOffered() {
	sick := map[string]string{}
	if s.obeyed != nil {
		maps.Copy(sick, s.obeyed.sick)
	}
	for _, p := range s.platform.offered {
		for _, d := range p.Devices {
			if s.obeyed != nil && s.obeyed.offered[d.Address] != p.Resource {
				sick[d.Address] = "the agent has not offered it to the kubelet yet"
			}
			if slices.Contains(s.stale, p.Resource) {
				sick[d.Address] = "the kubelet still counts devices of deleted pods"
			}
		}
	}
	s.pools = append(s.pools, poolsOf(s.platform.offered, sick)...)
	slices.SortFunc(s.pools, func(a, b placement.DevicePool) int { return cmp.Compare(a.Resource, b.Resource) })
}

// poolsOf returns the pools of the offers. The argument sick has the devices that the scheduler
// must not promise to any pod, by address.
func poolsOf(offered []offer.Pool, sick map[string]string) []placement.DevicePool {
	var out []placement.DevicePool
	for _, p := range offered {
		pool := placement.DevicePool{Resource: p.Resource, Decided: true}
		for _, d := range p.Devices {
			device := placement.Device{ID: d.Address, HasTopology: d.HasNUMA}
			if d.HasNUMA {
				device.NUMA = topology.NewNUMASet(d.NUMA)
			}
			_, device.Unhealthy = sick[d.Address]
			pool.Devices = append(pool.Devices, device)
		}
		slices.SortFunc(pool.Devices, func(a, b placement.Device) int { return cmp.Compare(a.ID, b.ID) })
		out = append(out, pool)
	}
	return out
}
