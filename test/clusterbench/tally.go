package main

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// tally counts the events of the watch since its reset.
type tally struct {
	mu           sync.Mutex
	bound        []time.Time
	there        map[types.UID]bool
	refused      int
	reports      []time.Duration
	acknowledged []float64     // seconds from Binding to phase
	cond         chan struct{} // closed and replaced at every change
}

func (t *tally) changed() { t.do(func() {}) }

// do changes the tally and wakes waiting callers.
func (t *tally) do(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	close(t.cond)
	t.cond = make(chan struct{})
}

func (t *tally) exists(uid types.UID, there bool) {
	t.do(func() {
		if there {
			t.there[uid] = true
		} else {
			delete(t.there, uid)
		}
	})
}

func (t *tally) binding(refused bool) {
	t.do(func() {
		t.bound = append(t.bound, time.Now())
		if refused {
			t.refused++
		}
	})
}

func (t *tally) report(took time.Duration) { t.do(func() { t.reports = append(t.reports, took) }) }

func (t *tally) status(after time.Duration) {
	t.do(func() {
		t.acknowledged = append(t.acknowledged, after.Seconds())
	})
}

// reset sets all counts to zero.
func (t *tally) reset() {
	t.do(func() { t.bound, t.refused, t.reports, t.acknowledged = nil, 0, nil, nil })
}
