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
// sys/. /sys itself does not contain NVLinks.
const MatrixFile = "run/berth/nvidia-smi-topo-m.txt"

// kfdDir is the folder in which the kernel's driver for AMD GPUs describes them and their links
// (drivers/gpu/drm/amd/amdkfd/kfd_topology.c).
const kfdDir = "sys/devices/virtual/kfd/kfd/topology/nodes"

// readLinks reads the links between GPUs.
func (r *reader) readLinks() error {
	if err := r.readNVLinks(); err != nil {
		return err
	}
	return r.readXGMI()
}

func (r *reader) readNVLinks() error {
	text, ok, err := r.text(MatrixFile)
	if err != nil || !ok {
		return err
	}
	matrix, err := topology.ParseSMI(text)
	var links []topology.Link
	if err == nil {
		links, err = matrix.Links(&r.m)
	}
	if err != nil {
		return &Error{Path: MatrixFile, Field: "links", Err: err}
	}
	return r.addLinks(topology.NVLink, links)
}

func (r *reader) addLinks(kind topology.LinkKind, links []topology.Link) error {
	m, err := r.m.WithLinks(kind, links)
	if err == nil {
		r.m = *m
	}
	return err
}

// linkTypeXGMI is CRAT_IOLINK_TYPE_XGMI of drivers/gpu/drm/amd/amdkfd/kfd_crat.h.
const linkTypeXGMI = 11

// readXGMI reads the links of type XGMI between GPUs. A node in kfdDir is a GPU or a CPU.
func (r *reader) readXGMI() error {
	nodes, err := r.numbered(kfdDir, "", topology.MaxDevices)
	if err != nil {
		return err
	}
	gpus := map[int]string{}
	told := map[[2]int]string{} // by the two nodes, the file that reports the link
	for _, n := range nodes {
		dir := path.Join(kfdDir, strconv.Itoa(n))
		if gpus[n], err = r.kfdAddress(dir + "/properties"); err != nil {
			return err
		}
		list, err := r.numbered(dir+"/io_links", "", topology.MaxLinks)
		if err != nil {
			return err
		}
		for _, l := range list {
			name := fmt.Sprintf("%s/io_links/%d/properties", dir, l)
			p, err := r.properties(name, "type", "node_to")
			if err != nil {
				return err
			}
			if p["type"] == linkTypeXGMI {
				told[[2]int{n, int(p["node_to"])}] = name
			}
		}
	}
	var links []topology.Link
	for pair, name := range told {
		a, b := gpus[pair[0]], gpus[pair[1]]
		if a == "" || b == "" { // to a CPU
			continue
		}
		if told[[2]int{pair[1], pair[0]}] == "" {
			return &Error{Path: name, Field: "node_to", Value: strconv.Itoa(pair[1]), Want: fmt.Sprintf("a node that has a link back to node %d", pair[0])}
		}
		if r.m.Device(a) != nil && r.m.Device(b) != nil && pair[0] < pair[1] {
			links = append(links, link(topology.XGMI, a, b))
		}
	}
	if len(links) == 0 {
		return nil
	}
	return r.addLinks(topology.XGMI, links)
}

func link(kind topology.LinkKind, a, b string) topology.Link {
	if addresses := []string{a, b}; len(a) > len(b) || len(a) == len(b) && a > b {
		slices.Reverse(addresses)
		a, b = addresses[0], addresses[1]
	}
	return topology.Link{A: a, B: b, Kind: kind, Count: 1}
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
