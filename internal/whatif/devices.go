package whatif

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

const maxPool = 4096

// ParsePool parses RESOURCE=NUMA:COUNT[,NUMA:COUNT...]. NUMA is the number of a NUMA node, a range
// for devices on several, or "-" for devices without one. The device ids are NUMA-INDEX, such as
// "0-3". Devices are assigned in the lexical order of their ids.
func ParsePool(text string) (placement.DevicePool, error) {
	resource, list, ok := strings.Cut(text, "=")
	if !ok || !amounts.IsExtended(resource) {
		return placement.DevicePool{}, errors.New("want RESOURCE=NUMA:COUNT, like nvidia.com/gpu=0:4,1:4")
	}
	pool := placement.DevicePool{Resource: resource, Preference: placement.SortedPreference}
	for item := range strings.SplitSeq(list, ",") {
		more, err := parseDevices(item, maxPool-len(pool.Devices))
		if err != nil {
			return pool, err
		}
		pool.Devices = append(pool.Devices, more...)
	}
	slices.SortFunc(pool.Devices, func(a, b placement.Device) int { return strings.Compare(a.ID, b.ID) })
	for i := 1; i < len(pool.Devices); i++ {
		if pool.Devices[i].ID == pool.Devices[i-1].ID {
			numa := pool.Devices[i].ID[:strings.LastIndexByte(pool.Devices[i].ID, '-')]
			return pool, fmt.Errorf("NUMA node %q: want each NUMA node once", numa)
		}
	}
	return pool, nil
}

func parseDevices(item string, room int) ([]placement.Device, error) {
	numa, count, _ := strings.Cut(item, ":")
	n, err := strconv.ParseUint(count, 10, 16)
	if err != nil || int(n) > room {
		return nil, fmt.Errorf("%q: want NUMA:COUNT with at most %d devices in total", item, maxPool)
	}
	device := placement.Device{}
	if numa != "-" {
		set, err := topology.ParseNUMAList(numa)
		if err != nil || set == 0 {
			return nil, fmt.Errorf("%q: want a NUMA node's number, a range such as 0-1, or -, before the colon", item)
		}
		numa, device.NUMA, device.HasTopology = set.String(), set, true
	}
	var out []placement.Device
	for i := range n {
		device.ID = fmt.Sprintf("%s-%d", numa, i)
		out = append(out, device)
	}
	return out, nil
}

// setPools adds the pools to the state. It returns an error if a device is on a NUMA node that the
// machine does not have, or if a pool does not have the devices in the checkpoint.
func (n *Node) setPools(pools []placement.DevicePool) error {
	snap := n.state.Snapshot()
	for _, pool := range pools {
		if err := onMachine(&pool, n.machine); err != nil {
			return err
		}
		merged, err := n.merged(&pool, &snap)
		if err != nil {
			return fmt.Errorf("--device %s: %w", pool.Resource, err)
		}
		n.state.SetPool(merged)
	}
	return nil
}

// given reports whether the spec has the devices of a resource.
func (n *Node) given(resource string) bool {
	return slices.ContainsFunc(n.spec.Pools, func(p placement.DevicePool) bool { return p.Resource == resource })
}

// merged returns the pool with the ids of the devices in the checkpoints. A held device is on the
// NUMA node that the checkpoint records. The other NUMA nodes of the pool go to the free devices in
// the order of their ids.
func (n *Node) merged(pool *placement.DevicePool, snap *placement.Snapshot) (placement.DevicePool, error) {
	held := map[string]bool{}
	for i := range snap.Pods {
		for _, c := range snap.Pods[i].Containers {
			for _, d := range c.Devices {
				for _, id := range d.IDs {
					held[id] = held[id] || d.Resource == pool.Resource
				}
			}
		}
	}
	maps.DeleteFunc(held, func(_ string, ours bool) bool { return !ours })
	at := slices.IndexFunc(snap.Devices, func(p placement.DevicePool) bool { return p.Resource == pool.Resource })
	if at < 0 {
		if id := firstStrange(held, pool.Devices); id != "" {
			return *pool, fmt.Errorf("a pod in the checkpoint holds %s, but no plugin has registered the resource: want no --device for it", id)
		}
		return *pool, nil
	}
	out := snap.Devices[at]
	out.Devices = slices.Clone(out.Devices)
	if len(out.Devices) != len(pool.Devices) {
		return out, fmt.Errorf("%d devices: want %d, as in the checkpoint", len(pool.Devices), len(out.Devices))
	}
	rest := slices.Clone(pool.Devices)
	for _, d := range out.Devices {
		if !held[d.ID] {
			continue
		}
		same := slices.IndexFunc(rest, func(r placement.Device) bool { return r.NUMA == d.NUMA })
		if same < 0 {
			return out, fmt.Errorf("too few devices on NUMA node %s: want at least those that pods in the checkpoint hold there, such as %s", cmp.Or(d.NUMA.String(), "-"), d.ID)
		}
		rest = slices.Delete(rest, same, same+1)
	}
	for i := range out.Devices {
		if d := &out.Devices[i]; !held[d.ID] {
			d.NUMA, d.HasTopology = rest[0].NUMA, rest[0].HasTopology
			rest = rest[1:]
		}
	}
	if ids := idsOf(out.Devices); firstStrange(ids, pool.Devices) == "" {
		out.Preference = pool.Preference
		return out, nil
	}
	n.note("the checkpoint does not record which free " + pool.Resource + " is on which NUMA node: they get the NUMA nodes of --device in the order of their ids")
	return out, nil
}

func idsOf(devices []placement.Device) map[string]bool {
	ids := map[string]bool{}
	for _, d := range devices {
		ids[d.ID] = true
	}
	return ids
}

// firstStrange returns the first of the ids that no device has, or "".
func firstStrange(ids map[string]bool, devices []placement.Device) string {
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if !slices.ContainsFunc(devices, func(d placement.Device) bool { return d.ID == id }) {
			return id
		}
	}
	return ""
}

func onMachine(pool *placement.DevicePool, m *topology.Machine) error {
	var has topology.NUMASet
	for i := range m.NUMANodes {
		has |= topology.NewNUMASet(m.NUMANodes[i].ID)
	}
	for _, d := range pool.Devices {
		if strange := d.NUMA &^ has; strange != 0 {
			return fmt.Errorf("--device %s: NUMA node %s: want one of the machine's NUMA nodes, %s", pool.Resource, strange, has)
		}
	}
	return nil
}
