package lscpu

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/topology"
)

type reader struct {
	fields fields
	// threads is the number of threads per core; cores is the number of cores per socket.
	threads, cores, sockets int
	online, offline         topology.CPUSet
	// nodes are the NUMA nodes, ascending by id.
	nodes []inOne
	// perSocket has the CPUs of each socket. perCore has the CPUs of each core, by socket.
	perSocket []topology.CPUSet
	perCore   [][]topology.CPUSet
	caches    []topology.CPUSet
}

// capture describes inputs with the information that lscpu lacks.
const capture = "the output of lscpu -p, or a capture (berth topology --help), because lscpu without options does not show "

func (r *reader) readCounts() (err error) {
	if _, ok := r.fields[books]; ok { // on s390
		return r.fields.wrong(books, "%swhich CPUs a book has", capture)
	}
	if r.threads, err = r.fields.number(threads); err != nil {
		return err
	}
	perSocket, count := cores, sockets
	if at, ok := r.fields[sockets]; !ok || at.value == "-" { // on Arm without ACPI's table of the topology
		if _, ok := r.fields[clusters]; ok {
			perSocket, count = clusterCores, clusters
		}
	}
	if r.cores, err = r.fields.number(perSocket); err != nil {
		return err
	}
	r.sockets, err = r.fields.number(count)
	return err
}

// readCPUs reads the ids of the CPUs, and compares their number with the counts.
func (r *reader) readCPUs() (err error) {
	if _, ok := r.fields[online]; !ok {
		return &Error{Field: online, Want: "the output of LC_ALL=C lscpu, without -x"}
	}
	all, err := r.fields.number(cpus)
	if err != nil {
		return err
	}
	if r.online, err = r.fields.list(online); err != nil {
		return err
	}
	if r.offline, err = r.fields.list(offline); err != nil {
		return err
	}
	on, off := r.online.Len(), r.offline.Len()
	if r.online.Intersects(&r.offline) || on+off != all {
		return r.fields.wrong(cpus, "the number of CPUs in %s and %s: %d", online, offline, on+off)
	}
	if counted := r.threads * r.cores * r.sockets; counted != on {
		return r.fields.wrong(online, "%d CPUs (sockets: %d; cores of a socket: %d; threads of a core: %d); if cores differ or CPUs are offline: %swhich CPUs a core has", counted, r.sockets, r.cores, r.threads, capture)
	}
	return nil
}

// maxNUMAID is the highest id of a NUMA node in a machine string.
const maxNUMAID = 65535

// nodeField matches the name of the field with a NUMA node's CPUs.
var nodeField = regexp.MustCompile(`^NUMA node([0-9]+) CPU\(s\)$`)

// readNodes reads the NUMA nodes. For a kernel without NUMA, there is one node with all CPUs.
func (r *reader) readNodes() error {
	var seen topology.CPUSet
	for name, at := range r.fields {
		m := nodeField.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		id, err := strconv.Atoi(m[1])
		if err != nil || id > maxNUMAID {
			return r.fields.wrong(name, "an id from 0 to %d", maxNUMAID)
		}
		list, err := r.fields.list(name)
		if err != nil {
			return err
		}
		if list = list.And(&r.online); list.IsEmpty() && at.value == "-" {
			continue
		}
		r.nodes = append(r.nodes, inOne{id: id, cpus: list})
	}
	slices.SortFunc(r.nodes, func(a, b inOne) int { return cmp.Compare(a.id, b.id) })
	for _, n := range r.nodes {
		name := fmt.Sprintf("NUMA node%d CPU(s)", n.id)
		if n.cpus.Intersects(&seen) {
			return r.fields.wrong(name, "CPUs that no other NUMA node has")
		}
		seen = seen.Or(&n.cpus)
	}
	if _, ok := r.fields[nodes]; ok {
		if count, err := r.fields.number(nodes); err != nil || count != len(r.nodes) {
			return r.fields.wrong(nodes, "the number of the fields NUMA nodeN CPU(s): %d", len(r.nodes))
		}
	}
	if len(r.nodes) == 0 {
		r.nodes, seen = []inOne{{cpus: r.online}}, r.online
	}
	if seen != r.online {
		return r.fields.wrong(online, "exactly the CPUs of the NUMA nodes: %s", seen)
	}
	return nil
}

// findSockets assigns the CPUs to sockets. It assumes that the NUMA nodes of a socket have
// consecutive ids. On some machines this is wrong: Linux numbers the nodes of the sockets
// alternately, so that nodes 0 and 2 are in the first socket. So if a socket has several NUMA
// nodes, findSockets returns an error unless the CPUs are also numbered NUMA node by NUMA node. A
// hypervisor often gives each CPU its own socket. NUMA nodes then span sockets, and only one result
// is possible.
func (r *reader) findSockets() error {
	size := r.cores * r.threads
	if size == 1 {
		for _, n := range r.nodes {
			for cpu := range n.cpus.All() {
				r.perSocket = append(r.perSocket, topology.NewCPUSet(cpu))
			}
		}
		return nil
	}
	if n := r.interleaved(size); n != nil {
		return r.fields.wrong(fmt.Sprintf("NUMA node%d CPU(s)", n.id), "%swhich NUMA nodes a socket has if, as here, the CPU ids do not follow the order of the NUMA nodes", capture)
	}
	var socket topology.CPUSet
	for _, n := range r.nodes {
		socket = socket.Or(&n.cpus)
		switch have := socket.Len(); {
		case have == size:
			r.perSocket = append(r.perSocket, socket)
			socket = topology.CPUSet{}
		case have > size && len(r.nodes) == 1:
			return r.fields.wrong(sockets, "1, because there is only one NUMA node; if there are more sockets: %swhich CPUs a socket has", capture)
		case have > size:
			return r.fields.wrong(fmt.Sprintf("NUMA node%d CPU(s)", n.id), "NUMA nodes that fill each socket of %d CPUs exactly. If a NUMA node spans sockets, give %swhich CPUs a socket has", size, capture)
		}
	}
	return nil // the numbers of threads and the NUMA nodes both add up to the number of CPUs
}

// interleaved returns the first NUMA node whose CPUs are not numbered in a block after those of the
// earlier NUMA nodes. It looks only at the first threads of the cores, and skips offline CPUs. The
// argument size is the number of CPUs of a socket. The result is nil if there is no such node, if
// there is only one socket, or if no node is smaller than a socket.
func (r *reader) interleaved(size int) *inOne {
	if r.sockets < 2 || !slices.ContainsFunc(r.nodes, func(n inOne) bool { return !n.cpus.IsEmpty() && n.cpus.Len() < size }) {
		return nil
	}
	position := map[topology.CPUID]int{}
	for cpu := range r.online.All() {
		position[cpu] = len(position)
	}
	next := 0
	for i := range r.nodes {
		n := &r.nodes[i]
		firsts, found := n.cpus.Len()/r.threads, 0
		for cpu := range n.cpus.All() {
			if found++; found > firsts {
				break
			}
			at := position[cpu]
			if found == 1 && at < next || found > 1 && at != next {
				return n
			}
			next = at + 1
		}
	}
	return nil
}

// withCPUs returns the number of NUMA nodes that have CPUs.
func (r *reader) withCPUs() (count int) {
	for _, n := range r.nodes {
		if !n.cpus.IsEmpty() {
			count++
		}
	}
	return count
}

// findCores assigns the CPUs of each socket to cores. With one NUMA node, it returns an error if
// the architecture does not decide how they are numbered. Either the second threads of all cores
// are numbered after all first threads, or each second thread follows the first thread of its core.
func (r *reader) findCores() error {
	r.perCore = make([][]topology.CPUSet, len(r.perSocket))
	split, packed := r.pair(r.splitCore), r.pair(r.packedCore)
	switch {
	case r.threads > 1 && split != nil && packed != nil && r.withCPUs() == 1 && r.cores*r.sockets > 1 && !numbersPacked(r.fields[architecture].value):
		return r.fields.wrong(threads, "%swhich CPUs share a core if there is one NUMA node: 0 and 1, or 0 and %d", capture, r.online.Len()/r.threads)
	case r.threads == 1 || split != nil && (packed == nil || !numbersPacked(r.fields[architecture].value)):
		r.perCore = split
	case packed != nil:
		r.perCore = packed
	default:
		return r.fields.wrong(threads, "%swhich CPUs share a core if the CPUs are numbered in this way", capture)
	}
	return nil
}

// numbersPacked reports whether the CPUs of a core have consecutive numbers if both numberings are
// possible. On POWER and Arm, the CPUs of a core have consecutive numbers. On x86 machines with
// several NUMA nodes they do not.
func numbersPacked(architecture string) bool {
	return strings.HasPrefix(architecture, "ppc") || strings.HasPrefix(architecture, "aarch64") || strings.HasPrefix(architecture, "arm")
}

// splitCore returns the CPUs of the i-th core. It assumes that the second threads of all cores are
// numbered after all first threads.
func (r *reader) splitCore(sorted []topology.CPUID, i int) (out []topology.CPUID) {
	first := len(sorted) / r.threads
	for t := range r.threads {
		out = append(out, sorted[i+t*first])
	}
	return out
}

// packedCore returns the CPUs of the i-th core. It assumes that the threads of a core have
// consecutive numbers.
func (r *reader) packedCore(sorted []topology.CPUID, i int) []topology.CPUID {
	return sorted[i*r.threads : (i+1)*r.threads]
}

// pair divides the threads of the whole machine into cores, and returns the cores of each socket.
// It returns nil if a core would span NUMA nodes.
func (r *reader) pair(core func(sorted []topology.CPUID, i int) []topology.CPUID) [][]topology.CPUSet {
	all := slices.Collect(r.online.All())
	out := make([][]topology.CPUSet, len(r.perSocket))
	for i := range len(all) / r.threads {
		set := topology.NewCPUSet(core(all, i)...)
		at := slices.IndexFunc(r.nodes, func(n inOne) bool { return set.IsSubsetOf(&n.cpus) })
		if at < 0 {
			return nil
		}
		socket := slices.IndexFunc(r.perSocket, func(s topology.CPUSet) bool { return set.IsSubsetOf(&s) })
		out[socket] = append(out[socket], set)
	}
	return out
}

var instances = regexp.MustCompile(`\(([0-9]+) instances?\)$`)

// findCaches assigns the cores to L3 caches with equal numbers of cores, NUMA node by NUMA node.
// Releases of lscpu before 2.37 do not print the number of caches. The machine then has no caches.
func (r *reader) findCaches() error {
	m := instances.FindStringSubmatch(r.fields[cache].value)
	if m == nil {
		return nil
	}
	count, err := strconv.Atoi(m[1])
	all := r.cores * r.sockets
	if err != nil || count < 1 || count > all || all%count != 0 {
		return r.fields.wrong(cache, "a number of instances that divides %d cores evenly; if caches have different numbers of cores: %swhich cores share one", all, capture)
	}
	return r.fillCaches(all / count)
}

// fillCaches puts the given number of cores into each cache, in the order of the NUMA nodes.
func (r *reader) fillCaches(each int) error {
	var one topology.CPUSet
	filled := 0
	for _, n := range r.nodes {
		for _, core := range r.coresOf(&n) {
			one = one.Or(&core)
			if filled++; filled == each {
				r.caches, one, filled = append(r.caches, one), topology.CPUSet{}, 0
			}
		}
		// No real cache begins in one node and ends inside another.
		if filled > 0 && filled < each && len(r.coresOf(&n)) > filled {
			return r.fields.wrong(cache, "a number of instances with which each cache is in one NUMA node or has whole NUMA nodes; if caches have different numbers of cores: %swhich cores share one", capture)
		}
	}
	return nil
}

// coresOf returns the cores of a NUMA node, ordered by their lowest CPU.
func (r *reader) coresOf(n *inOne) (out []topology.CPUSet) {
	for _, cores := range r.perCore {
		for _, core := range cores {
			if core.IsSubsetOf(&n.cpus) {
				out = append(out, core)
			}
		}
	}
	return out
}

func (r *reader) machine() (*topology.Machine, error) {
	all := sets{online: r.online, offline: r.offline, nodes: r.nodes}
	for p, cpus := range r.perSocket {
		all.packages = append(all.packages, inOne{id: p, cpus: cpus})
		for i, core := range r.perCore[p] {
			all.cores = append(all.cores, inOne{socket: p, id: i, cpus: core})
		}
	}
	for i, cpus := range r.caches {
		all.caches = append(all.caches, inOne{id: i, cpus: cpus})
	}
	return all.machine("the output of lscpu")
}
