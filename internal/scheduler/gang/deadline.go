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

	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/wire"
)

// boundSince is when the first member of a gang was seen bound that has no deadline yet, by this
// process's clock and since it leads: another clock may be anywhere, and another leader's Bindings
// may still be on their way here. It is zero where none was, or where no deadline is needed. The
// caller holds the lock.
func (gs *Groups) boundSince(g *group) (first time.Time) {
	if !gs.Lead.Leads() || g.Whole || !g.Deadline.IsZero() || g.spec.Minimum == 0 {
		return first
	}
	for _, m := range g.members {
		if m.placed() && m.active() && m.sworn && !m.bound.IsZero() && (first.IsZero() || m.bound.Before(first)) {
			first = m.bound
		}
	}
	if !first.IsZero() && first.Before(gs.ledFrom) {
		return gs.ledFrom
	}
	return first
}

func (gs *Groups) timeout(g *group) time.Duration {
	if g.spec.Timeout > 0 {
		return g.spec.Timeout
	}
	return gs.Timeout
}

// end deletes the bound members, if the API server says as well that the gang is not whole. It is
// tried until it is done.
func (gs *Groups) end(g *group) {
	gs.mu.Lock()
	fresh, overdue := gs.copyOf(g), !g.Whole && !g.Deadline.IsZero() && gs.groups[g.key] == g
	gs.mu.Unlock()
	var err error
	if overdue {
		if err = gs.recount(fresh); err == nil && fresh.wrong == nil && !fresh.Whole {
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
	g.deletions = retry{}
	gs.on(g, gangs.Ended{Whole: fresh.Whole})
	gs.unlockAndLook(g)
}

// copyOf returns a group that asks for the same, and that knows its members by UID alone. The
// caller holds the lock.
func (gs *Groups) copyOf(g *group) *group {
	out := &group{key: g.key, spec: g.spec, members: map[types.UID]*member{}}
	out.Whole = g.Whole
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
			g.spec, g.wrong, g.Whole = spec, err, g.Whole || spec.Ran
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
	g.Whole = g.Whole || g.settled()
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
	g.Whole = g.Whole || wire.GangWasWhole(pod)
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
	return gangs.Doubled(r.failures-1, lastRetry)
}
