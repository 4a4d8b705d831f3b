package web

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// The limits of the streams of events.
const (
	maxStreams = 1000
	// heartbeat is the interval of heartbeats in a stream. Without them, proxies would close the
	// connection.
	heartbeat = 20 * time.Second
	// patience is the time within which a browser must receive the data that the server sends.
	patience = 10 * time.Second
)

// streams informs pages that something has changed. It sends only the number of the change. If a
// slow page misses numbers, it gets all changes with the next number.
type streams struct {
	mu   sync.Mutex
	open map[chan struct{}]bool
	last uint64
}

func newStreams() *streams { return &streams{open: map[chan struct{}]bool{}, last: 1} }

// tell sends the number to every stream.
func (s *streams) tell(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = number
	for ping := range s.open {
		select {
		case ping <- struct{}{}:
		default: // a ping is already waiting, and its receiver reads the last number
		}
	}
}

func (s *streams) number() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// join opens a stream. It returns false if there are too many streams.
func (s *streams) join() (chan struct{}, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxStreams {
		return nil, false
	}
	ping := make(chan struct{}, 1)
	s.open[ping] = true
	return ping, true
}

func (s *streams) leave(ping chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, ping)
}

// events answers with a stream of server-sent events. Each event is the number of the last change.
// The server sends one event at once, and another event after each change.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	if _, err := s.Gate.Admit(r); err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	ping, ok := s.streams.join()
	if !ok {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many pages are open: "+strconv.Itoa(maxStreams), http.StatusServiceUnavailable)
		return
	}
	defer s.streams.leave(ping)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	send := func(text string) bool {
		_ = out.SetWriteDeadline(time.Now().Add(patience)) // ignored: without a deadline, a page that reads nothing keeps its stream for longer
		if _, err := fmt.Fprint(w, text); err != nil {
			return false
		}
		return out.Flush() == nil
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for ok := send(fmt.Sprintf("retry: 2000\ndata: %d\n\n", s.streams.number())); ok; {
		select {
		case <-r.Context().Done():
			return
		case <-beat.C:
			ok = send(": here\n\n")
		case <-ping:
			ok = send(fmt.Sprintf("data: %d\n\n", s.streams.number()))
		}
	}
}
