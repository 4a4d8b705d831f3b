package cpu

import (
	"math"
	"math/bits"

	"github.com/berth-dev/berth/placement/release"
	"github.com/berth-dev/berth/topology"
)

// maxTrials is the maximum number of combinations of NUMA nodes that the distributor tries. The
// kubelet has no limit. The kubelet needs some tens of microseconds for each combination, so
// maxTrials combinations would take about half a minute, during which it holds its lock.
const maxTrials = 1 << 20

// distributor is the state of one run of the kubelet's takeByTopologyNUMADistributed.
type distributor struct {
	t      *Topology
	n, g   int // n is the number of CPUs to take, and g the number of CPUs in a portion
	free   words
	result words
	need   int
	avail  words // the CPUs that a call of pack may use

	trials   int
	nodes    []uint8 // the NUMA nodes with free CPUs, ascending
	nodesBuf [topology.MaxNUMANodes]uint8
	freeOf   [topology.MaxNUMANodes]int // by index of NUMA node
	after    [topology.MaxNUMANodes]int // freeOf after the assignment
	saved    [topology.MaxCPUs]int
	total    int // the sum of freeOf, minus n

	// combos has the combinations of the NUMA nodes with free CPUs, in the kubelet's order. A NUMA
	// node that spans sockets can occur twice. subs has the combinations of the NUMA nodes in the
	// current combination that still have a portion of g CPUs.
	combos, subs combinations
	best         choice
	local        kept // the best combination of subs, from which the remainder is taken
}

// score is the kubelet's balance score, the standard deviation of the numbers of free CPUs that
// would be left on the NUMA nodes. In one run, all compared combinations have the same number of
// NUMA nodes and the same sum of CPUs, so the sum of squares (squares) gives the same order. sd is
// the kubelet's rounded value, which shows whether two scores differ for the kubelet.
type score struct {
	squares int
	sd      float64
}

var worst = score{math.MaxInt, math.MaxFloat64}

// kept is the best combination so far. The kubelet remembers a slice whose array later combinations
// still write to (kubernetes#141237).
type kept struct {
	score score
	nodes []uint8 // nil means that there is no combination yet
	array int     // the identity of the backing array that nodes would have in the kubelet
	buf   [topology.MaxCPUs]uint8
}

func (k *kept) reset() { k.score, k.nodes, k.array = worst, nil, 0 }

func (k *kept) keep(s score, c *combinations) {
	k.score, k.array = s, c.array
	k.nodes = append(k.buf[:0], c.chosen...)
}

// overwrite changes the kept nodes as the kubelet does when it visits another combination in the
// same array.
func (k *kept) overwrite(c *combinations) {
	if k.nodes != nil && k.array == c.array {
		copy(k.nodes, c.chosen)
	}
}

// choice is the best combination of NUMA nodes so far. rest has the NUMA nodes that provide the
// remainder: the CPUs that are missing after every NUMA node of the combination gave the same
// number (evenShare).
type choice struct {
	kept
	oneSocket bool
	rest      []uint8
	restBuf   [topology.MaxCPUs]uint8
}

// distribute reproduces the kubelet's takeByTopologyNUMADistributed.
func (s *scratch) distribute(t *Topology, avail *words, n int) error {
	g := 1
	if t.opts.FullPhysicalCPUsOnly {
		g = t.cores.average
	}
	if n%g != 0 {
		return s.pack(t, avail, n, false)
	}
	if more, err := s.begin(t, avail, n); !more {
		return err
	}
	d := &s.dist
	d.begin(&s.packer, n, g)
	for k, last := d.width(); k <= last; k++ {
		if err := d.search(k); err != nil {
			return err
		}
		if d.best.nodes != nil {
			err := d.carryOut(&s.packer)
			s.result = d.result
			return err
		}
	}
	return s.pack(t, avail, n, false)
}

// begin reads the free CPUs of each NUMA node from a packer after packer.begin.
func (d *distributor) begin(p *packer, n, g int) {
	d.t, d.n, d.g, d.need, d.trials = p.t, n, g, n, 0
	d.free, d.result = p.free, words{}
	d.nodes, d.total = d.nodesBuf[:0], -n
	d.combos.clear()
	for _, e := range p.numaOrder() {
		d.combos.add(uint8(e.index()))
		d.freeOf[e.index()] = e.free()
	}
	for i := range d.t.numa.groups {
		if overlaps(d.t.numa.groups[i].pieces, &d.free) {
			d.nodes = append(d.nodes, uint8(i))
			d.total += d.freeOf[i]
		}
	}
}

// width reproduces the kubelet's rangeNUMANodesNeededToSatisfy.
func (d *distributor) width() (least, most int) {
	perNode := ceilDiv(ceilDiv(d.t.all.Len(), d.g), len(d.t.numa.groups))
	portions := ceilDiv(d.n, d.g)
	return ceilDiv(portions, perNode), min(portions, len(d.nodes))
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// search finds the best combination of k NUMA nodes. If none has enough CPUs, d.best.nodes stays
// nil.
func (d *distributor) search(k int) error {
	d.best.reset()
	d.best.oneSocket = false
	for d.combos.start(k); d.combos.next(); {
		d.combos.load()
		d.best.overwrite(&d.combos)
		if d.best.score.sd == 0 && (!d.socketwise() || d.best.oneSocket) {
			return nil
		}
		if err := d.try(); err != nil {
			return err
		}
	}
	return nil
}

// socketwise reports whether align-by-socket affects distribution, as it does since 1.37.
func (d *distributor) socketwise() bool {
	return d.t.opts.AlignBySocket && d.t.opts.Version >= release.V137
}

// try scores a combination of NUMA nodes and remembers it if it is the best.
func (d *distributor) try() error {
	if d.trials++; d.trials > maxTrials {
		return ErrTooComplex
	}
	even, ok := d.evenShare()
	if !ok {
		return nil
	}
	for _, i := range d.nodes {
		d.after[i] = d.freeOf[i]
	}
	for _, i := range d.combos.chosen {
		d.after[i] -= even
	}
	if err := d.bestRemainder(d.n - even*d.combos.k); err != nil {
		return err
	}
	// The kubelet computes this with CPUDetails.AreNUMANodesInSameSocket.
	oneSocket := d.socketwise() && d.t.socketCount(d.combos.chosen) <= 1
	better := d.local.score.sd < d.best.score.sd
	if oneSocket != d.best.oneSocket {
		better = oneSocket
	}
	if better {
		d.best.keep(d.local.score, &d.combos)
		d.best.oneSocket = oneSocket
		d.best.rest = append(d.best.restBuf[:0], d.local.nodes...)
	}
	return nil
}

// evenShare returns the number of CPUs that each chosen NUMA node gives before the remainder is
// taken. It returns false if the combination has too few CPUs.
func (d *distributor) evenShare() (share int, ok bool) {
	free, portions := 0, 0
	var seen uint64
	for _, i := range d.combos.chosen {
		if seen>>i&1 == 0 {
			free += d.freeOf[i]
		}
		seen |= 1 << i
		portions += d.freeOf[i] / d.g
	}
	if free < d.n || portions*d.g < d.n {
		return 0, false
	}
	share = d.n / d.combos.k / d.g * d.g
	for _, i := range d.combos.chosen {
		if d.socketwise() {
			share = min(share, d.freeOf[i]/d.g*d.g)
		} else if d.freeOf[i] < share {
			return 0, false
		}
	}
	return share, true
}

// bestRemainder fills d.local with the best NUMA nodes from which to take the remainder, given
// d.after.
func (d *distributor) bestRemainder(left int) error {
	d.local.reset()
	if left == 0 {
		d.local.score = d.scoreOf(d.squares())
		return nil
	}
	d.subs.clear()
	for _, i := range d.combos.chosen {
		if d.after[i] >= d.g {
			d.subs.add(i)
		}
	}
	before := d.squares()
	for k := len(d.subs.items); left > 0 && k >= 1; k-- {
		if err := d.trySubsets(k, left, before); err != nil {
			return err
		}
		// The kubelet uses another backing array for the next size, so later subsets do not
		// overwrite the kept one (see kept). No array has the number -1.
		d.local.array = -1
	}
	return nil
}

func (d *distributor) trySubsets(k, left, squares int) error {
	d.subs.start(k)
	givers := d.givers(k, left)
	for d.subs.next() {
		if givers > 0 && d.subs.skip(givers) && k < len(d.subs.items) {
			continue
		}
		d.subs.load()
		d.local.overwrite(&d.subs)
		if err := d.trySubset(left, squares); err != nil {
			return err
		}
	}
	return nil
}

// givers returns how many NUMA nodes of a k-subset give a portion of the remainder. These NUMA
// nodes come first in the subset. The others do not affect the result, even if the kubelet
// overwrites them. givers returns 0 if the number is not known in advance.
func (d *distributor) givers(k, left int) int {
	n := left / d.g
	if n > k || n > d.subs.fork+1 || !d.t.regular {
		return 0
	}
	return n
}

// trySubset takes the remainder portion by portion from the NUMA nodes of a subset, and stores the
// subset if it is the best.
func (d *distributor) trySubset(left, squares int) error {
	if d.trials++; d.trials > maxTrials {
		return ErrTooComplex
	}
	sum := 0
	for j, i := range d.subs.chosen {
		d.saved[j] = d.after[i]
		sum += d.after[i]
	}
	if sum < left {
		return nil
	}
	squares, ok := d.byTurns(left, squares)
	if !ok {
		return ErrWouldHang
	}
	if squares < d.local.score.squares {
		if sc := d.scoreOf(squares); sc.sd < d.local.score.sd {
			d.local.keep(sc, &d.subs)
		}
	}
	for j, i := range d.subs.chosen {
		d.after[i] = d.saved[j]
	}
	return nil
}

// byTurns takes the remaining CPUs (left) from d.after, a portion from each NUMA node of the subset
// in turn, and updates the sum of squares. It returns false if the kubelet's loop would never end,
// because the NUMA nodes have enough CPUs but not enough portions.
func (d *distributor) byTurns(left, squares int) (int, bool) {
	for left > 0 {
		stuck := true
		for _, i := range d.subs.chosen {
			if left == 0 {
				break
			}
			x := d.after[i]
			if x < d.g {
				continue
			}
			stuck = false
			d.after[i] = x - d.g
			squares += (x-d.g)*(x-d.g) - x*x
			left -= d.g
		}
		if stuck {
			return 0, false
		}
	}
	return squares, true
}

func (d *distributor) squares() int {
	sum := 0
	for _, i := range d.nodes {
		sum += d.after[i] * d.after[i]
	}
	return sum
}

// scoreOf returns the kubelet's standardDeviation of d.after. The kubelet rounds the mean and the
// result to three decimals.
func (d *distributor) scoreOf(squares int) score {
	n := float64(len(d.nodes))
	mean := thousandths(float64(d.total) / n)
	sum := 0.0
	for _, i := range d.nodes {
		diff := float64(d.after[i]) - mean
		sum += float64(diff * diff)
	}
	return score{squares, thousandths(math.Sqrt(sum / n))}
}

func thousandths(x float64) float64 { return math.Round(x*1000) / 1000 }

// carryOut takes the CPUs from the chosen NUMA nodes. As in the kubelet, it ignores failures to
// pack. It detects them at the end by the number of CPUs.
func (d *distributor) carryOut(p *packer) error {
	even := d.n / len(d.best.nodes) / d.g * d.g
	if d.t.opts.Version >= release.V137 {
		for _, i := range d.best.nodes {
			even = min(even, count(d.t.numa.groups[i].pieces, &d.free)/d.g*d.g)
		}
	}
	for _, i := range d.best.nodes {
		d.packFrom(p, i, even)
	}
	for left := d.n - even*len(d.best.nodes); left > 0; {
		before := left
		for _, i := range d.best.rest {
			if left == 0 {
				break
			}
			if count(d.t.numa.groups[i].pieces, &d.free) < d.g {
				continue
			}
			d.packFrom(p, i, d.g)
			left -= d.g
		}
		if left == before {
			return ErrWouldHang
		}
	}
	if d.need != 0 {
		return ErrAccounting
	}
	return nil
}

// packFrom packs n CPUs on one NUMA node, and moves them from d.free to d.result. If packing fails,
// it does nothing.
func (d *distributor) packFrom(p *packer, node uint8, n int) {
	d.avail = words{}
	for _, part := range d.t.numa.groups[node].pieces {
		d.avail[part.word] = part.mask & d.free[part.word]
	}
	if p.pack(d.t, &d.avail, n, false) != nil {
		return
	}
	for i := range d.t.words {
		d.need -= bits.OnesCount64(p.result[i])
		d.result[i] |= p.result[i]
		d.free[i] &^= d.result[i]
	}
}

// combinations iterates over the combinations of k items in the order of the kubelet's
// iterateCombinations. array identifies the backing array that the kubelet would use for the
// current combination.
type combinations struct {
	items, chosen       []uint8 // chosen is the combination that load has copied
	itemsBuf, chosenBuf [topology.MaxCPUs]uint8

	n, k int // len(items), len(chosen)
	// fork is the last position whose append makes Go allocate a new array (capacities 1, 2, 4, 8,
	// ...). The kubelet writes combinations with equal items up to this position to the same array.
	fork  int
	array int
	begun bool
	pos   [topology.MaxCPUs]uint16
}

func (c *combinations) clear() { c.items = c.itemsBuf[:0] }

func (c *combinations) add(item uint8) { c.items = append(c.items, item) }

// start begins an iteration over the combinations of k items. The first call of next moves to the
// first combination.
func (c *combinations) start(k int) {
	c.n, c.k, c.begun, c.array, c.fork = len(c.items), k, false, 0, 0
	c.chosen = c.chosenBuf[:k]
	if k > 1 {
		c.fork = 1 << (bits.Len(uint(k-1)) - 1)
	}
}

// next advances to the next combination, and returns false if there is none.
func (c *combinations) next() bool {
	i := c.k - 1
	if !c.begun {
		c.begun = true
		if c.k < 1 || c.k > c.n {
			return false
		}
		for j := range c.k {
			c.pos[j] = uint16(j)
		}
		return true
	}
	for i >= 0 && int(c.pos[i]) == c.n-c.k+i {
		i--
	}
	if i < 0 {
		return false
	}
	c.pos[i]++
	for j := i + 1; j < c.k; j++ {
		c.pos[j] = c.pos[j-1] + 1
	}
	if i <= c.fork {
		c.array++
	}
	return true
}

func (c *combinations) load() {
	for j := range c.chosen {
		c.chosen[j] = c.items[c.pos[j]]
	}
}

// skip moves to the last combination with the same first m positions. It returns true if a
// combination of more items can begin with the same positions.
func (c *combinations) skip(m int) bool {
	for j := m; j < c.k; j++ {
		c.pos[j] = uint16(c.n - c.k + j)
	}
	return int(c.pos[m-1]) < c.n-c.k+m-1
}
