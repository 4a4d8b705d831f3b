package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/topology"
)

// PreScore spares pods that pass untouched the calls of Score.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if cycleOf(state) == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score ranks a node that takes the pod. What the pod would get is in the verdict; nothing is decided here.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	c := cycleOf(state)
	if c == nil {
		return 0, nil
	}
	n := p.nodes.of(info.Node())
	w, ok := c.recall(n, p.args.StaleAfter.Duration)
	if !ok {
		w = p.consult(c, n)
	}
	if !w.admits() {
		return 0, nil
	}
	return w.score(), nil
}

// ScoreExtensions implements fwk.ScorePlugin: scores are final.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// score is the weighted mean of its parts, each between 0 and fwk.MaxScore.
func (s *Scoring) score(a *ledger.Answer, n *node) int64 {
	machine := n.machine()
	if machine == nil {
		return 0
	}
	certain := int64(0)
	if a.Certain {
		certain = fwk.MaxScore
	}
	sum := s.Certainty*certain + s.NUMANodes*fewness(a.Verdict.NUMA) +
		s.Fit*s.fit(n.View().FreeCPUs(), machine, a.Verdict.NUMA) + s.Distance*closeness(machine, a.Verdict.NUMA)
	return sum / (s.Certainty + s.NUMANodes + s.Fit + s.Distance)
}

// fewness is best for a pod on one NUMA node, or on none.
func fewness(set topology.NUMASet) int64 { return fwk.MaxScore / int64(max(1, set.Len())) }

// fit says how full, or how empty, the NUMA nodes of the pod are.
func (s *Scoring) fit(free topology.CPUSet, m *topology.Machine, set topology.NUMASet) int64 {
	var room, all int64
	for id := range set.All() {
		if n := m.NUMANode(id); n != nil {
			room += int64(n.CPUs.AndLen(&free))
			all += int64(n.CPUs.Len())
		}
	}
	if all == 0 {
		return 0
	}
	if s.Strategy == LeastAllocated {
		return fwk.MaxScore * room / all
	}
	return fwk.MaxScore * (all - room) / all
}

// closeness compares the mean distance among the NUMA nodes with that of a node to itself.
func closeness(m *topology.Machine, set topology.NUMASet) int64 {
	const local = 10 // the distance of a node to itself (ACPI SLIT)
	var sum, pairs int64
	for i := range m.NUMANodes {
		if len(m.NUMANodes[i].Distances) != len(m.NUMANodes) || !set.Has(m.NUMANodes[i].ID) {
			continue
		}
		for j, d := range m.NUMANodes[i].Distances {
			if set.Has(m.NUMANodes[j].ID) {
				sum += int64(d)
				pairs++
			}
		}
	}
	if sum == 0 {
		return fwk.MaxScore
	}
	return min(fwk.MaxScore, fwk.MaxScore*local*pairs/sum)
}
