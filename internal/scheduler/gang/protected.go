package gang

import (
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// protected are the pods on nodes that volcano.sh/preemptable keeps from eviction. kube-scheduler's
// own preemption does not know that word.
type protected struct {
	any atomic.Bool
	mu  sync.Mutex
	of  map[types.UID]int32 // their priorities
}

// note takes a pod in, as the watch shows it.
func (p *protected) note(pod *corev1.Pod, kept bool) {
	if !kept && !p.any.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !kept {
		delete(p.of, pod.UID)
		return
	}
	if p.of == nil {
		p.of = map[types.UID]int32{}
	}
	p.of[pod.UID] = corev1helpers.PodPriority(pod)
	p.any.Store(true)
}

// below says whether one of them has a lower priority.
func (p *protected) below(limit int32) bool {
	if !p.any.Load() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, priority := range p.of {
		if priority < limit {
			return true
		}
	}
	return false
}
