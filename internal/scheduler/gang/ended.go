package gang

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/apiclient"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/scheduler/later"
	"github.com/berth-dev/berth/internal/wire"
)

// endedPatience is the time after which a member counts as deleted if the scheduler's watch no
// longer shows it and the watch for ended pods does not show it either.
const endedPatience = 5 * time.Second

// endings handles the ended pods of gangs. It adds them to their gangs, and removes the pods of
// former runs (gangs.Runs).
type endings struct{ gs *Groups }

// wanted reports whether an ended pod counts as a member. The pod counts if it already is a member.
// It also counts if its gang has members and the pod does not belong to a former run of the gang.
// The caller holds the lock.
func (e endings) wanted(pod *corev1.Pod) bool {
	if e.gs.book.of[pod.UID] != nil {
		return true
	}
	m := e.gs.book.memberOf(pod)
	if m == nil {
		return false
	}
	g := e.gs.book.groups[m.says.Gang]
	return g != nil && !g.runs.Former(pod)
}

// gone removes a deleted pod from its gang if the pod has ended.
func (e endings) gone(uid types.UID) {
	e.gs.change(uid, func(g *group) bool {
		ended := wire.Ended(g.members[uid].pod)
		if ended {
			e.gs.forget(g, uid)
		}
		return ended
	})
}

// part records that the scheduler's watch no longer shows a member. If the pod has ended, part
// returns its last version. The result open means that it is not known yet whether the pod has
// ended. If ended is nil and open is false, the pod counts as gone. The caller holds the lock.
func (e endings) part(m *member, pod *corev1.Pod) (ended *corev1.Pod, open bool) {
	gs := e.gs
	if gs.book.Ended == nil || m.pod.Spec.NodeName == "" {
		return nil, false
	}
	if ended = gs.book.Ended.Last(pod); ended != nil {
		return ended, false
	}
	if pod.DeletionTimestamp != nil || wire.Ended(m.pod) {
		return nil, false
	}
	m.parted = true
	g := gs.book.of[pod.UID]
	g.sum(m)
	gs.on(g, gangs.News{})
	later.Call(gs.book.Clock, endedPatience, func() { e.parted(pod) })
	return nil, true
}

// parted is called when endedPatience has passed since part returned open. If the watch for ended
// pods still does not show the member, parted removes it from its group.
func (e endings) parted(pod *corev1.Pod) {
	gs := e.gs
	gs.book.mu.Lock()
	g := gs.book.of[pod.UID]
	if g == nil || !g.members[pod.UID].parted {
		gs.book.mu.Unlock()
		return
	}
	if ended := gs.book.Ended.Last(pod); ended != nil {
		gs.book.mu.Unlock()
		gs.PodSeen(ended)
		return
	}
	gs.forget(g, pod.UID)
	gs.unlockAndLook(g)
}

// arrives reports whether a new pod is the first known pod of its run. If all pods of the gang have
// ended, it first calls beginAnew. The caller holds the lock.
func (e endings) arrives(pod *corev1.Pod) (first bool) {
	if !belongs(pod) || wire.Ended(pod) {
		return false
	}
	m := e.gs.book.memberOf(pod)
	if m == nil {
		return false
	}
	g := e.gs.book.groups[m.says.Gang]
	if g != nil && g.ended > 0 && g.ended == len(g.members) {
		e.beginAnew(g, pod)
	}
	return g == nil || !g.runs.Has(gangs.Run(pod))
}

// beginAnew forgets a gang whose pods have all ended, so that the new pod begins the gang again. If
// a pod that belongs to no former run has succeeded, beginAnew does nothing. The caller holds the
// lock.
func (e endings) beginAnew(g *group, pod *corev1.Pod) {
	pods := g.pods()
	now := gangs.RunsOf(append(pods, pod))
	if slices.ContainsFunc(pods, func(old *corev1.Pod) bool { return old.Status.Phase == corev1.PodSucceeded && !now.Former(old) }) {
		return
	}
	for _, old := range pods {
		e.gs.forget(g, old.UID)
	}
}

// recall adds to the gang those pods that ended before the gang was known and that belong to no
// former run. The caller holds the lock.
func (e endings) recall(g *group) {
	gs := e.gs
	if gs.book.Ended == nil {
		return
	}
	for _, old := range gs.book.Ended.Of(g.key) {
		if gs.book.of[old.UID] == nil && !g.runs.Former(old) && gs.book.join(old) == g {
			gs.take(g, old)
		}
	}
}

// prune forgets members of former runs if the number of runs with pods that have not ended has
// changed since the last call. The caller holds the lock.
func (e endings) prune(g *group) {
	live := g.runs.Live()
	if live == g.pruned || g.ended == 0 {
		return
	}
	g.pruned = live
	left := false
	for _, pod := range g.pods() {
		if g.runs.Former(pod) {
			e.gs.forget(g, pod.UID)
			left = true
		}
	}
	if left && g.plan == nil && !g.hasPlaced() { // the group was whole only in a former run
		g.Whole, g.Open, g.letIn = false, false, false
		delete(e.gs.admitter.admitted, g.key)
	}
}

// stays reports whether a pod has ended and is not being deleted.
func stays(pod *corev1.Pod) bool { return wire.Ended(pod) && pod.DeletionTimestamp == nil }

// endedPods implements Ended with a watch. It does not store the spec and status of pods without a
// gang.
type endedPods struct {
	ctx      context.Context
	logger   klog.Logger
	informer cache.SharedIndexInformer
	told     cache.InformerSynced
	begin    sync.Once
}

// hasEnded selects pods in the phases Succeeded and Failed.
const hasEnded = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"

const byGang = "gang"

// WatchEnded prepares a watch of ended pods, and makes it the Options.Ended of gs. The watch begins
// with the first gang.
func WatchEnded(ctx context.Context, client kubernetes.Interface, gs *Groups) error {
	index := func(obj any) ([]string, error) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, nil
		}
		if m, ok := gangs.PartOf(pod, true); ok && stays(pod) {
			return []string{m.Says.Gang.String()}, nil
		}
		return nil, nil
	}
	informer := corev1informers.NewFilteredPodInformer(client, metav1.NamespaceAll, 0, cache.Indexers{byGang: index},
		func(o *metav1.ListOptions) { o.FieldSelector = hasEnded })
	if err := informer.SetTransform(trimEnded); err != nil {
		return err
	}
	told, err := informer.AddEventHandler(endings{gs}.handler())
	if err != nil {
		return err
	}
	gs.book.Ended = &endedPods{ctx: ctx, logger: gs.book.Logger, informer: informer, told: told.HasSynced}
	return nil
}

// handler records the watch events of ended pods. After a broken watch, the old object of an update
// may be a deleted pod, and the new object another pod of the same name.
func (e endings) handler() cache.ResourceEventHandler {
	seen := func(obj any) {
		switch pod, ok := obj.(*corev1.Pod); {
		case !ok || !wire.Ended(pod):
		case stays(pod):
			e.gs.PodSeen(pod)
		default:
			e.gone(pod.UID)
		}
	}
	gone := func(obj any) {
		if pod, ok := apiclient.Last(obj).(*corev1.Pod); ok {
			e.gone(pod.UID)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: seen,
		UpdateFunc: func(was, is any) {
			if was.(metav1.Object).GetUID() != is.(metav1.Object).GetUID() {
				gone(was)
			}
			seen(is)
		},
		DeleteFunc: gone,
	}
}

// trimEnded keeps the fields of an ended pod that its gang needs. If the pod has no gang, trimEnded
// keeps only its name, UID and resource version.
func trimEnded(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	if belongs(pod) {
		return wire.TrimToGang(pod), nil
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}}, nil
}

// Want implements Ended.
func (e *endedPods) Want() {
	e.begin.Do(func() { go e.informer.RunWithContext(klog.NewContext(e.ctx, e.logger)) })
}

// Await implements Ended.
func (e *endedPods) Await() {
	ctx, cancel := context.WithTimeout(e.ctx, requestTimeout)
	defer cancel()
	cache.WaitForCacheSync(ctx.Done(), e.told)
}

// Of implements Ended.
func (e *endedPods) Of(key wire.GangKey) (pods []*corev1.Pod) {
	found, err := e.informer.GetIndexer().ByIndex(byGang, key.String())
	if err != nil {
		return nil
	}
	for _, obj := range found {
		pods = append(pods, obj.(*corev1.Pod))
	}
	return pods
}

// Last implements Ended.
func (e *endedPods) Last(pod *corev1.Pod) *corev1.Pod {
	obj, _, err := e.informer.GetStore().GetByKey(pod.Namespace + "/" + pod.Name)
	if last, ok := obj.(*corev1.Pod); err == nil && ok && last.UID == pod.UID && stays(last) {
		return last
	}
	return nil
}
