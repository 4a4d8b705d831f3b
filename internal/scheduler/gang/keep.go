package gang

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// keep replaces g.kept with the nodes that an eviction frees for members. The caller holds the
// lock.
func (g *group) keep(j *job, e *eviction, leader types.UID) {
	g.kept = map[types.UID]kept{}
	for _, pod := range j.Pods {
		if node := e.nodes[pod.UID]; node != "" {
			g.kept[pod.UID] = kept{pod: pod, node: node, shows: pod.UID == leader}
		}
	}
}

// forgone removes from g.kept the nodes that are kept unnecessarily, and returns them: nodes for
// pods that have left the group or, if the group is blocked, for all its pods without nodes.
// Without forgone, only the next attempt would release these nodes. If the leader's status does not
// show its nomination yet, forgone returns the leader's node but also leaves it in g.kept, so that
// a later call can withdraw the nomination. The caller holds the lock, releases it, and passes the
// result to forgo.
func (g *group) forgone() (list []kept) {
	if len(g.kept) == 0 || g.Planned() {
		return nil
	}
	blocked := g.blocked() != ""
	maps.DeleteFunc(g.kept, func(uid types.UID, k kept) bool {
		m := g.members[uid]
		switch {
		case m != nil && m.placed():
			return true
		case m != nil && !blocked:
			return false
		case m != nil:
			k.pod = m.pod
		}
		list = append(list, k)
		return m == nil || !k.shows || k.pod.Status.NominatedNodeName == k.node
	})
	return list
}

// forgo releases kept nodes. The caller must not hold the lock, because the scheduling queue, which
// stores nominations, calls PreEnqueue with its own lock held.
func (t *teller) forgo(list []kept) {
	for i := range list {
		k := &list[i]
		t.book.Forgo(k.pod, k.node)
		if k.pod.Status.NominatedNodeName == k.node && t.book.Lead.Leads() {
			go t.hideNomination(k.pod)
		}
	}
}

func (t *teller) hideNomination(pod *corev1.Pod) {
	ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), t.book.Logger), requestTimeout)
	defer cancel()
	if err := t.book.patchStatus(ctx, pod, map[string]any{"nominatedNodeName": nil}); err != nil && !isGone(err) {
		t.book.Logger.Error(err, "A node is still kept for a pod whose gang is not tried", "pod", klog.KObj(pod), "node", pod.Status.NominatedNodeName)
	}
}
