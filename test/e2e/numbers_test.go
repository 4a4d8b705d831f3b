package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// withPolicy returns the configuration singleNUMA with another policy.
func withPolicy(policy string) string {
	return strings.Replace(singleNUMA, "topologyManagerPolicy: single-numa-node", "topologyManagerPolicy: "+policy, 1)
}

// pluginWith returns a plugin with these numbers of GPUs on the NUMA nodes. Their ids begin with
// the NUMA node's number.
func pluginWith(onEach ...int) hollow.Plugin {
	p := hollow.Plugin{Resource: offeredGPU}
	for numa, n := range onEach {
		for i := range n {
			p.Devices = append(p.Devices, hollow.Device{ID: fmt.Sprint(numa, "-", i), NUMA: []topology.NUMAID{topology.NUMAID(numa)}})
		}
	}
	return p
}

// numberNodes are the nodes of TestNumbersOfNUMANodes: one on which Berth decides, and kubelets of
// each kind.
var numberNodes = map[string]func(*hollow.Spec){
	"h0": func(s *hollow.Spec) {
		obeyingNode(s)
		s.Machine, s.Devices = withDevices, "resources: [{resource: example.com/gpu, class: gpu}]"
	},
	"h1": func(s *hollow.Spec) {
		s.KubeletConfig, s.Plugins = withPolicy("restricted"), []hollow.Plugin{pluginWith(2, 2)}
	},
	"h2": func(s *hollow.Spec) { s.Plugins = []hollow.Plugin{pluginWith(4, 4)} },
	"h3": func(s *hollow.Spec) {
		s.KubeletConfig, s.Plugins = withPolicy("best-effort"), []hollow.Plugin{pluginWith(2, 2)}
	},
	"h4": func(s *hollow.Spec) {
		s.KubeletConfig, s.Plugins = withPolicy("restricted"), []hollow.Plugin{pluginWith(3, 1)}
	},
}

// TestNumbersOfNUMANodes creates pods that ask for a number of NUMA nodes, for devices on each, and
// for whole NUMA nodes, on each kind of node. A pod gets exactly these where Berth decides, and
// where a genuine kubelet's configuration leaves no choice. Every other node refuses the pod with
// the reason.
func TestNumbersOfNUMANodes(t *testing.T) {
	t.Parallel()
	c := newHollowClusterOn(t, len(numberNodes), controlplane.Options{Dir: shortDir(t)}, func(s *hollow.Spec) {
		s.StopTime = 100 * time.Millisecond
		numberNodes[s.Name](s)
	})
	for name, n := range map[string]int64{"h0": 4, "h1": 4, "h2": 8, "h3": 4, "h4": 4} {
		c.awaitAllocatable(name, offeredGPU, n)
	}
	const two, each, alone = wire.NUMANodesAnnotation + "=2", wire.DevicesAnnotation + "=perNUMANode=2", wire.ExclusiveAnnotation + "=numa"
	for _, tc := range []struct {
		node, says string
		cpus       string
		gpus       int64
		// got has the NUMA nodes of the CPUs and of each GPU. If it is "", the node refuses with
		// the text want.
		got, want string
	}{
		{"h0", two, "4", 0, "0-1 []", ""},
		{"h1", two, "10", 0, "0-1 []", ""},
		{"h1", two, "4", 0, "", "node(s) whose kubelet uses 1 NUMA node for this pod, and the pod's berth.dev/numa-nodes requires 2"},
		{"h2", two, "10", 0, "", "node(s) whose kubelet uses 1 NUMA node for this pod"},
		{"h3", two, "10", 0, "", "node(s) whose kubelet's policy best-effort allows any number of NUMA nodes"},
		{"h0", each, "4", 4, "0-1 [0 0 1 1]", ""},
		{"h0", each, "2", 2, "0 [0 0]", ""},
		{"h0", each, "2", 3, "", "the numbers of devices are not multiples of the number per NUMA node"},
		{"h1", each, "10", 4, "0-1 [0 0 1 1]", ""},
		{"h1", each, "2", 2, "0 [0 0]", ""},
		{"h1", each, "2", 3, "", "node(s) whose kubelet takes example.com/gpu from as few NUMA nodes as it can, and the pod's berth.dev/devices requires 2"},
		{"h2", each, "2", 2, "0 [0 0]", ""},
		{"h2", each, "2", 4, "", "node(s) whose kubelet takes all example.com/gpu of a container from one NUMA node"},
		{"h3", each, "2", 4, "0 [0 0 1 1]", ""},
		{"h3", each, "2", 2, "", "node(s) whose kubelet's policy best-effort allows devices from any NUMA nodes"},
		{"h4", each, "2", 4, "", "the kubelet may take other numbers"},
		{"h4", each, "2", 2, "0 [0 0]", ""},
		{"h0", alone, "8", 0, "1 []", ""},
		{"h1", alone, "8", 0, "", "node(s) whose kubelet lacks a way to keep a NUMA node for one pod"},
		{"h2", alone, "8", 0, "", "node(s) whose kubelet lacks a way to keep a NUMA node for one pod"},
	} {
		p := onNode(ask("x", tc.cpus, true, tc.says), tc.node)
		if tc.gpus > 0 {
			asking(p, offeredGPU, tc.gpus)
		}
		c.create(p)
		if tc.got == "" {
			c.awaitUnschedulable("x", tc.want)
		} else {
			c.awaitRunning("x")
			if got := c.numbersOf("x"); got != tc.got {
				t.Errorf("%s of %s CPUs and %d GPUs on %s: NUMA nodes %s, want %s", tc.says, tc.cpus, tc.gpus, tc.node, got, tc.got)
			}
			c.awaitObeyed(tc.says)
		}
		c.delete("x", nil)
		c.await("it to be gone", func(pods []corev1.Pod) bool { return len(pods) == 0 })
	}
	c.demandKept()
}

// numbersOf returns the NUMA nodes of a running pod's CPUs and of each of its GPUs, from the
// kubelet's checkpoints, or from the container if Berth decides.
func (c *hollowCluster) numbersOf(name string) string {
	c.Helper()
	pod := c.pod(name)
	at := slices.IndexFunc(c.nodes, func(n *hollowNode) bool { return n.spec.Name == pod.Spec.NodeName })
	n, m := c.nodes[at], c.machineOf(c.nodes[at])
	var cpus topology.CPUSet
	var gpus []int
	if n.spec.NRI {
		for _, g := range n.cgroups() {
			if g.pod == string(pod.UID) {
				cpus = g.cpus
			}
		}
		for line := range strings.Lines(n.environment(pod)) {
			if ids, found := strings.CutPrefix(strings.TrimSpace(line), "PCIDEVICE_EXAMPLE_COM_GPU="); found {
				for id := range strings.SplitSeq(ids, ",") {
					gpus = append(gpus, map[bool]int{true: 0, false: 1}[strings.HasPrefix(id, "0000:3")])
				}
			}
		}
	} else {
		cpus = n.held()[string(pod.UID)]["main"]
		for _, d := range podResources(c.T, n.dir, name).Devices {
			for _, id := range d.DeviceIds {
				gpus = append(gpus, int(id[0]-'0'))
			}
		}
	}
	slices.Sort(gpus)
	return fmt.Sprint(m.NodesOf(cpus), " ", gpus)
}
