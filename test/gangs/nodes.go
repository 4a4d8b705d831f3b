package main

import (
	"fmt"
	"time"

	"github.com/berth-dev/berth/internal/hollow"
)

// stopTime is how long containers take to stop.
const stopTime = time.Second

// kind is a machine with a kubelet's configuration.
type kind struct{ machine, config string }

// kinds are the nodes. They are small, so that NUMA nodes are scarce, and each has its own policy.
var kinds = []kind{
	{"package:2 numa:1 core:8 pu:2 number:interleaved mem:32Gi dist:10,21", `cpuManagerPolicy: static
topologyManagerPolicy: single-numa-node
reservedSystemCPUs: "0,16"
`},
	{"package:2 numa:2 core:6 pu:1 mem:8Gi dist:10,12,21", `cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicy: restricted
reservedSystemCPUs: "0"
systemReserved: {memory: 924Mi}
evictionHard: {memory.available: 100Mi}
reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]
`},
	{"package:2 numa:1 core:12 pu:1 mem:16Gi dist:10,21", `cpuManagerPolicy: static
topologyManagerPolicy: single-numa-node
topologyManagerScope: pod
reservedSystemCPUs: "0"
`},
	{"package:1 numa:4 core:4 pu:2 mem:8Gi dist:10,12", `cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
topologyManagerPolicy: best-effort
reservedSystemCPUs: "0-1"
`},
	{"package:2 numa:1 core:8 pu:2 number:interleaved mem:32Gi dist:10,21", `cpuManagerPolicy: static
topologyManagerPolicy: single-numa-node
reservedSystemCPUs: "0,16"
`},
}

// The capacity of all nodes together. Gangs that fit take at most fitting CPUs, in members of at
// most largest CPUs. tooMany members of large CPUs do not fit, because the nodes have room for 5+5,
// 4, 4, 0 and 5+5 of them.
const (
	fitting = 44
	largest = 4
	large   = 5
	tooMany = 26
)

func specs() []hollow.Spec {
	out := make([]hollow.Spec, len(kinds))
	for i, k := range kinds {
		out[i] = hollow.Spec{Name: fmt.Sprintf("n%d", i), Machine: k.machine, StopTime: stopTime,
			KubeletConfig: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + k.config}
	}
	return out
}
