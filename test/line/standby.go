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

// Standby makes the view of a scheduler's replica late for as long as the replica does not lead:
// what its watches say comes in batches, each up to Late after it was said. A replica that takes
// the lead sees at once what was held back. The zero value delays nothing. It is safe for
// concurrent use.
type Standby struct {
	late  atomic.Int64 // nanoseconds
	wrote atomic.Int64 // when the replica last wrote a lease, Unix nanoseconds
	held  atomic.Int64 // how many pieces of watches have been late
	// listing is how long a watch may take to say what was there before it, which is never late: a
	// replica that has just started could not lead otherwise. 0 stands for 3 s.
	listing time.Duration
}

// leads is how long a replica counts as the leader after it has renewed its lease: the lease's
// duration in Kubernetes.
const leads = 15 * time.Second

// Late sets how late the watches are at most; 0 for not at all.
func (s *Standby) Late(by time.Duration) { s.late.Store(int64(by)) }

// Held counts the pieces of watches that were not passed on at once.
func (s *Standby) Held() int { return int(s.held.Load()) }

// Leads reports whether the replica leads: only a leader writes Leases, which are those of its
// election and of its Bindings.
func (s *Standby) Leads() bool { return time.Now().UnixNano()-s.wrote.Load() < int64(leads) }

// Forward forwards the request by the line, and makes the answer late where it is a watch.
func (s *Standby) Forward(l *Line, out http.ResponseWriter, r *http.Request) {
	switch {
	case IsWatch(r):
		w := &lateWriter{ResponseWriter: out, of: s, begun: time.Now(), more: make(chan struct{}, 1), gone: make(chan struct{})}
		done := make(chan struct{})
		go func() { defer close(done); w.run() }()
		defer func() { close(w.gone); <-done }() // nothing is written once the handler has returned
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

// due is when something that was said at a time is passed on: in batches, so that what belongs
// together comes torn at times.
func (s *Standby) due(said time.Time) time.Time {
	if late := time.Duration(s.late.Load()); late > 0 && !s.Leads() {
		return said.Truncate(late).Add(late)
	}
	return said
}

// statusWriter keeps the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// lateWriter passes what is written on when it is due.
type lateWriter struct {
	http.ResponseWriter
	of    *Standby
	begun time.Time
	more  chan struct{} // something has been written
	gone  chan struct{} // the handler is about to return

	mu    sync.Mutex
	wait  []piece
	wrong error
}

type piece struct {
	data []byte
	said time.Time
	late bool // it is not passed on at once
}

// WriteHeader implements http.ResponseWriter. That a watch begins is not late.
func (w *lateWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ResponseWriter.WriteHeader(status)
	w.flush()
}

// flush sends what has been written. A client that has gone does not listen.
func (w *lateWriter) flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Write implements io.Writer. The error is that of an earlier piece.
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

// Flush implements http.Flusher. Pieces are flushed as they are passed on.
func (w *lateWriter) Flush() {}

// lateLook is how often it is looked whether the replica leads by now.
const lateLook = 200 * time.Millisecond

// run passes pieces on until the handler returns.
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

// dueAt is when a piece is passed on.
func (w *lateWriter) dueAt(p *piece) time.Time {
	if p.said.Sub(w.begun) < cmp.Or(w.of.listing, 3*time.Second) {
		return p.said
	}
	return w.of.due(p.said)
}

// pass writes the first piece if it is due, and reports whether it did.
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
