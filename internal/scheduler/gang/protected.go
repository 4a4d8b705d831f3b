package gang

import (
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/berth-dev/berth/internal/wire"
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

// protects says whether the pod is kept from eviction: by its own word, where its namespace may say
// it.
func (gs *Groups) protects(pod *corev1.Pod) bool {
	return wire.KeptFromEviction(pod) && gs.mayProtect(pod.Namespace)
}

func (gs *Groups) mayProtect(namespace string) bool {
	return gs.Protects == nil || gs.Protects(namespace)
}

// protectsGang says whether a gang is kept from eviction, which evicts all of its pods: by a word
// of its object, or of one of the pods on nodes.
func (gs *Groups) protectsGang(key wire.GangKey, pods []seated) bool {
	return slices.ContainsFunc(pods, func(s seated) bool { return gs.protects(s.body.GetPod()) }) || gs.keepsPods(key)
}

// keepsPods says whether the object of a gang keeps its pods from eviction.
func (gs *Groups) keepsPods(key wire.GangKey) bool {
	if key.IsZero() {
		return false
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g := gs.groups[key]
	return g != nil && g.spec.Kept && gs.mayProtect(key.Namespace)
}
