package agent

import (
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
}

// is notes whether the kubelet is there.
func (p *presence) is(there bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !there:
		p.absent = true
	case p.absent:
		p.absent, p.back = false, p.now()
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
	return p.absent || p.now().Sub(p.back) < evidenceByTime
}
