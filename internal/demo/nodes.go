package demo

import (
	"fmt"

	"github.com/berth-dev/berth/internal/hollow"
)

// shape is a machine with a kubelet configuration, of which the demo runs one or more nodes.
type shape struct {
	name    string
	machine string
	policy  string // topologyManagerPolicy
	// reserved is reservedSystemCPUs.
	reserved string
	// wedge is the size in CPUs of pods of which three fit the node by amount and two by NUMA node; 0 for none.
	wedge int64
}

// shapes are the nodes of the demo in their order. The machines follow real ones:
//   - xeon: two sockets, SMT, CPU numbers that alternate between the sockets, as firmware of Dell servers gives them;
//   - epyc: AMD Rome with four NUMA nodes per socket (NPS4) and two level-3 caches in each;
//   - small: older two-socket servers without SMT.
var shapes = []shape{
	{name: "xeon-a", machine: xeon, policy: "single-numa-node", reserved: "0,1,24,25", wedge: 14},
	{name: "xeon-b", machine: xeon, policy: "restricted", reserved: "0,1,24,25"},
	{name: "epyc-a", machine: "package:2 numa:4 l3:2 core:4 pu:2 mem:32Gi dist:10,12,32", policy: "restricted", reserved: "0,64"},
	{name: "epyc-b", machine: "package:1 numa:4 l3:2 core:4 pu:2 mem:32Gi dist:10,12", policy: "best-effort", reserved: "0,32"},
	{name: "small-a", machine: small, policy: "single-numa-node", reserved: "0"},
	{name: "small-b", machine: small, policy: "none", reserved: "0"},
}

const (
	xeon  = "package:2 numa:1 core:12 pu:2 number:interleaved mem:96Gi dist:10,21"
	small = "package:2 numa:1 core:8 pu:1 mem:32Gi dist:10,20"
)

// MinNodes is the smallest number of nodes that a demo has: one of each shape.
var MinNodes = len(shapes)

// MaxNodes bounds the number of nodes: each takes about 80 MB.
const MaxNodes = 100

// Nodes returns count nodes, going round the shapes. The names are the same each time.
func Nodes(count int) ([]hollow.Spec, error) {
	if count < MinNodes || count > MaxNodes {
		return nil, fmt.Errorf("%d nodes: want %d to %d", count, MinNodes, MaxNodes)
	}
	specs := make([]hollow.Spec, 0, count)
	for i := range count {
		s := &shapes[i%len(shapes)]
		specs = append(specs, s.spec(i/len(shapes)))
	}
	return specs, nil
}

// spec returns the round-th node of the shape.
func (s *shape) spec(round int) hollow.Spec {
	name := s.name
	if round > 0 {
		name = fmt.Sprintf("%s-%d", s.name, round+1)
	}
	return hollow.Spec{
		Name:    name,
		Machine: s.machine,
		KubeletConfig: fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: %s
topologyManagerScope: container
reservedSystemCPUs: %q
`, s.policy, s.reserved),
	}
}
