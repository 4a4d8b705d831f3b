package scheduler

import (
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/scheduler/later"
)

// groupPauses hold members of Kubernetes' own groups for a while after their group was tried in
// vain. That cycle puts them into the queue of the ones that back off, from which an idle scheduler
// takes them at once (feature gate SchedulerPopFromBackoffQ): it would try the group again and
// again, thousands of times a second. PreEnqueue is asked before they get there.
type groupPauses struct {
	clock clock.WithDelayedExecution
	// activate sends pods to be tried at once.
	activate func(pods map[string]*corev1.Pod)
	// waits holds when groups began to wait for reports.
	waits groupWaits

	mu sync.Mutex
	by map[string]*groupPause
}

// groupPause is how things stand with one group.
type groupPause struct {
	// tried is when it was last tried; zero: not since it was held.
	tried time.Time
	// failures in a row.
	failures int
	// until is when its members may be tried again.
	until time.Time
	// held are members that wait for that, by namespace and name.
	held map[string]*corev1.Pod
}

// maxGroupPauses bounds how many groups are remembered.
const maxGroupPauses = 1024

// ownGroup names the group of Kubernetes' own that a pod belongs to; "" for none.
func ownGroup(pod *corev1.Pod) string {
	if s := pod.Spec.SchedulingGroup; s != nil && s.PodGroupName != nil {
		return pod.Namespace + "/" + *s.PodGroupName
	}
	return ""
}

// tried notes that the pod's group is being tried.
func (g *groupPauses) tried(pod *corev1.Pod) {
	key := ownGroup(pod)
	if key == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.by[key]
	if p == nil {
		if g.by == nil {
			g.by = map[string]*groupPause{}
		}
		makeWay(g.by, maxGroupPauses) // the ones that are held have their own way out
		p = &groupPause{held: map[string]*corev1.Pod{}}
		g.by[key] = p
	}
	p.tried = g.clock.Now()
}

// hold says why the pod is not tried now; nil when it is. A member that comes back after its group
// was tried has been tried in vain.
func (g *groupPauses) hold(pod *corev1.Pod) *fwk.Status {
	key := ownGroup(pod)
	if key == "" {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.by[key]
	if p == nil {
		return nil
	}
	now := g.clock.Now()
	if !p.tried.IsZero() {
		pause := gangs.Doubled(p.failures, gangs.LongestPause)
		p.failures++
		p.until, p.tried = p.tried.Add(pause), time.Time{}
		later.Call(g.clock, max(0, p.until.Sub(now)), func() { g.wake(p) })
	}
	if !now.Before(p.until) {
		return nil
	}
	p.held[pod.Namespace+"/"+pod.Name] = pod
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth: the pod's group was tried in vain, and backs off")
}

// wake puts the members that a pause held back into the queue.
func (g *groupPauses) wake(p *groupPause) {
	g.mu.Lock()
	if g.clock.Now().Before(p.until) {
		g.mu.Unlock()
		return // it was tried again meanwhile, and is held again
	}
	held := p.held
	p.held = map[string]*corev1.Pod{}
	g.mu.Unlock()
	if len(held) > 0 {
		g.activate(held)
	}
}

// placed notes that a member of the group got its node in earnest.
func (g *groupPauses) placed(pod *corev1.Pod) {
	key := ownGroup(pod)
	if key == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.by[key]; p != nil {
		p.failures, p.tried = 0, time.Time{}
	}
}

// groupWaits is the time from which groups have found nodes that wait for reports, by namespace and
// name.
type groupWaits struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// maxGroupWaits bounds how many groups are remembered.
const maxGroupWaits = 1024

// begin returns when the group of the key began to wait.
func (w *groupWaits) begin(key string, now time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if since, ok := w.since[key]; ok {
		return since
	}
	if w.since == nil {
		w.since = map[string]time.Time{}
	}
	makeWay(w.since, maxGroupWaits)
	w.since[key] = now
	return now
}

// end forgets that the group has waited.
func (w *groupWaits) end(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.since, key)
}

// makeWay makes room for one more group, where there are so many. One of the namespace that has the
// most is forgotten: no tenant's groups end what is remembered of another's.
func makeWay[V any](groups map[string]V, most int) {
	if len(groups) < most {
		return
	}
	count, largest := map[string]int{}, ""
	for key := range groups {
		namespace, _, _ := strings.Cut(key, "/")
		if count[namespace]++; count[namespace] > count[largest] {
			largest = namespace
		}
	}
	for key := range groups {
		if strings.HasPrefix(key, largest+"/") {
			delete(groups, key)
			return
		}
	}
}
