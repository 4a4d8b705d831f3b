package device

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"

	"github.com/berth-dev/berth/topology"
)

// NVIDIA publishes how its device plugin chooses among devices.
//
// Whole GPUs (go-gpuallocator, gpuallocator/besteffort_policy.go): the plugin divides the available
// GPUs into sets of the requested size, and one smaller set with the remaining GPUs. The plugin
// considers only divisions in which one set has all GPUs that the result must include. From these,
// the plugin chooses the division with the most points. From this division, it takes the set of the
// requested size with the most points. The points of a set are the sum over its pairs of GPUs
// (PointsOf).
//
// Shared GPUs and MIG devices (k8s-device-plugin, internal/rm/allocate.go): the plugin takes one
// device after the other, each from the GPU with the fewest devices in use. Since v0.20 its policy
// sharedDevicesAllocationPolicy may be packed instead, which is not predicted.
//
// The kubelet passes the ids in the order of a Go map, and the plugin takes the first of several
// equal choices. So the choice is random between two equally connected pairs of GPUs, or between
// several single GPUs.

const (
	// maxGPUs is the maximum number of available GPUs for a search. maxPoints is the maximum number
	// of devices for which PointsOf computes points.
	maxGPUs   = 16
	maxPoints = 64
	// maxDivisions is the maximum number of divisions for a search. Choices among up to 10 GPUs,
	// and the choice of 8 among 16 GPUs, have fewer divisions.
	maxDivisions = 7000
	// maxChips is the maximum number of GPUs for which distribute predicts the plugin's choice.
	maxChips = 256
)

// PointsOf returns a matrix with the points of each pair of devices, row by row, in the order of
// addresses. As in NVIDIA's plugin, a pair gets 10 to 50 points for its nearness on PCIe, and 100
// points for each NVLink. PointsOf returns nil if the machine lacks one of the devices, or if there
// are more than maxPoints devices.
//
// The plugin ignores links through NVSwitch. All GPUs of a machine have the same number of links
// through NVSwitch, so these links make no difference.
func PointsOf(m *topology.Machine, addresses []string) []uint32 {
	n := len(addresses)
	if n > maxPoints {
		return nil
	}
	near, ok := m.Nearness(addresses)
	if !ok {
		return nil
	}
	out := make([]uint32, n*n)
	for i := range near {
		out[i] = 10 * uint32(near[i])
	}
	for _, l := range m.Links {
		a, b := slices.Index(addresses, l.A), slices.Index(addresses, l.B)
		if l.Kind == topology.NVLink && a >= 0 && b >= 0 {
			out[a*n+b] += 100 * uint32(l.Count)
			out[b*n+a] += 100 * uint32(l.Count)
		}
	}
	return out
}

// chips has the GPU of each device of a pool. A device may be only a part of a GPU.
type chips struct {
	of    []uint16 // by device
	total []uint16 // by GPU, the number of its devices
	// parts are the devices whose ids show that they are parts of a GPU.
	parts Set
	// mig means that some device is a MIG device. If it is set, the plugin ignores connections.
	mig bool
	// points has the points of each pair of devices, row by row, or is nil if they are not known.
	points []uint32
}

// compileChips reads device ids in the formats of NVIDIA's plugin: "GPU-...", "MIG-...",
// "GPU-...::3".
func (p *Pool) compileChips(devices []Device, points []uint32) {
	c := &chips{of: make([]uint16, len(devices)), parts: make(Set, p.Words())}
	index := map[string]uint16{}
	for i, d := range devices {
		gpu, _, isPart := strings.Cut(d.ID, "::")
		if isPart {
			c.parts.Add(i)
		}
		c.mig = c.mig || strings.HasPrefix(d.ID, "MIG-")
		at, known := index[gpu]
		if !known {
			at = uint16(len(c.total))
			index[gpu] = at
			c.total = append(c.total, 0)
		}
		c.of[i] = at
		c.total[at]++
	}
	if n := p.given; points != nil && len(points) == n*n && len(devices) == n {
		c.points = make([]uint32, n*n)
		for i := range devices {
			for j := range devices {
				c.points[i*n+j] = points[devices[i].at*n+devices[j].at]
			}
		}
	}
	p.chips = c
}

// AppendChips appends to b everything on which NVIDIA's choice depends, except the order of the
// ids. It appends nothing if the pool is not compiled for NVIDIA (Options.NVIDIA).
func (p *Pool) AppendChips(b []byte) []byte {
	c := p.chips
	if c == nil {
		return b
	}
	b = append(b, flag(c.mig)|flag(c.points != nil)<<1)
	for i, gpu := range c.of {
		b = append(b, flag(c.parts.Has(i)))
		b = binary.LittleEndian.AppendUint16(b, gpu)
	}
	for _, n := range c.points {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

func flag(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// takeNVIDIA adds the needed number of devices to out, as NVIDIA's plugin would. The devices that
// are already in out count as devices that the result must include.
func (p *Pool) takeNVIDIA(need int, from func(int) uint64, out Set) (chance bool) {
	c := p.chips
	if c == nil {
		fill(out, need, from)
		return true
	}
	inParts := c.mig
	for w := range out {
		inParts = inParts || (from(w)|out[w])&c.parts[w] != 0
	}
	if inParts {
		return p.distribute(need, from, out)
	}
	var s division
	if !s.begin(p, need, from, out) {
		fill(out, need, from)
		return true
	}
	s.divide(s.all, s.over == 0, partial{})
	for w := s.choice; w != 0; w &= w - 1 {
		out.Add(int(s.at[bits.TrailingZeros16(w)]))
	}
	return s.chance
}

// distribute takes devices one by one, each from the GPU with the fewest devices in use.
func (p *Pool) distribute(need int, from func(int) uint64, out Set) (chance bool) {
	c := p.chips
	var free, used [maxChips]uint16
	if len(c.total) > maxChips {
		fill(out, need, from)
		return true
	}
	for w := range out {
		for m := from(w) &^ out[w]; m != 0; m &= m - 1 {
			free[c.of[w*64+bits.TrailingZeros64(m)]]++
		}
	}
	for g, n := range c.total {
		used[g] = n - free[g]
	}
	level := uint16(0)
	take := [maxChips]uint16{}
	for range need {
		best := -1
		for g := range c.total {
			if free[g] > 0 && (best < 0 || used[g] < used[best]) {
				best = g
			}
		}
		level = used[best]
		free[best]--
		used[best]++
		take[best]++
	}
	for g := range c.total {
		// The plugin makes a random choice if another GPU, or another part of this GPU, is equally
		// good.
		chance = chance || free[g] > 0 && (used[g] == level || take[g] > 0)
	}
	for w := range out {
		for m := from(w) &^ out[w]; m != 0; m &= m - 1 {
			if g := c.of[w*64+bits.TrailingZeros64(m)]; take[g] > 0 {
				take[g]--
				out[w] |= m & -m
			}
		}
	}
	return chance
}

// division searches for the best division of GPUs into sets.
type division struct {
	points [maxGPUs][maxGPUs]uint32
	at     [maxGPUs]uint16 // by GPU, its device
	all    uint16
	must   uint16
	size   int // the size of a full set
	over   int // the size of the smaller set; 0 if there is none
	// best is the highest number of points of a division so far, and choice the set that the plugin
	// would take from this division. chance means that the plugin could also take a different set.
	best   uint32
	choice uint16
	chance bool
}

// partial is an incomplete division: its points (sum), the best set that the plugin can take
// (choice, with top points), and the points of the smaller set (small). tied means that another set
// has top points too.
type partial struct {
	sum, top, small uint32
	choice          uint16
	tied            bool
}

// begin reads the candidates. It returns false if there are too many candidates or divisions, or if
// the connections are needed and not known.
func (s *division) begin(p *Pool, need int, from func(int) uint64, out Set) bool {
	n, held := 0, 0
	for w := range out {
		for m := from(w) | out[w]; m != 0; m &= m - 1 {
			if n == maxGPUs {
				return false
			}
			s.at[n] = uint16(w*64 + bits.TrailingZeros64(m))
			if out[w]&m&-m != 0 {
				s.must |= 1 << n
				held++
			}
			n++
		}
	}
	s.all, s.size = 1<<n-1, held+need
	s.over = n % s.size
	if s.size == 1 {
		s.over = 0
	} else if p.chips.points == nil || divisions(n, s.size) > maxDivisions {
		return false
	}
	for i := range n {
		for j := range n {
			if s.size > 1 {
				s.points[i][j] = p.chips.points[int(s.at[i])*len(p.ids)+int(s.at[j])]
			}
		}
	}
	return true
}

// divisions returns the number of ways to divide n GPUs into sets of the given size and one set
// with the remaining GPUs.
func divisions(n, size int) int {
	ways := 1
	for n >= size && ways <= maxDivisions {
		if over := n % size; over > 0 {
			ways *= choose(n, over)
			n -= over
		}
		ways *= choose(n-1, size-1)
		n -= size
	}
	return ways
}

func choose(n, k int) int {
	c := 1
	for i := range k {
		c = c * (n - i) / (i + 1)
	}
	return c
}

// divide tries all divisions of the GPUs in left. Each step adds a set that contains the first of
// these GPUs. noSmall means that the division already has its smaller set, or needs none.
func (s *division) divide(left uint16, noSmall bool, d partial) {
	if left == 0 {
		s.compare(&d)
		return
	}
	first := left & -left
	rest := left &^ first
	if !noSmall {
		s.grow(first, rest, rest, s.over-1, 0, true, true, d)
	}
	s.grow(first, rest, rest, s.size-1, 0, false, noSmall, d)
}

// grow adds k more candidates to a set, and then divides the rest.
func (s *division) grow(set, left, candidates uint16, k int, points uint32, isSmall, noSmall bool, d partial) {
	if k == 0 {
		d.add(set, points, isSmall, s.must)
		s.divide(left, noSmall, d)
		return
	}
	for ; bits.OnesCount16(candidates) >= k; candidates &= candidates - 1 {
		i := bits.TrailingZeros16(candidates)
		more := points
		for w := set; w != 0; w &= w - 1 {
			more += s.points[i][bits.TrailingZeros16(w)]
		}
		s.grow(set|1<<i, left&^(1<<i), candidates&(candidates-1), k-1, more, isSmall, noSmall, d)
	}
}

// add adds a set to the division. The plugin can take only a set of full size that contains all
// GPUs in must.
func (d *partial) add(set uint16, points uint32, isSmall bool, must uint16) {
	d.sum += points
	switch {
	case isSmall:
		d.small = points
	case set&must != must:
	case d.choice == 0 || points > d.top:
		d.choice, d.top, d.tied = set, points, false
	case points == d.top:
		d.tied = true
	}
}

// compare stores a complete division if it is the best so far. If the smaller set has at least as
// many points as the best set, the plugin may take the smaller set and fail, so chance is set.
func (s *division) compare(d *partial) {
	chance := d.tied || s.must == 0 && s.over > 0 && d.small >= d.top
	switch {
	case d.choice == 0 || s.choice != 0 && d.sum < s.best:
	case s.choice == 0 || d.sum > s.best:
		s.best, s.choice, s.chance = d.sum, d.choice, chance
	default:
		s.chance = s.chance || chance || d.choice != s.choice
	}
}
