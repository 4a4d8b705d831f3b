package demo

import (
	"fmt"

	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/topology/shapes"
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

// nodeShapes are the nodes of the demo in their order: real machines with the kubelet's policies spread over them. Of
// each NUMA node's CPUs the first core of a socket is reserved.
var nodeShapes = []shape{
	{name: "xeon-a", machine: shapes.Xeon6230, policy: "single-numa-node", reserved: "0-1,40-41", wedge: 25},
	{name: "xeon-b", machine: shapes.Xeon6230, policy: "restricted", reserved: "0-1,40-41"},
	{name: "epyc-a", machine: shapes.EPYC7451, policy: "restricted", reserved: "0,48"},
	{name: "epyc-b", machine: shapes.EPYC7451, policy: "best-effort", reserved: "0,48"},
	{name: "xeon-c", machine: shapes.Xeon6130, policy: "single-numa-node", reserved: "0"},
	{name: "xeon-d", machine: shapes.Xeon6130, policy: "none", reserved: "0"},
}

// MinNodes is the smallest number of nodes that a demo has: one of each shape.
var MinNodes = len(nodeShapes)

// MaxNodes bounds the number of nodes: each takes about 80 MB.
const MaxNodes = 100

// Nodes returns count nodes, going round the shapes. The names are the same each time.
func Nodes(count int) ([]hollow.Spec, error) {
	if count < MinNodes || count > MaxNodes {
		return nil, fmt.Errorf("%d nodes: want %d to %d", count, MinNodes, MaxNodes)
	}
	specs := make([]hollow.Spec, 0, count)
	for i := range count {
		s := &nodeShapes[i%len(nodeShapes)]
		specs = append(specs, s.spec(i/len(nodeShapes)))
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
