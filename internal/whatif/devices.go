package whatif

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

const maxPool = 4096

// ParsePool parses RESOURCE=NUMA:COUNT[,NUMA:COUNT...]. NUMA is the number of a NUMA node, or "-"
// for devices without one. The device ids are NUMA-INDEX, such as "0-3". Devices are assigned in
// the lexical order of their ids.
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
		if err != nil || set.Len() != 1 {
			return nil, fmt.Errorf("%q: want a NUMA node's number, or -, before the colon", item)
		}
		device.NUMA, device.HasTopology = set, true
	}
	var out []placement.Device
	for i := range n {
		device.ID = fmt.Sprintf("%s-%d", numa, i)
		out = append(out, device)
	}
	return out, nil
}

// setPools adds the pools to the state. It returns an error if a device is on a NUMA node that the
// machine does not have.
func (n *Node) setPools(pools []placement.DevicePool) error {
	for _, pool := range pools {
		if err := onMachine(&pool, n.machine); err != nil {
			return err
		}
		n.state.SetPool(pool)
	}
	return nil
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
