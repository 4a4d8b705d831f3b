package sysfs

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/topology"
)

// MatrixFile is the file with the output of "nvidia-smi topo -m", below the folder that contains
// sys/. The kernel does not show NVLinks in /sys.
const MatrixFile = "run/berth/nvidia-smi-topo-m.txt"

// kfdDir is the folder in which the kernel's driver for AMD GPUs describes them and their links
// (drivers/gpu/drm/amd/amdkfd/kfd_topology.c).
const kfdDir = "sys/devices/virtual/kfd/kfd/topology/nodes"

func (r *reader) readLinks() error {
	for _, read := range [...]func() ([]topology.Link, error){r.nvLinks, r.xgmiLinks} {
		links, err := read()
		if err != nil {
			return err
		}
		r.m.Links = append(r.m.Links, links...)
	}
	slices.SortStableFunc(r.m.Links, topology.CompareLinks)
	return nil
}

func (r *reader) nvLinks() (links []topology.Link, err error) {
	text, ok, err := r.text(MatrixFile)
	if err != nil || !ok {
		return nil, err
	}
	matrix, err := topology.ParseSMI(text)
	if err == nil {
		links, err = matrix.Links(&r.m)
	}
	if err != nil {
		return nil, &Error{Path: MatrixFile, Field: "links", Err: err}
	}
	return links, nil
}

// linkTypeXGMI is CRAT_IOLINK_TYPE_XGMI of drivers/gpu/drm/amd/amdkfd/kfd_crat.h.
const linkTypeXGMI = 11

// xgmiLinks reads the links of type XGMI between GPUs. A node in kfdDir is a GPU or a CPU.
func (r *reader) xgmiLinks() (links []topology.Link, err error) {
	nodes, err := r.numbered(kfdDir, "", topology.MaxDevices)
	if err != nil {
		return nil, err
	}
	gpus := map[int]string{}
	told := map[[2]int]string{} // by the two nodes, the file that reports the link
	for _, n := range nodes {
		dir := path.Join(kfdDir, strconv.Itoa(n))
		if gpus[n], err = r.kfdAddress(dir + "/properties"); err != nil {
			return nil, err
		}
		list, err := r.numbered(dir+"/io_links", "", topology.MaxLinks)
		if err != nil {
			return nil, err
		}
		for _, l := range list {
			name := fmt.Sprintf("%s/io_links/%d/properties", dir, l)
			p, err := r.properties(name, "type", "node_to")
			if err != nil {
				return nil, err
			}
			if p["type"] == linkTypeXGMI {
				told[[2]int{n, int(p["node_to"])}] = name
			}
		}
	}
	for pair, name := range told {
		a, b := gpus[pair[0]], gpus[pair[1]]
		if a == "" || b == "" { // to a CPU
			continue
		}
		if told[[2]int{pair[1], pair[0]}] == "" {
			return nil, &Error{Path: name, Field: "node_to", Value: strconv.Itoa(pair[1]), Want: fmt.Sprintf("a node that has a link back to node %d", pair[0])}
		}
		if r.m.Device(a) != nil && r.m.Device(b) != nil && pair[0] < pair[1] {
			if topology.CompareAddresses(a, b) > 0 {
				a, b = b, a
			}
			links = append(links, topology.Link{A: a, B: b, Kind: topology.XGMI, Count: 1})
		}
	}
	return links, nil
}

// kfdAddress returns the PCI address of a node in kfdDir that is a GPU, and "" for a CPU.
func (r *reader) kfdAddress(name string) (string, error) {
	p, err := r.properties(name, "simd_count", "location_id", "domain")
	if err != nil || p["simd_count"] == 0 {
		return "", err
	}
	id := p["location_id"] // bus, device and function as in a PCI requester id
	return fmt.Sprintf("%04x:%02x:%02x.%d", p["domain"], id>>8&0xff, id>>3&0x1f, id&7), nil
}

// properties reads lines "KEY NUMBER" and returns the numbers of the given keys.
func (r *reader) properties(name string, keys ...string) (map[string]uint64, error) {
	text, _, err := r.text(name)
	if err != nil {
		return nil, err
	}
	out := map[string]uint64{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !slices.Contains(keys, key) {
			continue
		}
		if out[key], err = strconv.ParseUint(strings.TrimSpace(value), 10, 32); err != nil {
			return nil, &Error{Path: name, Field: key, Value: value, Want: "a decimal number below 2^32"}
		}
	}
	return out, nil
}
