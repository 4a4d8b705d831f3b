// Package lead reports whether this process is the leader among the replicas of the scheduler. All
// replicas watch the same pods, but the watch of one replica may be behind that of another. So only
// the leader may write.
package lead

import (
	"sync"
	"sync/atomic"
)

// Gate opens when this process becomes the leader. It does not close, because kube-scheduler ends a
// process that has lost its Lease (cmd/kube-scheduler/app/server.go, OnStoppedLeading). The zero
// value is closed. A Gate is safe for concurrent use.
type Gate struct {
	open atomic.Bool
	mu   sync.Mutex
	then []func()
}

// Leads reports whether this process may write and delete.
func (g *Gate) Leads() bool { return g.open.Load() }

// Open opens the gate. It is called before each pod is taken from the scheduling queue, because
// kube-scheduler takes pods only after it was elected.
func (g *Gate) Open() {
	if g.open.Load() {
		return
	}
	g.mu.Lock()
	first := !g.open.Swap(true)
	then := g.then
	g.then = nil
	g.mu.Unlock()
	if !first {
		return
	}
	for _, do := range then {
		do()
	}
}

// Then calls the function do once: when the gate opens, or now if it is open.
func (g *Gate) Then(do func()) {
	g.mu.Lock()
	open := g.open.Load()
	if !open {
		g.then = append(g.then, do)
	}
	g.mu.Unlock()
	if open {
		do()
	}
}
