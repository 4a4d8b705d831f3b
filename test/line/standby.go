package line

import (
	"bytes"
	"cmp"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Standby delays the watches of a scheduler that does not lead. Events are delivered in batches,
// each delayed by at most Late. A replica that becomes the leader gets the delayed events at once.
// The zero value delays nothing. It is safe for concurrent use.
type Standby struct {
	late  atomic.Int64 // nanoseconds
	wrote atomic.Int64 // when the replica last wrote a lease, Unix nanoseconds
	held  atomic.Int64 // number of delayed pieces of watches
	// listing is the time in which a watch delivers the objects that existed before it. They are
	// never delayed, because a replica that has just started could not become the leader otherwise.
	// 0 means 3 s.
	listing time.Duration
}

// leads is how long a replica counts as the leader after it has renewed its Lease. It is the
// Lease's duration in Kubernetes.
const leads = 15 * time.Second

// Late sets the maximum delay of the watches.
func (s *Standby) Late(by time.Duration) { s.late.Store(int64(by)) }

// Held counts the delayed pieces of watches.
func (s *Standby) Held() int { return int(s.held.Load()) }

// Leads reports if the replica is the leader. Only a leader writes Leases.
func (s *Standby) Leads() bool { return time.Now().UnixNano()-s.wrote.Load() < int64(leads) }

// Forward forwards the request through the line. If it is a watch, Forward delays the answer.
func (s *Standby) Forward(l *Line, out http.ResponseWriter, r *http.Request) {
	switch {
	case IsWatch(r):
		w := &lateWriter{ResponseWriter: out, of: s, begun: time.Now(), more: make(chan struct{}, 1), gone: make(chan struct{})}
		done := make(chan struct{})
		go func() { defer close(done); w.run() }()
		defer func() { close(w.gone); <-done }() // no data is written after the handler has returned
		l.Forward(w, r)
	case r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/leases"):
		w := &statusWriter{ResponseWriter: out, status: http.StatusOK}
		l.Forward(w, r)
		if w.status < http.StatusMultipleChoices {
			s.wrote.Store(time.Now().UnixNano())
		}
	default:
		l.Forward(out, r)
	}
}

// due returns when an event from that time is delivered. Events are delivered in batches, so that
// related events sometimes arrive in different batches.
func (s *Standby) due(said time.Time) time.Time {
	if late := time.Duration(s.late.Load()); late > 0 && !s.Leads() {
		return said.Truncate(late).Add(late)
	}
	return said
}

// statusWriter records the HTTP status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// lateWriter delays the data that is written to it.
type lateWriter struct {
	http.ResponseWriter
	of    *Standby
	begun time.Time
	more  chan struct{} // new data was written
	gone  chan struct{} // the handler is about to return

	mu    sync.Mutex
	wait  []piece
	wrong error
}

type piece struct {
	data []byte
	said time.Time
	late bool // the piece is delayed
}

// WriteHeader implements http.ResponseWriter. The header of a watch is not delayed.
func (w *lateWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ResponseWriter.WriteHeader(status)
	w.flush()
}

// flush sends the written data. It ignores errors of a client that is gone.
func (w *lateWriter) flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Write implements io.Writer. It returns the error of an earlier piece.
func (w *lateWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.wait = append(w.wait, piece{data: bytes.Clone(p), said: time.Now()})
	err := w.wrong
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
	return len(p), err
}

// Flush implements http.Flusher. It does nothing, because each piece is flushed when it is
// delivered.
func (w *lateWriter) Flush() {}

// lateLook is how often run checks whether the replica has become the leader.
const lateLook = 200 * time.Millisecond

// run delivers pieces until the handler returns.
func (w *lateWriter) run() {
	clock := time.NewTicker(lateLook)
	defer clock.Stop()
	for {
		select {
		case <-w.gone:
			return
		case <-w.more:
		case <-clock.C:
		}
		for w.pass() {
		}
	}
}

// dueAt returns when a piece is delivered.
func (w *lateWriter) dueAt(p *piece) time.Time {
	if p.said.Sub(w.begun) < cmp.Or(w.of.listing, 3*time.Second) {
		return p.said
	}
	return w.of.due(p.said)
}

// pass writes the first piece if its time has come, and reports whether it wrote a piece.
func (w *lateWriter) pass() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wait) == 0 {
		return false
	}
	if first := &w.wait[0]; time.Now().Before(w.dueAt(first)) {
		if !first.late {
			first.late = true
			w.of.held.Add(1)
		}
		return false
	}
	if _, err := w.ResponseWriter.Write(w.wait[0].data); err != nil {
		w.wrong = err
	}
	w.wait = w.wait[1:]
	w.flush()
	return true
}
