package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/test/line"
)

// way is a proxy on the path of a process's connections. It can inject faults.
type way interface {
	// set begins a fault, or with "" ends it.
	set(f Kind)
	// cut closes all connections.
	cut()
	// hits returns the number of affected requests or connections.
	hits() int
	// close ends the way.
	close()
}

var _, _ way = (*clientLine)(nil), (*storageLine)(nil)

// clientLine is a proxy between one client and the API server that injects faults into requests.
type clientLine struct {
	*line.Line
	fraud fraud
	// bindings, if not nil, records when Bindings are sent: see cluster.
	bindings *sync.Map
	// view delays the watches of a scheduler that does not lead.
	view line.Standby

	mu     sync.Mutex
	fault  Kind // "", Lose, Late or Orphan
	count  int
	struck int // affected requests and connections
}

// every is the interval of affected requests: one in three.
const every = 3

func newClientLine(config *rest.Config) (*clientLine, error) {
	w := &clientLine{}
	var err error
	w.Line, err = line.New(config, w)
	return w, err
}

// hits implements way.
func (w *clientLine) hits() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.struck
}

// close implements way.
func (w *clientLine) close() { w.Close() }

// cut implements way.
func (w *clientLine) cut() {
	w.Cut()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.struck++
}

// set implements way.
func (w *clientLine) set(f Kind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

// next returns the fault of the next request, and whether a lost request is still carried out.
func (w *clientLine) next(r *http.Request) (fault Kind, arrives bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault == "" || line.IsWatch(r) || w.fault == Orphan && r.Method == http.MethodGet {
		return "", true
	}
	if w.count++; w.count%every != 0 && line.BindingOf(r) == "" {
		return "", true
	}
	w.struck++
	return w.fault, w.count%2 == 0
}

// viewLate is the largest delay of the watches of a scheduler that does not lead.
const viewLate = 20 * time.Second

// lateness is the delay of late requests. It is shorter than the time in which a container stops.
const lateness = 400 * time.Millisecond

// ServeHTTP implements http.Handler.
func (w *clientLine) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if pod := line.BindingOf(r); pod != "" && w.bindings != nil {
		w.bindings.Store(pod, time.Now())
	}
	if w.fraud.cheat(w.Line, out, r) {
		return
	}
	fault, arrives := w.next(r)
	switch fault {
	case Lose:
		if arrives {
			w.Forward(httptest.NewRecorder(), r.WithContext(context.WithoutCancel(r.Context())))
		}
		line.Drop()
	case Late:
		time.Sleep(lateness) // the fault itself
		w.Forward(out, r)
	case Orphan:
		w.orphan(r)
		line.Drop()
	default:
		w.view.Forward(w.Line, out, r)
	}
}

// orphan sends the request later, after its client has received an error.
func (w *clientLine) orphan(r *http.Request) {
	if later := w.CopyOf(r); later != nil {
		time.AfterFunc(3*lateness, func() { w.Send(later) })
	}
}
