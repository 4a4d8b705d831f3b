package devices

import (
	"fmt"
	"time"

	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/topology"
)

// The resources that all nodes offer under the same names.
const (
	gpus  = "example.com/gpu"
	cards = "example.com/nic"
	vfs   = "example.com/vf"
)

// machines are the machines of the nodes with authority berth. One CPU of each is reserved.
var machines = []string{
	// Each NUMA node has two switches. Each switch has one or two GPUs and a network card.
	"package:2 numa:1 core:8 pu:2 mem:8Gi huge:2Mi=64 dist:10,21 " +
		"dev:18:00.0|19:00.0,030200,10de:2330,numa=0,root=15,switch=16:00.0 dev:1a:00.0,020700,15b3:1021,numa=0,root=15,switch=16:00.0 " +
		"dev:3a:00.0,030200,10de:2330,numa=0,root=37,switch=38:00.0 dev:3c:00.0,020700,15b3:1021,numa=0,root=37,switch=38:00.0 " +
		"dev:9a:00.0,030200,10de:2330,numa=1,root=97,switch=98:00.0 dev:9c:00.0,020700,15b3:1021,numa=1,root=97,switch=98:00.0 " +
		"dev:ba:00.0|bb:00.0,030200,10de:2330,numa=1,root=b7,switch=b8:00.0 dev:bc:00.0,020700,15b3:1021,numa=1,root=b7,switch=b8:00.0 " +
		"link:nvlink=4,18:00.0+19:00.0|ba:00.0+bb:00.0",
	// Two of the four NUMA nodes have a network card with virtual functions. All four have GPUs.
	"package:2 numa:2 core:4 pu:1 mem:4Gi huge:2Mi=32 dist:10,12,21 " +
		"dev:18:00.0,030200,10de:2330,numa=0,root=15 dev:38:00.0,030200,10de:2330,numa=1,root=35 dev:98:00.0,030200,10de:2330,numa=2,root=95 dev:b8:00.0,030200,10de:2330,numa=3,root=b5 " +
		"dev:1a:00.0,020700,15b3:1021,numa=0,root=15 dev:1a:00.1|1a:00.2,020700,15b3:101e,numa=0,root=15,pf=1a:00.0 " +
		"dev:9a:00.0,020700,15b3:1021,numa=2,root=95 dev:9a:00.1|9a:00.2,020700,15b3:101e,numa=2,root=95,pf=9a:00.0",
}

// offers has the --devices value of the agent of each machine.
var offers = []string{
	"resources: [{resource: " + gpus + ", class: gpu}, {resource: " + cards + ", class: rdma}]",
	"resources: [{resource: " + gpus + ", class: gpu}, {resource: " + vfs + ", class: rdma, virtual: true}]",
}

const obeyingConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
reservedSystemCPUs: "0"
`

const decidingConfig = obeyingConfig + `cpuManagerPolicy: static
memoryManagerPolicy: None
topologyManagerPolicy: single-numa-node
`

// nodes returns the nodes with authority berth, then one whose kubelet decides.
func nodes() (all []hollow.Spec) {
	for i, m := range machines {
		all = append(all, hollow.Spec{Name: fmt.Sprint("d", i), Machine: m, KubeletConfig: obeyingConfig, NRI: true, Devices: offers[i], StopTime: 200 * time.Millisecond})
	}
	own := hollow.Spec{Name: "kubelet", Machine: machines[0], KubeletConfig: decidingConfig, StopTime: 200 * time.Millisecond}
	for _, resource := range []string{gpus, cards} {
		p := hollow.Plugin{Resource: resource, Prefer: true}
		for i := range 4 {
			p.Devices = append(p.Devices, hollow.Device{ID: fmt.Sprint("x", i), NUMA: []topology.NUMAID{topology.NUMAID(i / 2)}})
		}
		own.Plugins = append(own.Plugins, p)
	}
	return append(all, own)
}
