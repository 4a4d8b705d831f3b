package survey

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Container has the resources of one container.
type Container struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	CPUs string `json:"cpus"` // exclusive CPUs; if "", the container is in the shared pool or has UnknownCPUs
	// UnknownCPUs is the number of the container's exclusive CPUs if their ids are not known,
	// because the node's report has only amounts.
	UnknownCPUs int      `json:"unknownCPUs,omitempty"`
	Memory      []Memory `json:"memory,omitempty"`
	// Devices are the ids of the container's devices by resource. For a provider's resource, an
	// entry is an amount with its place, like "2 of PLACE".
	Devices map[string][]string `json:"devices,omitempty"`
	// NUMANodes are the NUMA nodes of the container's CPUs and memory.
	NUMANodes string `json:"numaNodes"`
	// Affinity lists the NUMA nodes that the Topology Manager, or Berth on a node with authority
	// berth, chose for the container. It is "" if none were chosen.
	Affinity string `json:"affinity"`
}

// Memory is an amount of memory with its NUMA nodes.
type Memory struct {
	Resource  string `json:"resource"`
	NUMANodes string `json:"numaNodes"`
	Bytes     uint64 `json:"bytes"`
}

// ContainerOf returns the resources that the decision d gives to a container. m is the node's
// machine.
func ContainerOf(m *topology.Machine, d *placement.ContainerDecision) Container {
	c := Container{Name: d.Name, Kind: kindNames[d.Kind], CPUs: d.CPUs.String()}
	if !d.Hint.Any {
		c.Affinity = d.Hint.NUMA.String()
	}
	numa := m.NodesOf(d.CPUs)
	for _, b := range d.Memory {
		numa |= b.NUMA
		if b.Bytes == 0 {
			continue // a later container reuses the memory of this init container
		}
		c.Memory = append(c.Memory, Memory{Resource: b.Resource, NUMANodes: b.NUMA.String(), Bytes: b.Bytes})
	}
	for _, a := range d.Devices {
		if c.Devices == nil {
			c.Devices = map[string][]string{}
		}
		c.Devices[a.Resource] = a.IDs
	}
	c.addProvided(d.Provided)
	c.NUMANodes = numa.String()
	return c
}

func (c *Container) addProvided(all []placement.Provided) {
	for _, p := range all {
		if c.Devices == nil {
			c.Devices = map[string][]string{}
		}
		c.Devices[p.Resource] = append(c.Devices[p.Resource], fmt.Sprintf("%d of %s", p.Amount, p.Place))
	}
}

// CPUsUnknown is printed in place of pinned CPUs if the node's report has only amounts.
const CPUsUnknown = "pinned, CPUs unknown"

// countUnknown sets UnknownCPUs of containers on a node whose report has no CPU ids. It adds
// containers that are missing.
func (n *NodeState) countUnknown(containers []Container, r *placement.Request) []Container {
	if !n.coarse() || !n.Spec().PinsCPUs() || !r.Guaranteed {
		return containers
	}
	for i := range r.Containers {
		c := &r.Containers[i]
		if c.MilliCPU == 0 || c.MilliCPU%1000 != 0 {
			continue
		}
		at := slices.IndexFunc(containers, func(o Container) bool { return o.Name == c.Name })
		if at < 0 {
			at = len(containers)
			containers = append(containers, Container{Name: c.Name, Kind: kindNames[c.Kind]})
		}
		if containers[at].CPUs == "" {
			containers[at].UnknownCPUs = int(c.MilliCPU / 1000)
		}
	}
	return containers
}

var kindNames = map[placement.ContainerKind]string{placement.App: "app", placement.Init: "init", placement.Sidecar: "sidecar"}

var kindNamed = map[string]placement.ContainerKind{"app": placement.App, "init": placement.Init, "sidecar": placement.Sidecar}

// Label returns the container's name, and its kind in parentheses if it is not an app container.
func (c *Container) Label() string {
	if c.Kind == kindNames[placement.App] {
		return c.Name
	}
	return c.Name + " (" + c.Kind + ")"
}

// MemoryText describes the container's reserved memory and its NUMA nodes; "" for none.
func (c *Container) MemoryText() string {
	var parts []string
	for _, m := range c.Memory {
		text := topology.FormatBytes(m.Bytes)
		if m.Resource != "memory" {
			text += " " + m.Resource
		}
		parts = append(parts, text+" on "+m.NUMANodes)
	}
	return strings.Join(parts, ", ")
}

// DevicesText names the container's devices; "" for none.
func (c *Container) DevicesText() string {
	var parts []string
	for _, r := range slices.Sorted(maps.Keys(c.Devices)) {
		parts = append(parts, r+" "+strings.Join(c.Devices[r], ","))
	}
	return strings.Join(parts, "; ")
}
