package scheduler

import (
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/bounded"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/scheduler/later"
)

// groupPauses holds members of a Kubernetes PodGroup for a while after a failed attempt in which
// Berth decided about a member. kube-scheduler moves such members to the back-off queue, from which
// an idle scheduler takes them at once (feature gate SchedulerPopFromBackoffQ). Without a pause,
// kube-scheduler would try the group thousands of times per second. PreEnqueue enforces the pause,
// because it runs before a pod enters that queue.
//
// Only members that have failed are held. New members, and groups about which Berth decides
// nothing, are left to kube-scheduler. groupPauses also stores the time since which each group has
// waited for a node's report.
type groupPauses struct {
	clock clock.WithDelayedExecution
	// activate moves pods to the active queue.
	activate func(pods map[string]*corev1.Pod)

	mu sync.Mutex
	by bounded.Map[string, *groupPause]
}

func newGroupPauses(c clock.WithDelayedExecution, activate func(map[string]*corev1.Pod)) *groupPauses {
	by := bounded.Shared[string, *groupPause](maxGroups, namespaceOf) // a forgotten pause still wakes its members
	return &groupPauses{clock: c, activate: activate, by: by}
}

type groupPause struct {
	// failures counts consecutive attempts in which no member was placed.
	failures int
	// until is the time when the pause ends.
	until time.Time
	// waitsFrom is the time since which every attempt has found a node that waits for a report. It
	// is zero if the last attempt found no node that waits.
	waitsFrom time.Time
	// held has the members that have failed since the pause began, by namespace and name.
	held map[string]*corev1.Pod
}

// maxGroups is the maximum number of stored groups.
const maxGroups = 1024

// namespaceOf returns the namespace in a key (ownGroup).
func namespaceOf(key string) string {
	namespace, _, _ := strings.Cut(key, "/")
	return namespace
}

// ownGroup returns the namespace and name of the pod's Kubernetes PodGroup, or "" if it has none.
func ownGroup(pod *corev1.Pod) string {
	if s := pod.Spec.SchedulingGroup; s != nil && s.PodGroupName != nil {
		return pod.Namespace + "/" + *s.PodGroupName
	}
	return ""
}

// failed records a failed attempt, before kube-scheduler puts the pod back into the queue. The
// parameter ours means that Berth decides about the pod. If it is set, the failure begins a pause
// of the pod's group, unless the group pauses already.
func (g *groupPauses) failed(pod *corev1.Pod, ours bool) {
	key := ownGroup(pod)
	if key == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p, known := g.by.Get(key)
	switch now := g.clock.Now(); {
	case known && now.Before(p.until): // another member has begun the pause
	case !ours:
		return
	default:
		p = g.of(key)
		pause := gangs.Doubled(p.failures, gangs.LongestPause)
		p.failures++
		p.until = now.Add(pause)
		later.Call(g.clock, pause, func() { g.wake(p) })
	}
	p.held[nameOf(pod)] = pod
}

// of returns the state of a group, and creates it if necessary. The caller holds the lock.
func (g *groupPauses) of(key string) *groupPause {
	p, known := g.by.Get(key)
	if !known {
		p = &groupPause{held: map[string]*corev1.Pod{}}
		g.by.Set(key, p)
	}
	return p
}

// hold returns the reason why a member is not tried now, or nil.
func (g *groupPauses) hold(pod *corev1.Pod) *fwk.Status {
	key := ownGroup(pod)
	if key == "" {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p, _ := g.by.Get(key)
	if p == nil || !g.clock.Now().Before(p.until) {
		return nil
	}
	if held := p.held[nameOf(pod)]; held == nil || held.UID != pod.UID {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth: the last attempt to place the pod's group failed, and the group backs off")
}

func nameOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

func (g *groupPauses) wake(p *groupPause) {
	g.mu.Lock()
	if g.clock.Now().Before(p.until) {
		g.mu.Unlock()
		return // a member has failed again and has begun the next pause
	}
	held := p.held
	p.held = map[string]*corev1.Pod{}
	g.mu.Unlock()
	if len(held) > 0 {
		g.activate(held)
	}
}

// placed records that a member of the group got its node in the commit of a group cycle.
func (g *groupPauses) placed(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p, known := g.by.Get(key); known {
		p.failures, p.waitsFrom = 0, time.Time{}
		g.forget(key, p)
	}
}

// forget removes a group that neither waits nor pauses, so that it does not count towards
// maxGroups. The caller holds the lock.
func (g *groupPauses) forget(key string, p *groupPause) {
	if p.failures == 0 && p.waitsFrom.IsZero() && len(p.held) == 0 && !g.clock.Now().Before(p.until) {
		g.by.Delete(key)
	}
}

// waits records that a node must report before the group can be placed. It returns the time since
// which every attempt has found a node that must report.
func (g *groupPauses) waits(key string) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.of(key)
	if p.waitsFrom.IsZero() {
		p.waitsFrom = g.clock.Now()
	}
	return p.waitsFrom
}

// waited records that the group no longer waits for a report.
func (g *groupPauses) waited(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p, known := g.by.Get(key); known {
		p.waitsFrom = time.Time{}
		g.forget(key, p)
	}
}
