package gang

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
)

// PreEnqueue returns the reason why the scheduler must not try a pod now, or nil.
func (gs *Groups) PreEnqueue(pod *corev1.Pod) *fwk.Status {
	if !wire.InGang(pod) {
		return nil
	}
	gs.book.mu.Lock()
	defer gs.book.mu.Unlock()
	g := gs.book.of[pod.UID]
	if g == nil {
		return notNow(unseen)
	}
	if m := g.members[pod.UID]; m.pod.ResourceVersion != pod.ResourceVersion && pod.Spec.NodeName == "" {
		m.pod = pod
		g.sum(m)
	}
	if why := gs.book.gate(g, pod.UID); why != "" {
		return notNow(why)
	}
	return nil
}

// Surplus reports whether the pod belongs to a gang that already has its minimum, so that its
// pending members are placed one by one.
func (gs *Groups) Surplus(uid types.UID) bool {
	if !gs.book.any.Load() {
		return false
	}
	gs.book.mu.Lock()
	defer gs.book.mu.Unlock()
	g := gs.book.of[uid]
	return g != nil && g.Open
}

// Reserve returns the reason why a planned member must not get its node, or nil. It reserves
// nothing, because the ledger has had the reservation since the plan was made.
func (gs *Groups) Reserve(pod *corev1.Pod, node string, account *ledger.Node) *fwk.Status {
	_, at := gs.book.find(pod.UID)
	switch {
	case at == nil || at.node != node:
		return fwk.NewStatus(fwk.Unschedulable, "Berth: the plan of its gang was dropped")
	case account != nil && !account.View().Holds(string(pod.UID)):
		return fwk.NewStatus(fwk.Unschedulable, "Berth: the reservation of its gang on "+node+" is no longer valid")
	}
	return nil
}

// Alone reports whether the scheduler places the pod by itself, and not by the plan of a gang: the
// pod belongs to no gang, or its gang has its minimum and no plan.
func (gs *Groups) Alone(pod *corev1.Pod) bool {
	gs.book.mu.Lock()
	defer gs.book.mu.Unlock()
	g := gs.book.of[pod.UID]
	return g == nil || !g.Planned() && g.settled()
}

// BoundFor returns the gang that the pod's Binding will name, and whether the gang is whole with
// this pod. It returns the zero value if the pod has no gang.
func (gs *Groups) BoundFor(uid types.UID) wire.BoundFor {
	if !gs.book.any.Load() {
		return wire.BoundFor{}
	}
	gs.book.mu.Lock()
	defer gs.book.mu.Unlock()
	g := gs.book.of[uid]
	if g == nil {
		return wire.BoundFor{}
	}
	m, with := g.members[uid], gangs.Count{}
	if !m.summed.done {
		with.Add(m.says.Task, 1)
	}
	whole := g.wrong == nil && g.spec.Minimum > 0 && g.lacks(&g.done, &with) == ""
	return wire.BoundFor{Gang: g.key, Whole: whole}
}

// Count counts the groups by stage.
func (gs *Groups) Count() map[gangs.Stage]int {
	out := map[gangs.Stage]int{}
	if !gs.book.any.Load() {
		return out
	}
	gs.book.mu.Lock()
	defer gs.book.mu.Unlock()
	for _, g := range gs.book.groups {
		out[g.state()]++
	}
	return out
}
