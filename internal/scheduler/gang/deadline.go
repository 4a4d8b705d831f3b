package gang

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/wire"
)

// copy returns a group with the same key, specification and UIDs of members, but without the
// members' pods.
func (g *group) copy() *group {
	out := &group{key: g.key, spec: g.spec, members: map[types.UID]*member{}}
	out.Whole = g.Whole
	for uid := range g.members {
		out.members[uid] = nil
	}
	return out
}

// recount reads the group's object and pods from the API server, because the watch may not show the
// last Bindings yet. It sets g.Whole if enough members for the minimum have nodes, or if the API
// shows that they had nodes at some time. It sets g.wrong if the object has fields that Berth does
// not support.
func (t *teller) recount(g *group) error {
	ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), t.book.Logger), requestTimeout)
	defer cancel()
	if g.key.Source.HasObject() && t.book.Objects != nil {
		spec, err := t.book.Objects.Read(ctx, g.key)
		switch {
		case isGone(err): // the object is gone: keep the last known specification
		case spec.Key.IsZero(): // the object could not be read
			return err
		default:
			g.spec, g.wrong, g.Whole = spec, err, g.Whole || spec.Ran
		}
	}
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return t.book.Client.CoreV1().Pods(g.key.Namespace).List(ctx, o)
	})
	var pods []*corev1.Pod
	err := list.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		if pod, ok := obj.(*corev1.Pod); ok && belongs(pod) && g.concerns(pod) {
			pods = append(pods, pod.DeepCopy())
		}
		return nil
	})
	now := gangs.RunsOf(pods)
	for _, pod := range pods {
		if !now.Former(pod) {
			g.countIn(pod)
		}
	}
	maps.DeleteFunc(g.members, func(_ types.UID, m *member) bool { return m == nil })
	if g.spec.Minimum == 0 {
		g.read()
	}
	g.Whole = g.Whole || g.settled()
	return err
}

// concerns reports whether a pod was known as a member, or its Binding names the gang. For a pod
// without a node, it also returns true if the pod's own annotations or labels name the gang.
func (g *group) concerns(pod *corev1.Pod) bool {
	_, known := g.members[pod.UID]
	part, _ := gangs.PartOf(pod, false)
	return known || swears(pod, g.key) || pod.Spec.NodeName == "" && part.Says.Gang == g.key
}

// countIn adds a pod from the API server to the members. It ignores a pod without a node. It also
// ignores a pod that was not known as a member and whose Binding does not name the gang.
func (g *group) countIn(pod *corev1.Pod) {
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

// deleteAll deletes the active members whose Bindings name the gang. It returns an error if it
// could not delete all of them.
func (t *teller) deleteAll(g *group) (failed error) {
	deleted := 0
	for _, m := range g.members {
		if !m.sworn || !m.active() {
			continue
		}
		if err := t.delete(m.pod); err != nil {
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

// delete deletes a bound member by its UID, and writes an event. If this process does not lead,
// delete does nothing.
func (t *teller) delete(pod *corev1.Pod) error {
	if !t.book.Lead.Leads() {
		return nil
	}
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), t.book.Logger), requestTimeout)
	defer cancel()
	err := t.book.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	if isGone(err) {
		return nil
	}
	if err == nil {
		t.book.Events.Eventf(pod, nil, corev1.EventTypeWarning, "GangFailed", "Scheduling", "Deleted: the gang did not get nodes for its minimum number of pods before the deadline")
	}
	return err
}
