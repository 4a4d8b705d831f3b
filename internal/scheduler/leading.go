package scheduler

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/scheduler/lead"
)

const (
	// earlyLasts is the time for which a replica that does not lead stores its events. If it
	// becomes the leader within that time, it writes them, because at the first start of the
	// scheduler no other replica has written them. Older events are dropped, because their cause
	// may be gone.
	earlyLasts = time.Minute
	// maxEarly is the maximum number of stored events.
	maxEarly = 1024
)

// leading is an event recorder that writes only in the leading replica, because all replicas record
// the same events.
type leading struct {
	to    events.EventRecorder
	lead  *lead.Gate
	clock clock.PassiveClock

	mu    sync.Mutex
	early []earlyEvent
}

type earlyEvent struct {
	at   time.Time
	tell func()
}

func newLeading(to events.EventRecorder, gate *lead.Gate, c clock.PassiveClock) *leading {
	l := &leading{to: to, lead: gate, clock: c}
	gate.Then(l.begin)
	return l
}

// Eventf implements events.EventRecorder.
func (l *leading) Eventf(about, related runtime.Object, kind, reason, action, note string, args ...any) {
	tell := func() { l.to.Eventf(about, related, kind, reason, action, note, args...) }
	if !l.keep(tell) {
		tell()
	}
}

// keep stores an event until this replica leads. It returns false if the replica already leads.
func (l *leading) keep(tell func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lead.Leads() {
		return false
	}
	now := l.clock.Now()
	l.early = slices.DeleteFunc(l.early, func(e earlyEvent) bool { return now.Sub(e.at) > earlyLasts })
	if len(l.early) < maxEarly {
		l.early = append(l.early, earlyEvent{now, tell})
	}
	return true
}

func (l *leading) begin() {
	l.mu.Lock()
	early := l.early
	l.early = nil
	l.mu.Unlock()
	for _, e := range early {
		if l.clock.Since(e.at) <= earlyLasts {
			e.tell()
		}
	}
}
