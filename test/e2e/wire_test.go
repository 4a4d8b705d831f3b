package e2e

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/test/line"
)

// faultyWire is a proxy between a client and the API server that injects faults.
type faultyWire struct {
	*line.Line

	mu sync.Mutex
	// fault returns the fault of each request.
	fault func(*http.Request) fault
	// counts has the number of faults by kind.
	counts map[fault]int
	// held are requests whose client has given up. letGo carries them out.
	held    []*http.Request
	lastCut time.Time
	// sent is when a Binding was last sent, by the pod's name.
	sent map[string]time.Time
	// hears counts the lists and watches of a node's pods.
	hears int
	// meddle changes the pod of a Binding just before the Binding.
	meddle func(*http.Request)
}

type fault string

const (
	noFault     fault = ""
	lostRequest fault = "lost request"
	lostAnswer  fault = "lost answer"
	lateAnswer  fault = "late answer"
	lateRequest fault = "late request"
	repeated    fault = "repeated"
	changedPod  fault = "changed pod"
	noRequest   fault = "no request"
	heldBack    fault = "held back"
	cutWatch    fault = "cut watch"
)

// newFaultyWire makes a wire with the credentials of config.
func newFaultyWire(t *testing.T, config *rest.Config, f func(*http.Request) fault) *faultyWire {
	t.Helper()
	w := &faultyWire{fault: f, counts: map[fault]int{}, sent: map[string]time.Time{}}
	var err error
	if w.Line, err = line.New(config, w); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		t.Logf("faults: %v", w.counts)
	})
	return w
}

// ServeHTTP implements http.Handler.
func (w *faultyWire) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	if isBinding(r) {
		w.sent[podOfBinding(r)] = time.Now()
	}
	if r.Method == http.MethodGet && r.URL.Path == "/api/v1/pods" && strings.Contains(r.URL.Query().Get("fieldSelector"), "spec.nodeName=") {
		w.hears++
	}
	f := w.fault(r)
	if f != noFault {
		w.counts[f]++
	}
	w.mu.Unlock()
	switch f {
	case lostRequest:
		line.Drop()
	case lostAnswer:
		w.Send(w.CopyOf(r))
		line.Drop()
	case lateAnswer:
		w.Forward(out, r)
		time.Sleep(150 * time.Millisecond) // the fault itself
	case lateRequest:
		time.Sleep(150 * time.Millisecond) // the fault itself
		w.Forward(out, r)
	case repeated:
		w.Send(w.CopyOf(r))
		w.Forward(out, r)
	case changedPod:
		w.meddle(r)
		w.Forward(out, r)
	case noRequest:
		http.Error(out, "no request", http.StatusServiceUnavailable)
	case heldBack:
		w.hold(r)
		<-r.Context().Done()
		line.Drop()
	default:
		w.Forward(out, r)
	}
}

func (w *faultyWire) hold(r *http.Request) {
	c := w.CopyOf(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = append(w.held, c)
}

// waiting returns the number of held requests.
func (w *faultyWire) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held)
}

// letGo carries out the held requests, and returns the API server's status codes.
func (w *faultyWire) letGo() (codes []int) {
	w.mu.Lock()
	held := w.held
	w.held = nil
	w.mu.Unlock()
	for _, r := range held {
		codes = append(codes, w.Send(r))
	}
	return codes
}

// set changes the faults of later requests.
func (w *faultyWire) set(f func(*http.Request) fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

// cut closes all connections.
func (w *faultyWire) cut() {
	w.Cut()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[cutWatch]++
	w.lastCut = time.Now()
}

// count returns how often the fault has happened.
func (w *faultyWire) count(f fault) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[f]
}

// heard returns the number of lists and watches of a node's pods.
func (w *faultyWire) heard() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hears
}

// sinceCut returns how long ago connections were last cut.
func (w *faultyWire) sinceCut() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.lastCut)
}

// sentBinding returns when a Binding of the pod was last sent.
func (w *faultyWire) sentBinding(pod string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent[pod]
}

func isBinding(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/binding")
}

// podOfBinding returns the name of a Binding's pod.
func podOfBinding(r *http.Request) string {
	return strings.TrimSuffix(r.URL.Path[strings.Index(r.URL.Path, "/pods/")+len("/pods/"):], "/binding")
}
