package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/internal/suggest"
)

// nodeChange is a change of the nodes at the beginning of a simulation.
type nodeChange struct {
	// more is the number of empty nodes to add, by the name of the node that they copy.
	more    map[string]int
	without []string
}

// check returns an error if --more asks for no copy of a node, or for more copies than fit next to
// the nodes that exist.
func (c *nodeChange) check(nodes int) error {
	for _, name := range slices.Sorted(maps.Keys(c.more)) {
		if count := c.more[name]; count < 1 || count > trace.MaxNodes-nodes {
			return Usagef("--more %s=%d: want 1 to %d", name, count, trace.MaxNodes-nodes)
		}
	}
	return nil
}

// apply returns the changed nodes, and the pods of removed nodes. These pods arrive again, and run
// for the rest of their time. Pods that nothing ends run for the whole span.
func (c *nodeChange) apply(nodes []simulate.StartNode, span time.Duration) (out []simulate.StartNode, again []trace.Pod, err error) {
	if err := c.check(len(nodes)); err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.more)) {
		count := c.more[name]
		i, err := startNodeNamed(nodes, "--more", name)
		if err != nil {
			return nil, nil, err
		}
		for k := range count {
			out = append(out, emptyLike(&nodes[i], fmt.Sprintf("%s/%d", name, k+1)))
		}
	}
	gone := make([]bool, len(nodes))
	for _, name := range c.without {
		i, err := startNodeNamed(nodes, "--without", name)
		if err != nil {
			return nil, nil, err
		}
		gone[i] = true
	}
	for i := range nodes {
		if gone[i] {
			again = append(again, arrivingAgain(nodes[i].Pods, span)...)
		}
	}
	left := slices.Clone(nodes)[:0]
	for i := range nodes {
		if !gone[i] {
			left = append(left, nodes[i])
		}
	}
	if out = append(left, out...); len(out) == 0 {
		return nil, nil, Usagef("--without %s: no node is left: want at least one", strings.Join(c.without, ","))
	}
	return out, again, nil
}

func startNodeNamed(nodes []simulate.StartNode, flag, name string) (int, error) {
	names := make([]string, len(nodes))
	for i := range nodes {
		names[i] = nodes[i].Name
	}
	i := slices.Index(names, name)
	if i < 0 {
		return 0, Usagef("%s: node %.253q is not simulated; the simulated nodes are %s%s", flag, name, someNames(names), suggest.DidYouMean(name, names))
	}
	return i, nil
}

// emptyLike returns an empty copy of a node. It keeps only the requests of pods of DaemonSets and
// of similar pods (KeptCPU, KeptMiB, KeptOthers).
func emptyLike(n *simulate.StartNode, name string) simulate.StartNode {
	out := *n
	out.Name, out.Pods, out.State = name, nil, n.Model.NewState()
	for _, pool := range n.State.Snapshot().Devices {
		out.State.SetPool(pool)
	}
	return out
}

// arrivingAgain converts pods to rows of a list of arriving pods.
func arrivingAgain(pods []simulate.StartPod, span time.Duration) (out []trace.Pod) {
	for i := range pods {
		p := &pods[i]
		row := trace.Pod{Name: p.UID, MilliCPU: p.MilliCPU, MiB: p.MiB, GPUs: p.GPUs, Others: p.Others, Timed: true, Deleted: int64(span.Seconds())}
		if p.GPUs > 0 {
			row.MilliGPU = trace.Thousandths
		}
		if p.Left > 0 {
			row.Deleted = p.Left
		}
		out = append(out, row)
	}
	return out
}
