package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// maxExplained bounds how many nodes a refusal is worked out for; the others are counted.
const maxExplained = 64

// maxExplanations bounds how many different explanations an event names.
const maxExplanations = 4

// PostFilter comes before preemption. While any node merely waits for a report it ends the attempt there: whether
// somebody has to be evicted is known once the report is in, and the report wakes the pod at once. Otherwise it adds
// why the nodes refuse, per NUMA node, and leaves the rest to preemption.
func (p *Plugin) PostFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	c := cycleOf(state)
	if c == nil || !p.ready.Load() {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	var by [3][]*node
	for i, code := range []fwk.Code{fwk.Pending, fwk.Unschedulable, fwk.UnschedulableAndUnresolvable} {
		var err error
		if by[i], err = p.withStatus(statuses, code); err != nil {
			return nil, fwk.AsStatus(err)
		}
	}
	p.waiters.blame(pod.UID, slices.Concat(by[:]...))
	if waiting := len(by[0]); waiting > 0 {
		p.runOutOfPatience(pod, c)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("Berth: %s for a report that will tell whether the pod fits; nobody is preempted before", nodesWait(waiting)))
	}
	if text := p.explain(c, by[1]); text != "" {
		return nil, fwk.NewStatus(fwk.Unschedulable, text)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// runOutOfPatience wakes the pod when it shall wait for certainty no longer.
func (p *Plugin) runOutOfPatience(pod *corev1.Pod, c *cycle) {
	if left := c.patientUntil.Sub(p.clock.Now()); left > 0 {
		p.clock.AfterFunc(left, func() { p.waiters.wakeOne(pod) })
	}
}

func nodesWait(n int) string {
	if n == 1 {
		return "1 node waits"
	}
	return fmt.Sprintf("%d nodes wait", n)
}

// withStatus returns the nodes that this plugin gave a status of the code.
func (p *Plugin) withStatus(statuses fwk.NodeToStatusReader, code fwk.Code) ([]*node, error) {
	infos, err := statuses.NodesForStatusCode(p.handle.SnapshotSharedLister().NodeInfos(), code)
	if err != nil {
		return nil, err
	}
	var out []*node
	for _, info := range infos {
		name := info.Node().Name
		if statuses.Get(name).Plugin() == Name {
			out = append(out, p.nodes.get(name))
		}
	}
	return out, nil
}

// explain says in one line why nodes refuse, the most frequent reason first.
func (p *Plugin) explain(c *cycle, refusing []*node) string {
	count := map[string]int{}
	for _, n := range refusing[:min(len(refusing), maxExplained)] {
		if refusal, ok := n.Explain(c.Request); ok {
			count[refusal.String()]++
		}
	}
	if len(count) == 0 {
		return ""
	}
	texts := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	var b strings.Builder
	b.WriteString("Berth: ")
	told := 0
	for i, text := range texts[:min(len(texts), maxExplanations)] {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %s", nodeCount(count[text]), text)
		told += count[text]
	}
	if more := len(refusing) - told; more > 0 {
		fmt.Fprintf(&b, "; %s more", nodeCount(more))
	}
	return b.String()
}

func nodeCount(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}
