package main

import (
	"fmt"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/internal/hollow"
)

// The drivers, each with a DeviceClass of its name. GPUs have the standard attribute for the NUMA
// node, network cards the attribute of dranet (-1 if unknown), and other devices none.
const (
	gpus   = "gpu.example.com"
	cards  = "nic.example.com"
	others = "other.example.com"
	// The drivers of the scenes.
	many = "many.example.com"
	odd  = "odd.example.com"
	slow = "slow.example.com"
)

const (
	standardNUMA = "resource.kubernetes.io/numaNode"
	dranetNUMA   = "dra.net/numaNode"
)

// sample is a device with its NUMA node; -1 for none.
type sample struct {
	resourceapi.Device
	at int
}

// nowhere is the NUMA node of a device without one.
const nowhere = -1

// kind is a machine with a kubelet's configuration, and the devices of each driver in the order in
// which they are published.
type kind struct {
	machine, config string
	// obeys means that Berth decides on the node.
	obeys   bool
	devices map[string][]sample
}

// kinds are the nodes. The first three have kubelets with different policies, and Berth decides on
// the others. On all nodes but the first, devices of the NUMA node that is filled last come first.
// The fourth node has GPUs only on that NUMA node.
var kinds = []kind{
	{"package:2 numa:1 core:8 pu:1 mem:16Gi dist:10,21", `cpuManagerPolicy: static
topologyManagerPolicy: single-numa-node
reservedSystemCPUs: "0"
`, false, map[string][]sample{gpus: numbered(gpuAt, 0, 0, 1, 1), cards: numbered(cardAt, 0, 1), others: numbered(other, nowhere, nowhere)}},
	{"package:2 numa:2 core:4 pu:1 mem:8Gi dist:10,12,21", `cpuManagerPolicy: static
topologyManagerPolicy: restricted
topologyManagerScope: pod
reservedSystemCPUs: "0"
`, false, map[string][]sample{gpus: numbered(gpuAt, 3, 2, 1, 0), cards: numbered(cardAt, 3, nowhere), others: numbered(other, nowhere)}},
	{"package:2 numa:1 core:6 pu:2 number:interleaved mem:16Gi dist:10,21", `cpuManagerPolicy: static
topologyManagerPolicy: best-effort
reservedSystemCPUs: "0,12"
`, false, map[string][]sample{gpus: numbered(listedAt, 1, 1, 0, 0), cards: numbered(cardAt, 1, 0)}},
	{"package:2 numa:1 core:8 pu:1 mem:16Gi dist:10,21", leftToBerth, true,
		map[string][]sample{gpus: numbered(gpuAt, 1, 1), cards: numbered(cardAt, 1, 0), others: numbered(other, nowhere)}},
	{"package:2 numa:2 core:4 pu:2 number:interleaved mem:8Gi dist:10,12,21", leftToBerth, true,
		map[string][]sample{gpus: numbered(listedAt, 1, 1, 0, 0), cards: numbered(cardAt, 1, nowhere)}},
}

// leftToBerth is the configuration of kubelets that leave CPUs to Berth.
const leftToBerth = `reservedSystemCPUs: "0"
`

// obeying reports whether Berth decides on the node.
func obeying(node string) bool {
	return slices.Contains(obeyingNodes(), node)
}

func obeyingNodes() (names []string) {
	for i := range kinds {
		if kinds[i].obeys {
			names = append(names, nodeName(i))
		}
	}
	return names
}

// numbered makes a device on each of the NUMA nodes.
func numbered(one func(i int, at int) resourceapi.Device, at ...int) (all []sample) {
	for i, n := range at {
		all = append(all, sample{one(i, n), n})
	}
	return all
}

func gpuAt(i int, at int) resourceapi.Device { return device("gpu", i, standardNUMA, at) }

func cardAt(i int, at int) resourceapi.Device { return device("nic", i, dranetNUMA, at) }

func other(i int, _ int) resourceapi.Device {
	return resourceapi.Device{Name: fmt.Sprint("other-", i)}
}

// listedAt returns a GPU whose attribute is a list: its own NUMA node, then another one of the
// machine.
func listedAt(i int, at int) resourceapi.Device {
	list := []int64{int64(at), 1 - int64(at)}
	return resourceapi.Device{Name: fmt.Sprint("gpu-", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{standardNUMA: {IntValues: list}}}
}

func device(name string, i int, attribute resourceapi.QualifiedName, at int) resourceapi.Device {
	n := int64(at)
	return resourceapi.Device{Name: fmt.Sprint(name, "-", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{attribute: {IntValue: &n}}}
}

func specs() []hollow.Spec {
	out := make([]hollow.Spec, len(kinds))
	for i, k := range kinds {
		out[i] = hollow.Spec{Name: nodeName(i), Machine: k.machine, NRI: k.obeys, StopTime: 200 * time.Millisecond,
			KubeletConfig: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + k.config}
	}
	return out
}

func nodeName(i int) string { return fmt.Sprint("n", i) }
