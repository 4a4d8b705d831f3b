package simulate

import (
	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/placement"
)

// Follower simulates a cluster pod by pod, and its caller chooses the nodes. Before each choice,
// Choices returns the nodes that a strategy might choose. A Follower is not safe for concurrent
// use.
type Follower struct {
	p     *player
	of    []int32
	order []int32
}

// Follow returns a Follower with empty nodes. The strategy must see NUMA nodes (it is not Blind),
// and must not need to know the load in advance.
func (e *Experiment) Follow(s *Strategy) *Follower {
	all, of := shapes(e.Pods)
	d := trace.NewDraw(e.Nodes, e.Pods, 0, nil)
	return &Follower{newPlayer(e.Ground(e.Nodes, s.Blind), all, s, nil, d), of, d.Order}
}

// Choices returns the equally good nodes from which the strategy would choose at random if the pod
// arrived now. Pods and nodes are indices into the lists of the Experiment. Choices returns none if
// no node admits the pod.
func (f *Follower) Choices(pod int) (nodes []int) {
	f.p.learn(f.of[pod])
	for _, node := range f.p.equals(f.order, f.of[pod]) {
		nodes = append(nodes, int(node))
	}
	return nodes
}

// Put places the pod on the node and returns the kubelet's answer and decision. The decision is
// valid until the next Put. The decision is nil if the cluster has no NUMA nodes.
func (f *Follower) Put(node, pod int) (Outcome, *placement.Decision) {
	o := f.p.cluster.Put(node, int32(pod), &f.p.scores.shapes[f.of[pod]], -1)
	f.p.scores.changed(node)
	if c, pins := f.p.cluster.(*numa); pins {
		return o, &c.decision
	}
	return o, nil
}
