package agent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// deviceBook stores the devices that device plugins have reported to the kubelet. The kubelet lists
// only healthy devices, but uses the NUMA nodes of all devices for its hints.
type deviceBook struct {
	known map[string]map[string]placement.Device // by resource and id
	// unlisted has the healthy devices, ascending, of each resource that the kubelet reports but
	// its checkpoint lacks. The kubelet copies its state under a lock, but writes the copy to the
	// file without the lock. If two plugins register at the same time, the older copy can
	// therefore be written last, and stays until the next write (writeCheckpoint of
	// pkg/kubelet/cm/devicemanager/manager.go).
	unlisted map[string][]string
	// lost has, for each resource whose plugin has disconnected from the kubelet, the devices that
	// are still healthy, ascending. The kubelet removes the other devices from its checkpoint only
	// minutes later (PluginDisconnected, ibid.).
	lost map[string][]string
	// preferences are the known rules by which plugins choose devices.
	preferences map[string]placement.Preference
	// own are the resources that the agent itself offers. The kubelet has only tokens for their
	// devices (internal/offer).
	own map[string]bool
	// described is the content of the checkpoint when the agent last asked the kubelet. The field
	// beyond has the extended resources that the Node offered then and that the checkpoint did not
	// have.
	described []byte
	beyond    []string
	// gpus reads the addresses of NVIDIA's GPUs by their UUIDs. The field address is its last
	// result.
	gpus    func() (map[string]string, error)
	address map[string]string
}

func newDeviceBook(preferences map[string]placement.Preference, gpus func() (map[string]string, error)) *deviceBook {
	return &deviceBook{known: map[string]map[string]placement.Device{}, preferences: preferences, gpus: gpus}
}

// locate finds the PCI addresses of NVIDIA's GPUs if a plugin's choice depends on addresses that
// are not known. The error is about reading the addresses, or names a device for which the plugin's
// choice cannot be predicted.
func (b *deviceBook) locate(pools []placement.DevicePool, m *topology.Machine) error {
	if _, id := b.nowhere(pools, m); id == "" {
		return nil
	}
	var err error
	if b.address, err = b.gpus(); err != nil {
		return err
	}
	if resource, id := b.nowhere(pools, m); id != "" {
		return fmt.Errorf("%s: device %.80q: want a GPU that /proc/driver/nvidia/gpus lists with a PCI address of this machine", resource, id)
	}
	return nil
}

// nowhere fills in known addresses. It returns a device that has no address although its plugin's
// choice depends on addresses, or "" if there is none.
func (b *deviceBook) nowhere(pools []placement.DevicePool, m *topology.Machine) (resource, id string) {
	for i := range pools {
		p := &pools[i]
		if p.Preference != placement.NVIDIAPreference {
			continue
		}
		for j := range p.Devices {
			d := &p.Devices[j]
			gpu, _, isPart := strings.Cut(d.ID, "::")
			if at := b.address[gpu]; m.Device(at) != nil {
				d.Address = at
			}
			if d.Address == "" && !isPart && !strings.HasPrefix(gpu, "MIG-") && m.Device(gpu) == nil {
				resource, id = p.Resource, d.ID
			}
		}
	}
	return resource, id
}

// learn stores devices with their topology.
func (b *deviceBook) learn(resource string, devices ...placement.Device) {
	if b.known[resource] == nil {
		b.known[resource] = map[string]placement.Device{}
	}
	for _, d := range devices {
		d.Unhealthy = false
		b.known[resource][d.ID] = d
	}
}

// compare fills in b.unlisted with the resources that the kubelet's answer has and its checkpoint
// lacks. It fills in b.lost only for the resources in the argument short: the Node offers fewer
// devices of them than the checkpoint has. For other resources, a missing device proves nothing,
// because a starting kubelet omits devices whose plugins have not registered yet.
func (b *deviceBook) compare(s *kubeletstate.DeviceState, answer map[string][]placement.Device, short []string) {
	b.unlisted, b.lost = map[string][]string{}, map[string][]string{}
	for resource, devices := range answer {
		if _, ok := s.Registered[resource]; !ok && !b.own[resource] {
			b.unlisted[resource] = idsOf(devices)
		}
	}
	for _, resource := range short {
		if left := idsOf(answer[resource]); !slices.Equal(left, s.Registered[resource]) {
			b.lost[resource] = left
		}
	}
}

// idsOf returns the ids of the devices, ascending.
func idsOf(devices []placement.Device) []string {
	ids := make([]string, 0, len(devices))
	for _, d := range devices {
		ids = append(ids, d.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// unregistered returns the extended resources, ascending, that a Node offers and the checkpoint
// lacks.
func (b *deviceBook) unregistered(s *kubeletstate.DeviceState, capacity map[string]int64) []string {
	var out []string
	for resource, n := range capacity {
		if _, ok := s.Registered[resource]; !ok && !b.own[resource] && n > 0 && wire.IsExtended(corev1.ResourceName(resource)) {
			out = append(out, resource)
		}
	}
	slices.Sort(out)
	return out
}

// fewer returns the resources, ascending, for which the Node offers fewer devices than the
// checkpoint has.
func (b *deviceBook) fewer(s *kubeletstate.DeviceState, allocatable map[string]int64) []string {
	var out []string
	for resource, ids := range s.Registered {
		if n, told := allocatable[resource]; told && n < int64(len(ids)) && !b.own[resource] {
			out = append(out, resource)
		}
	}
	slices.Sort(out)
	return out
}

// healthy returns the ids of the healthy devices, by resource. It starts with the checkpoint,
// replaces the devices of the resources in b.lost, and adds the resources in b.unlisted.
func (b *deviceBook) healthy(s *kubeletstate.DeviceState) map[string][]string {
	all := maps.Clone(s.Registered)
	maps.Copy(all, b.lost)
	for resource, ids := range b.unlisted {
		if _, ok := all[resource]; !ok {
			all[resource] = ids
		}
	}
	return all
}

// unknown reports whether the agent does not know the topology of some registered device.
func (b *deviceBook) unknown(s *kubeletstate.DeviceState) bool {
	if s == nil {
		return false
	}
	for resource, ids := range s.Registered {
		for _, id := range ids {
			if _, ok := b.known[resource][id]; !ok {
				return true
			}
		}
	}
	return false
}

// pools returns the pools of the registered resources. The argument capacity is
// Node.status.capacity. If the capacity exceeds the number of healthy devices by n, the pool has n
// of the other known devices as unhealthy devices; the remaining known devices are gone. The result
// missing lists healthy devices whose topology is not known. A device is in no pool if it has been
// unhealthy since the agent started and no earlier report lists it, because only the kubelet knows
// it.
func (b *deviceBook) pools(
	s *kubeletstate.DeviceState, capacity map[string]int64,
) (pools []placement.DevicePool, missing []string) {
	if s == nil {
		return nil, nil
	}
	registered := b.healthy(s)
	for _, resource := range slices.Sorted(maps.Keys(registered)) {
		healthy := registered[resource]
		pool := placement.DevicePool{Resource: resource, Preference: placement.UnknownPreference}
		if p, ok := b.preferences[resource]; ok {
			pool.Preference = p
		}
		for _, id := range healthy {
			d, ok := b.known[resource][id]
			if !ok {
				missing = append(missing, resource+"/"+id)
				d = placement.Device{ID: id}
			}
			pool.Devices = append(pool.Devices, d)
		}
		sick := capacity[resource] - int64(len(healthy))
		for _, id := range slices.Sorted(maps.Keys(b.known[resource])) {
			if _, ok := slices.BinarySearch(healthy, id); ok {
				continue
			}
			if sick <= 0 {
				continue
			}
			sick--
			d := b.known[resource][id]
			d.Unhealthy = true
			pool.Devices = append(pool.Devices, d)
		}
		slices.SortFunc(pool.Devices, func(a, b placement.Device) int { return cmp.Compare(a.ID, b.ID) })
		pools = append(pools, pool)
	}
	return pools, missing
}
