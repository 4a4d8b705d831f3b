// Package device reproduces the kubelet's device manager: its hints for a number of devices of a
// resource, and its choice of devices.
//
// NewPool compiles the devices of a plugin into a Pool, which is immutable. A Set is a subset of
// its devices. The code follows pkg/kubelet/cm/devicemanager (topology_hints.go, manager.go). If
// the kubelet's choice depends on Go's map order, Take takes the lowest ids and returns chance as
// true.
package device

import (
	"iter"
	"math/bits"
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement/hint"
)

// Device is a device of a plugin (deviceplugin/v1beta1.Device).
type Device struct {
	ID string
	// Mask has the NUMA nodes of the device's topology that have a position in the space.
	Mask hint.Mask
	// HasTopology means that the plugin gave a topology. HasNodes means that the topology names
	// NUMA nodes, even if the machine does not have them.
	HasTopology, HasNodes bool
	Healthy               bool
	// Elsewhere means that the topology names a NUMA node of the machine that has no position of
	// its own in the space.
	Elsewhere bool
	// at is the device's position in the argument of NewPool.
	at int
}

// Set is a set of devices of a pool by position. It has Pool.Words words.
type Set []uint64

// Add puts device i into the set.
func (s Set) Add(i int) { s[i/64] |= 1 << (i % 64) }

// Remove takes device i out of the set.
func (s Set) Remove(i int) { s[i/64] &^= 1 << (i % 64) }

// Has reports whether device i is in the set.
func (s Set) Has(i int) bool { return s[i/64]>>(i%64)&1 == 1 }

// Len returns the number of devices.
func (s Set) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// AndLen returns the number of devices that are in both sets.
func (s Set) AndLen(o Set) int {
	n := 0
	for i := range s {
		n += bits.OnesCount64(s[i] & o[i])
	}
	return n
}

// IsEmpty reports whether the set has no device.
func (s Set) IsEmpty() bool { return !s.Intersects(s) }

// All yields the devices in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s {
			for ; w != 0; w &= w - 1 {
				if !yield(i*64 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// Or adds the devices of o to the set.
func (s Set) Or(o Set) {
	for i := range s {
		s[i] |= o[i]
	}
}

// AndNot removes the devices of o from the set.
func (s Set) AndNot(o Set) {
	for i := range s {
		s[i] &^= o[i]
	}
}

// Intersects reports whether the sets share a device.
func (s Set) Intersects(o Set) bool {
	for i := range s {
		if s[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

// IsSubsetOf reports whether every device of s is in o.
func (s Set) IsSubsetOf(o Set) bool {
	for i := range s {
		if s[i]&^o[i] != 0 {
			return false
		}
	}
	return true
}

// class has the devices with the same NUMA nodes.
type class struct {
	mask                  hint.Mask
	hasTopology, hasNodes bool
	members               Set
	size                  int
}

// Pool has the devices of one resource.
type Pool struct {
	space   *hint.Space
	ids     []string // ascending
	healthy Set
	classes []class
	// aligned means that the topology of some device names NUMA nodes, so that the kubelet makes
	// hints.
	aligned bool
	// nodes has the NUMA nodes that hints may use.
	nodes hint.Mask
	// most[k] is the maximum number of devices, healthy or not, that have a NUMA node in a set of k
	// NUMA nodes.
	most []int
	// wide means that hints would use NUMA nodes that have no position of their own in the space.
	wide bool
	// given is the number of devices in the argument of NewPool, with duplicates. chips has the
	// data for NVIDIA's choice, or is nil.
	given int
	chips *chips
}

// Options configure a Pool.
type Options struct {
	// AllNodes means that hints use all NUMA nodes of the machine, as in kubelets before 1.36.
	// Otherwise hints use only the NUMA nodes with devices, or all if no device has a NUMA node.
	AllNodes bool
	// NVIDIA means that Take may be called with the preference NVIDIA. Points rates the connection
	// of each pair of devices (PointsOf), row by row, in the order of the devices. Points is nil if
	// the connections are not known.
	NVIDIA bool
	Points []uint32
}

// NewPool compiles a plugin's devices. If two devices have the same id, the later one counts. space
// may be nil if Hints is not called.
func NewPool(space *hint.Space, devices []Device, o Options) *Pool {
	p := &Pool{space: space, given: len(devices)}
	devices = unique(devices)
	words := (len(devices) + 63) / 64
	p.healthy = make(Set, words)
	for i, d := range devices {
		p.ids = append(p.ids, d.ID)
		if d.Healthy {
			p.healthy.Add(i)
		}
		p.nodes |= d.Mask
		p.aligned = p.aligned || d.HasNodes
		p.wide = p.wide || d.Elsewhere
		c := p.class(d, words)
		c.members.Add(i)
		c.size++
	}
	if space != nil {
		if p.nodes == 0 || o.AllNodes {
			p.nodes = space.All()
			p.wide = p.wide || space.Others() != 0
		}
		p.measure()
	}
	p.gather(words)
	if o.NVIDIA {
		p.compileChips(devices, o.Points)
	}
	return p
}

// gather moves the pool's sets into one block of memory, because in a large cluster predictions
// spend most of their time on cache misses.
func (p *Pool) gather(words int) {
	all := make(Set, words*(len(p.classes)+1))
	move := func(s *Set) {
		copy(all, *s)
		*s, all = all[:words:words], all[words:]
	}
	move(&p.healthy)
	for i := range p.classes {
		move(&p.classes[i].members)
	}
}

func unique(devices []Device) []Device {
	byID := func(a, b Device) int { return strings.Compare(a.ID, b.ID) }
	sorted := slices.Clone(devices)
	for i := range sorted {
		sorted[i].at = i
	}
	slices.Reverse(sorted)
	slices.SortStableFunc(sorted, byID)
	return slices.CompactFunc(sorted, func(a, b Device) bool { return a.ID == b.ID })
}

func (p *Pool) class(d Device, words int) *class {
	for i := range p.classes {
		c := &p.classes[i]
		if c.mask == d.Mask && c.hasTopology == d.HasTopology && c.hasNodes == d.HasNodes {
			return c
		}
	}
	p.classes = append(p.classes, class{d.Mask, d.HasTopology, d.HasNodes, make(Set, words), 0})
	return &p.classes[len(p.classes)-1]
}

func (p *Pool) measure() {
	n := p.nodes.Len()
	p.most = make([]int, n+1)
	for k := 1; k <= n; k++ {
		for _, mask := range p.space.OfSize(k) {
			if mask&^p.nodes == 0 {
				p.most[k] = max(p.most[k], p.touching(mask))
			}
		}
	}
}

// touching counts the devices, healthy or not, that have a NUMA node in the mask.
func (p *Pool) touching(mask hint.Mask) int {
	n := 0
	for i := range p.classes {
		if p.classes[i].mask&mask != 0 {
			n += p.classes[i].size
		}
	}
	return n
}

// Words returns the number of words that a Set of this pool needs.
func (p *Pool) Words() int { return len(p.healthy) }

// Len returns the number of devices.
func (p *Pool) Len() int { return len(p.ids) }

// ID returns the plugin's id of device i.
func (p *Pool) ID(i int) string { return p.ids[i] }

// Find returns the position of the device with the given id, and whether the pool has such a
// device.
func (p *Pool) Find(id string) (int, bool) { return slices.BinarySearch(p.ids, id) }

// Healthy returns the healthy devices; the caller must not change them.
func (p *Pool) Healthy() Set { return p.healthy }

// Nodes returns the NUMA nodes of the devices in s.
func (p *Pool) Nodes(s Set) (nodes hint.Mask) {
	for i := range p.classes {
		if s.Intersects(p.classes[i].members) {
			nodes |= p.classes[i].mask
		}
	}
	return nodes
}

// Touching returns how many devices of s have the NUMA node at a position in their topology.
func (p *Pool) Touching(s Set, pos int) int {
	n := 0
	for i := range p.classes {
		if p.classes[i].mask.Has(pos) {
			n += s.AndLen(p.classes[i].members)
		}
	}
	return n
}

// HealthyTouching returns how many healthy devices have a NUMA node of the mask in their topology,
// and how many of these are not in use.
func (p *Pool) HealthyTouching(inUse Set, mask hint.Mask) (all, free int) {
	for i := range p.classes {
		if p.classes[i].mask&mask == 0 {
			continue
		}
		for w, members := range p.classes[i].members {
			all += bits.OnesCount64(members & p.healthy[w])
			free += bits.OnesCount64(members & p.healthy[w] &^ inUse[w])
		}
	}
	return all, free
}

// Aligned reports whether the topology of any device names NUMA nodes, so that the kubelet makes
// hints.
func (p *Pool) Aligned() bool { return p.aligned }

// Wide reports whether hints for the devices would include NUMA nodes that have no position of
// their own in the space. Wide can return true on a machine with more than hint.MaxNodes NUMA
// nodes: if one without a position has devices, or if the kubelet makes hints over all NUMA nodes.
func (p *Pool) Wide() bool { return p.aligned && p.wide }
