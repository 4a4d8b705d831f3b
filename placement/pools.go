package placement

import (
	"encoding/binary"
	"slices"

	"github.com/berth-dev/berth/placement/device"
)

// devicePools has the latest report of each device plugin, ascending by resource.
type devicePools []devicePool

// devicePool is the latest report of a plugin, and the devices that containers hold.
type devicePool struct {
	resource string
	// registered is false if pods have devices of the resource, but its plugin has not registered
	// since the kubelet restarted.
	registered bool
	source     DevicePool
	pool       *device.Pool
	inUse      device.Set
}

// copyFrom copies from into ps, and reuses the memory of ps.
func (ps *devicePools) copyFrom(from devicePools) {
	pools := slices.Grow((*ps)[:0], len(from))[:len(from)]
	for i := range from {
		inUse := append(pools[i].inUse[:0], from[i].inUse...)
		pools[i] = from[i]
		pools[i].inUse = inUse
	}
	*ps = pools
}

// index returns the position of a resource, or -1 if the device manager does not know the resource.
func (ps devicePools) index(resource string) int {
	for i := range ps {
		if ps[i].resource == resource {
			return i
		}
	}
	return -1
}

func (ps devicePools) use(a *DeviceAllocation) { ps.mark(a, device.Set.Add) }

func (ps devicePools) release(a *DeviceAllocation) { ps.mark(a, device.Set.Remove) }

func (ps devicePools) mark(a *DeviceAllocation, as func(inUse device.Set, i int)) {
	p := ps.index(a.Resource)
	if p < 0 {
		return
	}
	for _, id := range a.IDs {
		if i, ok := ps[p].pool.Find(id); ok {
			as(ps[p].inUse, i)
		}
	}
}

func (ps devicePools) anyInUse(a *DeviceAllocation) bool {
	p := ps.index(a.Resource)
	return p >= 0 && slices.ContainsFunc(a.IDs, func(id string) bool {
		i, ok := ps[p].pool.Find(id)
		return ok && ps[p].inUse.Has(i)
	})
}

// equal compares the pools of registered plugins. It ignores the devices in use, because they
// follow from the pods.
func (ps devicePools) equal(o devicePools) bool {
	i, j := 0, 0
	for {
		for i < len(ps) && !ps[i].registered {
			i++
		}
		for j < len(o) && !o[j].registered {
			j++
		}
		if i == len(ps) || j == len(o) {
			return i == len(ps) && j == len(o)
		}
		a, b := &ps[i].source, &o[j].source
		if a.Resource != b.Resource || a.Preference != b.Preference || !slices.Equal(a.Devices, b.Devices) || !slices.Equal(a.Points, b.Points) {
			return false
		}
		i++
		j++
	}
}

// append appends to b everything in the pool that a verdict depends on.
func (p *devicePool) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(p.resource)))
	b = append(b, p.resource...)
	b = append(b, flag(p.registered), byte(p.source.Preference))
	ordered := p.ordered()
	b = append(b, flag(ordered))
	b = binary.AppendUvarint(b, uint64(len(p.source.Devices)))
	for i := range p.source.Devices {
		d := &p.source.Devices[i]
		b = append(b, flag(d.HasTopology)|flag(d.Unhealthy)<<1)
		b = binary.LittleEndian.AppendUint64(b, uint64(d.NUMA))
		if !ordered {
			b = binary.AppendUvarint(b, uint64(len(d.ID)))
			b = append(b, d.ID...)
		}
	}
	b = p.pool.AppendChips(b)
	for _, w := range p.inUse {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// ordered reports whether the devices are in the order of their ids, without duplicates.
func (p *devicePool) ordered() bool {
	for i := 1; i < len(p.source.Devices); i++ {
		if p.source.Devices[i].ID <= p.source.Devices[i-1].ID {
			return false
		}
	}
	return true
}

func flag(v bool) byte {
	if v {
		return 1
	}
	return 0
}
