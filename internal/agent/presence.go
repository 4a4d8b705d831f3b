package agent

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// clock returns the present time.
type clock func() time.Time

// presence records whether the kubelet runs, since when, and whether it has read its pods. It is
// safe for concurrent use.
type presence struct {
	now clock
	age func() time.Duration // returns the time since the kubelet's start; nil if this cannot be known

	mu     sync.Mutex
	absent bool      // the kubelet is gone, or the agent has not seen it yet
	back   time.Time // when it last started, if known
	// starts counts the detected starts of the kubelet. The field reading is the value of starts
	// when the last reading of the checkpoints began.
	starts, reading int
	// leftovers are the resources of ended pods in the last reading. The field cleared means that
	// the kubelet has freed some of them since it started.
	leftovers []pin
	cleared   bool
}

// The method is records whether the kubelet runs.
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
// long before, because the kubelet waits for its runtime in between.
func (p *presence) started() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.back = p.now()
	p.another()
}

// another records that a new kubelet process runs. Earlier readings, and a reading in progress, do
// not apply to the new process. The caller holds the lock.
func (p *presence) another() {
	p.starts++
	p.leftovers, p.cleared = nil, false
}

func (p *presence) beginReading() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reading = p.starts
}

// endReading ends the reading that beginReading began. The argument pinned has the pods' CPUs and
// memory in the checkpoints, or is nil if the checkpoints are not reliable. If a kubelet has freed
// resources of an ended pod, it has read its pods, because it frees nothing before all its pod
// sources are ready (removeStaleState in pkg/kubelet/cm/cpumanager/cpu_manager.go and
// pkg/kubelet/cm/memorymanager/memory_manager.go).
func (p *presence) endReading(pinned map[pin]bool, ended func(uid string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cleared || p.reading != p.starts {
		return
	}
	p.cleared = pinned != nil && slices.ContainsFunc(p.leftovers, func(was pin) bool { return !pinned[was] })
	p.leftovers = slices.DeleteFunc(slices.Collect(maps.Keys(pinned)), func(is pin) bool { return !ended(is.uid) })
}

// away reports whether the kubelet is not running, or was not seen yet.
func (p *presence) away() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.absent
}

// booting reports whether the kubelet does not run, or may not have read its pods since its start.
func (p *presence) booting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.absent || !p.cleared && p.now().Sub(p.back) < evidenceByTime
}
