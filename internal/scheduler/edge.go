package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/scheduler/later"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/scheduler/wake"
)

// wakeEdge connects package wake with the framework's scheduling queue.
type wakeEdge struct {
	clock     clock.WithDelayedExecution
	activator fwk.PodActivator
	logger    klog.Logger
}

var _ wake.Edge = (*wakeEdge)(nil)

// Now implements wake.Edge.
func (e *wakeEdge) Now() time.Time { return e.clock.Now() }

// After implements wake.Edge.
func (e *wakeEdge) After(d time.Duration, do func()) { later.Call(e.clock, d, do) }

// Activate implements wake.Edge. The queue finds a pod by namespace, name and UID.
func (e *wakeEdge) Activate(pods []wake.Pod) {
	found := make(map[string]*corev1.Pod, len(pods))
	for _, p := range pods {
		found[p.Namespace+"/"+p.Name] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: types.UID(p.UID)}}
	}
	e.activator.Activate(e.logger, found)
}

func waiterOf(pod *corev1.Pod) wake.Pod {
	return wake.Pod{UID: uidOf(pod), Namespace: pod.Namespace, Name: pod.Name, Priority: corev1helpers.PodPriority(pod)}
}

func wakeNodes(lists ...[]*nodes.Node) []wake.Node {
	var out []wake.Node
	for _, list := range lists {
		for _, n := range list {
			out = append(out, n.Account())
		}
	}
	return out
}
