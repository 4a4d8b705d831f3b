package sysfs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/topology"
)

// readNodes reads the NUMA nodes from their folders. The kernel makes a folder for each online
// node. A kernel without NUMA support makes none. If a node claims a CPU of a lower node, the
// firmware has a bug. readNodes omits such a node and all distances, because they are not reliable.
func (r *reader) readNodes() error {
	ids, err := r.numbered(nodeDir, "node", math.MaxUint16)
	if err != nil {
		return err
	}
	if len(ids) > topology.MaxNodes {
		return &Error{Path: nodeDir, Field: "node folders", Value: strconv.Itoa(len(ids)), Want: fmt.Sprintf("at most %d", topology.MaxNodes)}
	}
	var seen topology.CPUSet
	buggy := false
	for _, id := range ids {
		n, err := r.node(id)
		if err != nil {
			return err
		}
		if seen.Intersects(&n.CPUs) {
			buggy = true
			continue
		}
		seen = seen.Or(&n.CPUs)
		r.m.NUMANodes = append(r.m.NUMANodes, n)
	}
	if buggy {
		return nil
	}
	return r.readDistances(ids)
}

func nodePath(id int) string { return fmt.Sprintf("%s/node%d", nodeDir, id) }

func (r *reader) node(id int) (n topology.NUMANode, err error) {
	dir := nodePath(id)
	set, _, err := r.cpus(dir, func(set *topology.CPUSet) bool { return !set.IsEmpty() }, "cpumap")
	if err != nil {
		return n, err
	}
	n = topology.NUMANode{ID: topology.NUMAID(id), CPUs: set.And(&r.m.Online)}
	if n.MemoryBytes, err = r.memTotal(dir + "/meminfo"); err != nil {
		return n, err
	}
	n.HugePages, err = r.hugePages(dir + "/hugepages")
	return n, err
}

// memTotal reads a line such as "Node 0 MemTotal: 131855096 kB". Without the file it returns 0.
func (r *reader) memTotal(name string) (uint64, error) {
	text, ok, err := r.text(name)
	if err != nil || !ok {
		return 0, err
	}
	for line := range strings.Lines(text) {
		_, value, found := strings.Cut(line, "MemTotal:")
		if !found {
			continue
		}
		fields := strings.Fields(value)
		if len(fields) != 2 || fields[1] != "kB" {
			return 0, &Error{Path: name, Field: "MemTotal", Value: strings.TrimSpace(value), Want: "a number of kB"}
		}
		n, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil || n > math.MaxUint64>>10 {
			return 0, &Error{Path: name, Field: "MemTotal", Value: fields[0], Want: "a number of kB below 2^54"}
		}
		return n << 10, nil
	}
	return 0, &Error{Path: name, Field: "MemTotal", Value: firstLine(text), Want: `a line "Node N MemTotal: SIZE kB"`}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// hugePages reads hugepages-2048kB/nr_hugepages, and the same file for other page sizes.
func (r *reader) hugePages(dir string) ([]topology.HugePages, error) {
	list, err := r.entries(dir)
	if err != nil {
		return nil, err
	}
	var pools []topology.HugePages
	for _, e := range list {
		size, ok := strings.CutPrefix(e.Name(), "hugepages-")
		if !ok {
			continue
		}
		name := dir + "/" + e.Name()
		kilobytes, isKB := strings.CutSuffix(size, "kB")
		page, err := strconv.ParseUint(kilobytes, 10, 32)
		if err != nil || !isKB || page == 0 || page&(page-1) != 0 {
			return nil, &Error{Path: name, Field: "page size", Value: size, Want: "a power of two in kB"}
		}
		count, ok, err := r.integer(name+"/nr_hugepages", 0, math.MaxInt64/int64(page)>>10)
		if err != nil {
			return nil, err
		}
		if ok {
			pools = append(pools, topology.HugePages{PageBytes: page << 10, Count: uint64(count)})
		}
	}
	slices.SortFunc(pools, func(a, b topology.HugePages) int { return cmp.Compare(a.PageBytes, b.PageBytes) })
	return slices.CompactFunc(pools, func(a, b topology.HugePages) bool { return a.PageBytes == b.PageBytes }), nil
}

// readDistances reads one row per node. A row lists the distances to the online nodes
// (drivers/base/node.c, node_read_distance). An edited capture may lack the folders of some of
// these nodes.
func (r *reader) readDistances(ids []int) error {
	for i := range r.m.NUMANodes {
		if err := r.readDistancesOf(&r.m.NUMANodes[i], nodePath(ids[i])+"/distance", ids); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) readDistancesOf(n *topology.NUMANode, name string, ids []int) error {
	text, ok, err := r.text(name)
	if err != nil {
		return err
	}
	row := strings.Fields(text)
	if !ok || strings.Trim(text, "0 \t\n") == "" {
		return nil // no distance table: an empty row, or all zeros in old kernels
	}
	columns, err := r.columns(name, len(row), ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		said := row[slices.Index(columns, id)]
		d, err := strconv.ParseUint(said, 10, 32)
		if err != nil || d == 0 {
			return &Error{Path: name, Field: "distance", Value: said, Want: "numbers of at least 1; 10 is local"}
		}
		n.Distances = append(n.Distances, uint32(d))
	}
	return nil
}

// columns returns the nodes to which the n distances of a row belong.
func (r *reader) columns(name string, n int, ids []int) ([]int, error) {
	if n == len(ids) {
		return ids, nil
	}
	for _, file := range []string{"online", "possible"} {
		text, ok, err := r.text(nodeDir + "/" + file)
		if err != nil {
			return nil, err
		}
		set, err := topology.ParseCPUList(text)
		if !ok || err != nil || set.Len() != n {
			continue
		}
		var columns []int
		for id := range set.All() {
			columns = append(columns, int(id))
		}
		if !slices.ContainsFunc(ids, func(id int) bool { return !slices.Contains(columns, id) }) {
			return columns, nil
		}
	}
	return nil, &Error{Path: name, Field: "distance", Value: strconv.Itoa(n) + " values", Want: fmt.Sprintf("%d, one for each node folder", len(ids))}
}
