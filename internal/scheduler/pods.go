package scheduler

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corev1listers "k8s.io/client-go/listers/core/v1"

	"github.com/berth-dev/berth/internal/bounded"
	"github.com/berth-dev/berth/internal/wire"
)

// uidOf returns the UID by which reports name the pod: for a static pod, the UID of its mirror pod.
func uidOf(pod *corev1.Pod) string { return string(pod.UID) }

// pods lists the pods that the scheduler's own watch has shown. It stores their parsed requests, so
// that each version of a pod is parsed only once. A pointer identifies a version, because objects
// from the watch are never changed.
type pods struct {
	corev1listers.PodLister

	mu sync.Mutex
	of bounded.Map[types.UID, readPod]
}

func newPods(shown corev1listers.PodLister) pods {
	return pods{PodLister: shown, of: bounded.New[types.UID, readPod](maxAsks)}
}

type readPod struct {
	version *corev1.Pod
	ask     wire.Ask
	err     error
}

// maxAsks is the maximum number of pods with stored requests.
const maxAsks = 4096

// read is wire.ReadPending with a cache. It does not store requests of pods that have a node, are
// gone, or stand for a Reservation.
func (p *pods) read(pod *corev1.Pod) (wire.Ask, error) {
	p.mu.Lock()
	known, _ := p.of.Get(pod.UID)
	p.mu.Unlock()
	if known.version == pod {
		return known.ask, known.err
	}
	ask, err := wire.ReadPending(pod)
	if wire.OfReservation(pod) || p.gone(pod) {
		return ask, err // no event would remove the entry
	}
	p.remember(readPod{pod, ask, err})
	if p.gone(pod) {
		p.forget(pod.UID) // the pod has gone since the first check
	}
	return ask, err
}

// gone reports whether the pod has left the API, or has a node.
func (p *pods) gone(pod *corev1.Pod) bool {
	now, err := p.Pods(pod.Namespace).Get(pod.Name)
	if err == nil {
		return now.UID != pod.UID || now.Spec.NodeName != ""
	}
	return apierrors.IsNotFound(err)
}

// uid returns the UID of the pod with this name, or "".
func (p *pods) uid(namespace, name string) types.UID {
	pod, err := p.Pods(namespace).Get(name)
	if err != nil {
		return ""
	}
	return pod.UID
}

func (p *pods) waits(pod *corev1.Pod) bool { return !p.gone(pod) }

func (p *pods) remember(r readPod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of.Set(r.version.UID, r)
}

// same reports whether two versions of a pod have the same request. The requests may differ because
// a pod can be resized before it is bound. Two unreadable versions count as equal.
func (p *pods) same(then, now *corev1.Pod) bool {
	before, wrong := p.read(then)
	after, err := p.read(now)
	return (wrong == nil) == (err == nil) && before.Equal(&after)
}

func (p *pods) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of.Delete(uid)
}

// forgetIfGone removes a pod from the Waiters if it has left the API or has a node. The event about
// the pod's deletion or Binding may have come before the pod was added to the Waiters.
func (c *core) forgetIfGone(pod *corev1.Pod) {
	if wire.OfReservation(pod) {
		if !c.reservations.Wants(pod.UID) {
			c.waiters.Done(uidOf(pod))
		}
		return
	}
	if c.pods.gone(pod) {
		c.waiters.Done(uidOf(pod))
	}
}
