package gang

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/wire"
)

// setDeadline begins the time in which a gang with bound members is to become whole. It counts on
// this process's clock, from the first member that it saw bound since it leads: another clock may
// be anywhere, and another leader's Bindings may still be on their way here. The caller holds the
// lock.
func (gs *Groups) setDeadline(g *group) {
	if !gs.Lead.Leads() || !g.deadline.IsZero() {
		return
	}
	first, any := gs.Clock.Now(), false
	for _, m := range g.members {
		if !m.placed() || !m.active() || !m.sworn || m.bound.IsZero() {
			continue
		}
		if any = true; m.bound.Before(first) {
			first = m.bound
		}
	}
	if !any {
		return
	}
	if first.Before(gs.ledFrom) {
		first = gs.ledFrom
	}
	g.deadline = first.Add(gs.timeout(g))
	gs.callAt(g.deadline, func() { gs.expire(g) })
}

func (gs *Groups) timeout(g *group) time.Duration {
	if g.spec.Timeout > 0 {
		return g.spec.Timeout
	}
	return gs.Timeout
}

// overdue says whether the group has bound members, and was not whole in time. The caller holds the
// lock.
func (gs *Groups) overdue(g *group) bool {
	return !g.whole && !g.deadline.IsZero() && !gs.Clock.Now().Before(g.deadline) && gs.groups[g.key] == g
}

// expire begins to delete the bound members of a gang that is not whole at its deadline. Bindings
// that are being written are awaited: one of them may be the last that was missing.
func (gs *Groups) expire(g *group) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	switch {
	case !gs.overdue(g) || g.expiring:
		return
	case g.mates() != nil: // which of them are right nobody knows
		g.deadline = time.Time{}
		return
	case g.plan != nil && g.plan.released:
		gs.callAt(gs.Clock.Now().Add(firstPause), func() { gs.expire(g) })
		return
	case g.plan != nil:
		gs.drop(g, "the deadline has passed")
	}
	g.expiring = true
	go gs.end(g)
}

// end deletes the bound members, if the API server says as well that the gang is not whole. It is
// tried until it is done.
func (gs *Groups) end(g *group) {
	gs.mu.Lock()
	fresh, overdue := gs.copyOf(g), gs.overdue(g)
	gs.mu.Unlock()
	var err error
	if overdue {
		if err = gs.recount(fresh); err == nil && fresh.wrong == nil && !fresh.whole {
			err = gs.deleteAll(fresh)
		}
	}
	gs.mu.Lock()
	if err != nil {
		gs.Logger.Info("Members of a gang that was not whole in time cannot be deleted, will try again", "gang", g.key, "err", err)
		gs.callAt(gs.Clock.Now().Add(g.deletions.pause()), func() { gs.end(g) })
		gs.mu.Unlock()
		return
	}
	g.expiring, g.deletions, g.deadline = false, retry{}, time.Time{}
	if g.whole = g.whole || fresh.whole; !g.whole {
		gs.pause(g)
	}
	gs.unlockAndLook(g)
}

// copyOf returns a group that asks for the same, and that knows its members by UID alone. The
// caller holds the lock.
func (gs *Groups) copyOf(g *group) *group {
	out := &group{key: g.key, spec: g.spec, whole: g.whole, members: map[types.UID]*member{}}
	for uid := range g.members {
		out.members[uid] = nil
	}
	return out
}

// recount reads a group's object and its pods from the API server: what a watch has shown may be
// older than the last Binding. wrong says then that its object asks for what is not served.
func (gs *Groups) recount(g *group) error {
	ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), gs.Logger), requestTimeout)
	defer cancel()
	if g.key.Source.HasObject() && gs.Objects != nil {
		spec, err := gs.Objects.Read(ctx, g.key)
		switch {
		case isGone(err): // what it asked for last holds
		case spec.Key.IsZero(): // nothing was read
			return err
		default:
			g.spec, g.wrong, g.whole = spec, err, g.whole || spec.Ran
		}
	}
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return gs.Client.CoreV1().Pods(g.key.Namespace).List(ctx, o)
	})
	var bound []*corev1.Pod
	err := list.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" && belongs(pod) {
			bound = append(bound, pod.DeepCopy())
		}
		return nil
	})
	for _, pod := range bound {
		gs.countIn(g, pod)
	}
	maps.DeleteFunc(g.members, func(_ types.UID, m *member) bool { return m == nil })
	if g.spec.Minimum == 0 {
		g.read()
	}
	g.whole = g.whole || g.settled()
	return err
}

// countIn takes a pod with a node in that the API server has shown, if it is of the group: by its
// Binding, or because it was known as a member.
func (gs *Groups) countIn(g *group, pod *corev1.Pod) {
	_, known := g.members[pod.UID]
	sworn := swears(pod, g.key)
	if pod.Spec.NodeName == "" || !sworn && !known {
		return
	}
	says, _ := wire.ReadMembership(pod)
	m := &member{pod: pod, says: says, sworn: sworn}
	g.members[pod.UID] = m
	g.sum(m)
	g.whole = g.whole || wire.GangWasWhole(pod)
}

// deleteAll deletes the bound members, and returns why some could not be.
func (gs *Groups) deleteAll(g *group) (failed error) {
	deleted := 0
	for _, m := range g.members {
		if !m.sworn || !m.active() {
			continue
		}
		if err := gs.delete(m.pod); err != nil {
			failed = err
		} else {
			deleted++
		}
	}
	if failed == nil && deleted > 0 {
		groupsFailed.Inc()
	}
	return failed
}

// delete deletes a member that got a node while its gang did not.
func (gs *Groups) delete(pod *corev1.Pod) error {
	if !gs.Lead.Leads() {
		return nil
	}
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), gs.Logger), requestTimeout)
	defer cancel()
	err := gs.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	if isGone(err) {
		return nil
	}
	if err == nil {
		gs.Events.Eventf(pod, nil, corev1.EventTypeWarning, "GangFailed", "Scheduling", "Deleted: its gang did not get nodes for its minimum in time")
	}
	return err
}

// requestTimeout bounds one request to the API server.
const requestTimeout = 10 * time.Second

// lastRetry is the longest pause between two attempts to ask the API server for the same.
const lastRetry = 30 * time.Second

// retry counts attempts in a row that have failed.
type retry struct{ failures int }

// pause notes a failure, and returns how long to wait: each time twice as long.
func (r *retry) pause() time.Duration {
	r.failures++
	return doubled(r.failures-1, lastRetry)
}

// doubled is firstPause, doubled as often as that, and at most most.
func doubled(times int, most time.Duration) time.Duration {
	return min(most, firstPause<<min(times, 6))
}
