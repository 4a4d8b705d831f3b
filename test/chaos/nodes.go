package main

import (
	"fmt"
	"time"

	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/topology"
)

// Containers of hollow nodes take stopTime to stop. Exact placements assume that a Binding arrives
// faster. The delays of faults are shorter too.
const stopTime = 2 * time.Second

// kind is a machine with a kubelet's configuration. Machines are small, so that NUMA nodes are
// scarce.
type kind struct {
	machine, config string
	plugins         []hollow.Plugin
	obeys           bool // Berth decides there
}

const gpuResource = "example.com/gpu"

var kinds = []kind{
	{machine: "package:2 numa:1 core:4 pu:2 number:interleaved mem:16Gi dist:10,21", config: `cpuManagerPolicy: static
topologyManagerPolicy: single-numa-node
reservedSystemCPUs: "0,8"
`},
	{machine: "package:2 numa:2 core:4 pu:1 mem:4Gi dist:10,12,21", config: `cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicy: restricted
reservedSystemCPUs: "0"
systemReserved: {memory: 924Mi}
evictionHard: {memory.available: 100Mi}
reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]
`},
	{machine: "package:2 numa:1 core:6 pu:1 mem:16Gi dist:10,21", config: `cpuManagerPolicy: static
topologyManagerPolicy: single-numa-node
topologyManagerScope: pod
reservedSystemCPUs: "0"
`, plugins: []hollow.Plugin{{Resource: gpuResource, Prefer: true, Devices: gpus(2, 2)}}},
	{machine: "package:1 numa:4 core:2 pu:2 mem:4Gi dist:10,12", config: `cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
topologyManagerPolicy: best-effort
reservedSystemCPUs: "0-1"
`},
	{machine: "package:2 numa:1 core:4 pu:2 mem:8Gi dist:10,21", obeys: true, config: `reservedSystemCPUs: "0"
`},
}

// gpus returns count devices on each of the NUMA nodes.
func gpus(nodes, count int) (out []hollow.Device) {
	for n := range nodes {
		for i := range count {
			out = append(out, hollow.Device{ID: fmt.Sprintf("gpu-%d-%d", n, i), NUMA: []topology.NUMAID{topology.NUMAID(n)}})
		}
	}
	return out
}

// specs returns count nodes. It uses the kinds in turn.
func specs(count int) []hollow.Spec {
	out := make([]hollow.Spec, count)
	for i := range out {
		k := &kinds[i%len(kinds)]
		out[i] = hollow.Spec{
			Name: nodeName(i), Machine: k.machine, Plugins: k.plugins, StopTime: stopTime, NRI: k.obeys,
			KubeletConfig: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + k.config,
		}
	}
	return out
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i) }
