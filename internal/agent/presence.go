package agent

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// clock returns the time.
type clock func() time.Time

// presence tells if and since when the kubelet is there, and if it has read its pods. It is safe
// for concurrent use.
type presence struct {
	now clock
	age func() time.Duration // how long ago the kubelet started; nil: nobody knows

	mu     sync.Mutex
	absent bool      // the kubelet is gone, or has not been seen yet
	back   time.Time // when it last started, as far as is known
	// starts counts how often it was found to have started; reading is the count when the last
	// reading of the books began.
	starts, reading int
	// leftovers are the resources of ended pods in the last reading. cleared means that the kubelet
	// has freed some of them. Both refer to the time since its start.
	leftovers []pin
	cleared   bool
}

// is records whether the kubelet is there.
func (p *presence) is(there bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !there:
		p.absent = true
	case p.absent:
		p.absent, p.back = false, p.now()
		p.another()
		if p.age != nil {
			p.back = p.back.Add(-p.age())
		}
	}
}

// started records that the kubelet has created its sockets. Its PodResources API may have answered
// long before, because in between it waits for its runtime.
func (p *presence) started() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.back = p.now()
	p.another()
}

// another records that another kubelet process runs. Readings of the earlier process, and a reading
// in progress, have no information about it. The caller holds the lock.
func (p *presence) another() {
	p.starts++
	p.leftovers, p.cleared = nil, false
}

// beginReading is called before the agent reads the kubelet's books.
func (p *presence) beginReading() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reading = p.starts
}

// endReading receives the pods' CPUs and memory in the books, or nil if the books are not reliable,
// and a function for ended pods. A kubelet that has freed resources of an ended pod has read its
// pods, because it frees nothing before all its sources are ready (removeStaleState in
// pkg/kubelet/cm/cpumanager/cpu_manager.go and pkg/kubelet/cm/memorymanager/memory_manager.go).
func (p *presence) endReading(pinned map[pin]bool, ended func(uid string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cleared || p.reading != p.starts {
		return
	}
	p.cleared = pinned != nil && slices.ContainsFunc(p.leftovers, func(was pin) bool { return !pinned[was] })
	p.leftovers = slices.DeleteFunc(slices.Collect(maps.Keys(pinned)), func(is pin) bool { return !ended(is.uid) })
}

// away reports whether the kubelet is gone.
func (p *presence) away() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.absent
}

// booting reports whether the kubelet is gone, or may not have read its pods yet since it is back.
func (p *presence) booting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.absent || !p.cleared && p.now().Sub(p.back) < evidenceByTime
}
