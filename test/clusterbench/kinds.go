package main

import (
	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// nodeKind is a machine with a kubelet configuration; nodes of a kind share it.
type nodeKind struct {
	spec  wire.NodeSpec
	model *placement.Model
}

const gib = 1 << 30

// kindsOfCluster returns the kinds of nodes; nodes get them in turn.
func kindsOfCluster() ([]*nodeKind, error) {
	return newKinds(
		nodeConfig{shapes.Xeon6230, placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0,40", TopologyManagerPolicy: "single-numa-node"}},
		nodeConfig{shapes.EPYC7451, placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0,48", TopologyManagerPolicy: "restricted"}},
		nodeConfig{shapes.Xeon6330, placement.Config{
			CPUManagerPolicy: "static", ReservedSystemCPUs: "0,56", TopologyManagerPolicy: "single-numa-node", TopologyManagerScope: "pod",
			MemoryManagerPolicy: "Static", ReservedMemory: []placement.ReservedMemory{{NUMA: 0, Limits: map[string]uint64{"memory": gib}}},
			NodeReserved: map[string]uint64{"memory": gib},
		}},
	)
}

// kindOfWrites is a large machine: 256 CPUs in 8 NUMA nodes.
func kindOfWrites() ([]*nodeKind, error) {
	return newKinds(nodeConfig{shapes.EPYCNPS4, placement.Config{
		CPUManagerPolicy: "static", ReservedSystemCPUs: "0,128", TopologyManagerPolicy: "restricted",
		MemoryManagerPolicy: "Static", ReservedMemory: []placement.ReservedMemory{{NUMA: 0, Limits: map[string]uint64{"memory": gib}}},
		NodeReserved: map[string]uint64{"memory": gib},
	}})
}

type nodeConfig struct {
	machine string
	config  placement.Config
}

func newKinds(configs ...nodeConfig) ([]*nodeKind, error) {
	var out []*nodeKind
	for _, c := range configs {
		m, err := topology.Parse(c.machine)
		if err != nil {
			return nil, err
		}
		view, err := placement.ViewOf(m)
		if err != nil {
			return nil, err
		}
		model, err := placement.NewModel(view, c.config)
		if err != nil {
			return nil, err
		}
		out = append(out, &nodeKind{model: model, spec: wire.NodeSpec{
			Machine: m, View: view, Config: c.config, Authority: v1alpha1.AuthorityKubelet, KubeletVersion: "v1.36.3",
		}})
	}
	return out, nil
}

// memory returns all memory of the machine in bytes.
func (k *nodeKind) memory() (sum int64) {
	for i := range k.spec.Machine.NUMANodes {
		sum += int64(k.spec.Machine.NUMANodes[i].MemoryBytes)
	}
	return sum
}

// reserved returns how many CPUs are kept from pods.
func (k *nodeKind) reserved() int {
	set, err := topology.ParseCPUList(k.spec.Config.ReservedSystemCPUs)
	if err != nil {
		return 0
	}
	return set.Len()
}
