package agent

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// clock tells the time.
type clock func() time.Time

// presence says whether the kubelet is there, and how long it has been. It is safe for concurrent
// use.
type presence struct {
	now clock
	age func() time.Duration // how long ago the kubelet started; nil: nobody knows

	mu     sync.Mutex
	absent bool      // the kubelet is gone, or has not been seen yet
	back   time.Time // when it last started, as far as is known
	// changes counts how often it was found to have gone or to have started; reading is the count
	// when the last reading of its books began.
	changes, reading int
	// leftovers are the pods that are over and had CPUs or memory by the last reading; cleared says
	// that the kubelet has taken back what such a pod had. Both are since it started.
	leftovers []string
	cleared   bool
}

// is notes whether the kubelet is there.
func (p *presence) is(there bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !there:
		p.absent = true
		p.another()
	case p.absent:
		p.absent, p.back = false, p.now()
		p.another()
		if p.age != nil {
			p.back = p.back.Add(-p.age())
		}
	}
}

// started notes that the kubelet has made its sockets. Its PodResources API may have answered long
// before: in between it waits for its runtime.
func (p *presence) started() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.back = p.now()
	p.another()
}

// another forgets what was seen of the kubelet before. The caller holds the lock.
func (p *presence) another() {
	p.changes++
	p.leftovers, p.cleared = nil, false
}

// reads notes that a reading of the books begins.
func (p *presence) reads() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reading = p.changes
}

// hasRead notes which pods have CPUs or memory by the reading, and which pods are over. A kubelet
// that takes back what one of these had has read its pods: it does not before all its sources are
// ready (removeStaleState in pkg/kubelet/cm/cpumanager/cpu_manager.go and
// pkg/kubelet/cm/memorymanager/memory_manager.go).
func (p *presence) hasRead(pinned map[string]bool, over func(uid string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cleared || p.reading != p.changes {
		return
	}
	p.cleared = slices.ContainsFunc(p.leftovers, func(uid string) bool { return !pinned[uid] })
	p.leftovers = slices.DeleteFunc(slices.Collect(maps.Keys(pinned)), func(uid string) bool { return !over(uid) })
}

// away says whether the kubelet is gone.
func (p *presence) away() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.absent
}

// booting says whether the kubelet is gone, or may not have read its pods yet since it is back.
func (p *presence) booting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.absent || !p.cleared && p.now().Sub(p.back) < evidenceByTime
}
