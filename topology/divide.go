package topology

import (
	"fmt"
	"slices"
)

// Distances of the new NUMA nodes, as in the SLIT of servers with NPS or SNC. remoteDistance is
// used only if the machine has no distances.
const (
	localDistance  = 10
	nearDistance   = 12 // to another NUMA node of the package
	remoteDistance = 32 // to another package
)

// Division is the result of Divide: a machine with a changed number of NUMA nodes in each package.
type Division struct {
	// Machine is the machine with the new NUMA nodes.
	Machine *Machine

	from *Machine
	each int
	// old has, for each package, the ids of its NUMA nodes before the division.
	old [][]NUMAID
}

// Divide returns the machine with perPackage NUMA nodes in each package, as the firmware would
// report it with another NPS (AMD) or SNC (Intel) setting. If a package has at least perPackage
// level-3 caches, Divide keeps the CPUs of a cache together, otherwise only those of a core. Memory
// and huge pages are divided evenly. Divide cannot know the real NUMA nodes of devices, so it
// assigns them with Rehang.
func (m *Machine) Divide(perPackage int) (*Division, error) {
	d := &Division{from: m, each: perPackage, old: make([][]NUMAID, len(m.Packages))}
	if err := d.sort(); err != nil {
		return nil, err
	}
	out := *m
	out.NUMANodes = nil
	for i := range m.Packages {
		parts := d.parts(&m.Packages[i])
		if parts == nil {
			return nil, d.fail("the cores of package %d cannot be divided evenly", m.Packages[i].ID)
		}
		for j := range parts {
			out.NUMANodes = append(out.NUMANodes, d.node(i, j, parts[j]))
		}
	}
	out.Devices = slices.Clone(m.Devices)
	var hang []NUMAID
	for i := range out.Devices {
		if out.Devices[i].HasNUMA {
			hang = append(hang, out.Devices[i].NUMA)
		}
	}
	hang = d.Rehang(hang)
	for i := range out.Devices {
		if out.Devices[i].HasNUMA {
			out.Devices[i].NUMA, hang = hang[0], hang[1:]
		}
	}
	if err := out.Check(); err != nil {
		return nil, d.fail("%v", err)
	}
	d.Machine = &out
	return d, nil
}

func (d *Division) fail(why string, args ...any) error {
	nodes := "NUMA nodes"
	if d.each == 1 {
		nodes = "NUMA node"
	}
	return fmt.Errorf("%d %s in each package: %s", d.each, nodes, fmt.Sprintf(why, args...))
}

// sort checks the machine, and finds the NUMA nodes of each package.
func (d *Division) sort() error {
	m := d.from
	switch {
	case d.each < 1:
		return d.fail("want at least 1")
	case len(m.Packages) == 0:
		return d.fail("the machine has no known packages")
	case d.each > MaxNUMANodes/len(m.Packages):
		return d.fail("want at most %d on the whole machine, which has %d packages", MaxNUMANodes, len(m.Packages))
	}
	if err := d.sortNodes(); err != nil {
		return err
	}
	for i := range d.old {
		if len(d.old[i]) == 0 {
			return d.fail("package %d has no NUMA node: want at least one in each package", m.Packages[i].ID)
		}
	}
	return nil
}

func (d *Division) sortNodes() error {
	for i := range d.from.NUMANodes {
		n := &d.from.NUMANodes[i]
		at := slices.IndexFunc(d.from.Packages, func(p Package) bool { return n.CPUs.IsSubsetOf(&p.CPUs) })
		if n.CPUs.IsEmpty() || at < 0 {
			return d.fail("NUMA node %d is not in one package: want CPUs of exactly one package", n.ID)
		}
		d.old[at] = append(d.old[at], n.ID)
	}
	return nil
}

// parts divides the CPUs of a package. It returns nil if they cannot be divided evenly.
func (d *Division) parts(p *Package) []CPUSet {
	var groups []CPUSet
	for i := range d.from.L3s {
		if l := &d.from.L3s[i]; l.CPUs.IsSubsetOf(&p.CPUs) {
			groups = append(groups, l.CPUs)
		}
	}
	if len(groups) < d.each {
		groups = nil
		for i := range d.from.Cores {
			if c := &d.from.Cores[i]; c.CPUs.IsSubsetOf(&p.CPUs) {
				groups = append(groups, c.CPUs)
			}
		}
	}
	if len(groups) == 0 || len(groups)%d.each != 0 {
		return nil
	}
	slices.SortFunc(groups, func(a, b CPUSet) int {
		x, _ := a.Lowest()
		y, _ := b.Lowest()
		return int(x) - int(y)
	})
	out := make([]CPUSet, d.each)
	for i := range groups {
		part := i * d.each / len(groups)
		out[part] = out[part].Or(&groups[i])
	}
	return out
}

// page is the unit in bytes to which the memory of a NUMA node is rounded down.
const page = 4096

// node returns the j-th NUMA node of the i-th package.
func (d *Division) node(i, j int, cpus CPUSet) NUMANode {
	n := NUMANode{ID: NUMAID(i*d.each + j), CPUs: cpus, Distances: d.distances(i, j)}
	each, at := uint64(d.each), uint64(j)
	pools := map[uint64]uint64{}
	for _, id := range d.old[i] {
		old := d.from.NUMANode(id)
		n.MemoryBytes += old.MemoryBytes
		for _, h := range old.HugePages {
			pools[h.PageBytes] += h.Count
		}
	}
	n.MemoryBytes = n.MemoryBytes / each / page * page
	for bytes, count := range pools {
		n.HugePages = append(n.HugePages, HugePages{bytes, (count*(at+1))/each - count*at/each})
	}
	slices.SortFunc(n.HugePages, func(a, b HugePages) int { return int(int64(a.PageBytes) - int64(b.PageBytes)) })
	return n
}

// distances returns the distances of the j-th NUMA node of the i-th package.
func (d *Division) distances(i, j int) []uint32 {
	var out []uint32
	for p := range d.old {
		for k := range d.each {
			switch {
			case p == i && k == j:
				out = append(out, localDistance)
			case p == i:
				out = append(out, nearDistance)
			default:
				out = append(out, d.apart(i, p))
			}
		}
	}
	return out
}

// apart returns the distance between NUMA nodes of the i-th and the p-th package.
func (d *Division) apart(i, p int) uint32 {
	from := d.from.NUMANode(d.old[i][0])
	to := slices.IndexFunc(d.from.NUMANodes, func(n NUMANode) bool { return n.ID == d.old[p][0] })
	if to < len(from.Distances) {
		return from.Distances[to]
	}
	return remoteDistance
}

// Rehang returns the new NUMA nodes of devices. The argument hang has the old NUMA node of each
// device. If several nodes replace a NUMA node, its devices are spread over them in order. For
// example, if two nodes replace a node with four devices, the first two devices go to the first of
// the nodes.
func (d *Division) Rehang(hang []NUMAID) []NUMAID {
	all, seen := map[NUMAID]int{}, map[NUMAID]int{}
	for _, id := range hang {
		all[id]++
	}
	out := make([]NUMAID, len(hang))
	for i, id := range hang {
		first, count := d.heirs(id)
		out[i] = first + NUMAID(seen[id]*count/all[id])
		seen[id]++
	}
	return out
}

// heirs returns the NUMA nodes that replace a NUMA node: the first of them, and their number.
func (d *Division) heirs(id NUMAID) (first NUMAID, count int) {
	for i, old := range d.old {
		if at := slices.Index(old, id); at >= 0 {
			lo, hi := at*d.each/len(old), (at+1)*d.each/len(old)
			return NUMAID(i*d.each + lo), max(1, hi-lo)
		}
	}
	return 0, 1
}
