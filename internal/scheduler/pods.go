package scheduler

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corev1listers "k8s.io/client-go/listers/core/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// uidOf returns the UID by which reports name the pod: a static pod goes by its mirror's.
func uidOf(pod *corev1.Pod) string { return string(pod.UID) }

// pods are the pods as the scheduler's own watch has shown them. What they ask for is remembered,
// so that each version of a pod is read once. A version is an object, which nobody changes: the
// resourceVersion does not tell two objects apart that stand for one Reservation.
type pods struct {
	corev1listers.PodLister

	mu sync.Mutex
	of map[types.UID]readPod
}

// readPod is what a version of a pod asks for.
type readPod struct {
	version *corev1.Pod
	ask     wire.Ask
	err     error
}

// maxAsks is the most pods whose asks are remembered. With one more, any other is forgotten.
const maxAsks = 4096

// read is wire.ReadPod.
func (p *pods) read(pod *corev1.Pod) (wire.Ask, error) {
	p.mu.Lock()
	known := p.of[pod.UID]
	p.mu.Unlock()
	if known.version == pod {
		return known.ask, known.err
	}
	ask, err := wire.ReadPod(pod)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remember(readPod{pod, ask, err})
	return ask, err
}

func (p *pods) remember(r readPod) {
	if p.of == nil {
		p.of = map[types.UID]readPod{}
	}
	if _, known := p.of[r.version.UID]; !known && len(p.of) >= maxAsks {
		for uid := range p.of {
			delete(p.of, uid)
			break
		}
	}
	p.of[r.version.UID] = r
}

// same says whether two versions of a pod ask for the same: it can be resized before it is bound.
// What cannot be read is the same as anything else that cannot.
func (p *pods) same(then, now *corev1.Pod) bool {
	before, wrong := p.read(then)
	after, err := p.read(now)
	return (wrong == nil) == (err == nil) && before.Equal(&after)
}

// forget ends what is remembered of a pod that is gone, or has its node.
func (p *pods) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, uid)
}

// forgetIfGone forgets a pod that left the API while it was being tried. Its deletion was told
// before it joined those who wait.
func (c *core) forgetIfGone(pod *corev1.Pod) {
	if wire.OfReservation(pod) {
		if !c.reservations.Wants(pod.UID) {
			c.waiters.Done(uidOf(pod))
		}
		return
	}
	now, err := c.pods.Pods(pod.Namespace).Get(pod.Name)
	gone := err == nil && (now.UID != pod.UID || now.Spec.NodeName != "")
	if gone || err != nil && apierrors.IsNotFound(err) { // which is slow where there is no error
		c.waiters.Done(uidOf(pod))
		c.pods.forget(pod.UID) // it may have been read after its deletion was told
	}
}
