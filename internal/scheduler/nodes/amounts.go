package nodes

import (
	"context"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/internal/apiclient"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/scheduler/later"
	"github.com/berth-dev/berth/internal/wire"
)

// watchAmounts passes the reports of a kind with only amounts (apiclient.CoarseKinds) to the Feed,
// until ctx ends. If the API server does not serve the kind, watchAmounts asks again every
// lookForKinds, because the kind may be installed later.
func (f *Feed) watchAmounts(ctx context.Context, config *rest.Config, kind *apiclient.Coarse) {
	client, err := kind.Client(config)
	if err != nil {
		f.Logger.Error(err, "Reports cannot be read", "kind", kind.Resource.Resource)
		return
	}
	number := coarseNumber(kind)
	store := newReflectorStore(
		func(o metav1.Object) { f.amountsSeen(number, o) },
		func(name string) { f.amountsGone(number, name) },
	)
	for ctx.Err() == nil {
		err := client.Get().Resource(kind.Resource.Resource).Param("limit", "1").Do(ctx).Error()
		if err == nil {
			served, stop := context.WithCancel(ctx)
			list := cache.NewListWatchFromClient(client, kind.Resource.Resource, metav1.NamespaceAll, fields.Everything())
			store.run(served, &untilGone{ListWatch: list, gone: stop}, kind.New())
			stop()
			_ = store.Replace(nil, "") // the objects are gone with their kind
		} else if !apierrors.IsNotFound(err) {
			f.Logger.Info("Reports cannot be read", "kind", kind.Resource.Resource, "err", err)
		}
		later.Wait(ctx, f.Table.clock, lookForKinds)
	}
}

// lookForKinds is the interval at which watchAmounts asks again for a kind that is not served.
const lookForKinds = time.Minute

func coarseNumber(kind *apiclient.Coarse) int {
	for i := range apiclient.CoarseKinds {
		if apiclient.CoarseKinds[i].Resource == kind.Resource {
			return i
		}
	}
	panic("no coarse kind: " + kind.Resource.String())
}

// untilGone ends a watch when its kind is no longer served.
type untilGone struct {
	*cache.ListWatch
	gone func()
}

var _ cache.ListerWatcherWithContext = (*untilGone)(nil)

// ListWithContext implements cache.ListerWatcherWithContext.
func (u *untilGone) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := u.ListWatch.ListWithContext(ctx, o)
	return list, u.judge(err)
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (u *untilGone) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := u.ListWatch.WatchWithContext(ctx, o)
	return w, u.judge(err)
}

func (u *untilGone) judge(err error) error {
	if apierrors.IsNotFound(err) {
		u.gone()
	}
	return err
}

func (f *Feed) amountsSeen(kind int, o metav1.Object) {
	f.coarse.Store(true)
	n := f.Table.Named(o.GetName())
	f.tell(n, f.takeAmounts(n, kind, o))
}

func (f *Feed) takeAmounts(n *Node, kind int, o metav1.Object) news {
	f.reports.Lock()
	defer f.reports.Unlock()
	n.amounts.objects[kind] = o
	return f.goByAmounts(n)
}

func (f *Feed) amountsGone(kind int, name string) {
	n := f.Table.Named(name)
	f.tell(n, f.loseAmounts(n, kind))
}

func (f *Feed) loseAmounts(n *Node, kind int) news {
	f.reports.Lock()
	defer f.reports.Unlock()
	n.amounts.objects[kind] = nil
	switch {
	case !n.amounts.none():
		return f.goByAmounts(n)
	case n.amounts.inUse.CompareAndSwap(true, false):
		n.lose()
	}
	return noNews
}

// goByAmounts makes the node use its reports with only amounts. It does nothing if there is a
// report of an agent, or if nothing has changed. The caller holds f.reports, and passes the result
// to tell.
func (f *Feed) goByAmounts(n *Node) news {
	a := &n.amounts
	if a.full || a.none() {
		return noNews
	}
	beside := f.Beside(n.name)
	if a.inUse.Load() && a.read == a.objects && reflect.DeepEqual(a.beside, beside) {
		return noNews
	}
	a.read, a.beside = a.objects, beside
	a.inUse.Store(true)
	var readings []*nodestate.Reading
	for _, o := range a.objects {
		if o == nil {
			continue
		}
		r, err := f.Table.kinds.ReadCoarse(o, beside, n.lastKind())
		if err != nil {
			f.Logger.Error(err, "Report cannot be read", "node", n.name)
			continue
		}
		readings = append(readings, r)
	}
	if r := nodestate.Prefer(readings); r != nil {
		return f.take(n, r)
	}
	return noNews
}

// amountsWith records a pod on a node that uses reports with only amounts, and reads these reports
// again, because their meaning depends on the node's pods. It forgets an ended pod at once, because
// the kubelet releases a pod's resources before it reports the end. It returns false, and does
// nothing, if the pod's node does not use reports with only amounts.
func (f *Feed) amountsWith(pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	n := f.Table.Known(pod.Spec.NodeName)
	if n == nil || !n.amounts.inUse.Load() {
		return false
	}
	if wire.Ended(pod) {
		f.podGone(pod)
		f.letGo(n, f.Table.clock.Now())
	} else {
		f.podSeen(pod, false)
	}
	f.recount(n)
	return true
}

// amountsWithout records that a pod has left the API. No agent reports when the kubelet has
// released the pod's resources, so they count as released after SettleAfter.
func (f *Feed) amountsWithout(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		return
	}
	n := f.Table.Known(pod.Spec.NodeName)
	if n == nil || !n.amounts.inUse.Load() {
		return
	}
	f.recount(n)
	f.letGoLater(n, n.amounts.inUse.Load)
}

// NodeSeen records that a Node exists or has changed.
func (f *Feed) NodeSeen(name string) {
	if f.coarse.Load() {
		f.recount(f.Table.Named(name))
	}
}

// recount reads the node's reports with only amounts again if they, or the facts of
// FeedOptions.Beside, have changed.
func (f *Feed) recount(n *Node) {
	f.reports.Lock()
	what := f.goByAmounts(n)
	f.reports.Unlock()
	f.tell(n, what)
}
