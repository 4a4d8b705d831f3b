package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/controlplane"
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

func newFaultyWire(t *testing.T, cp *controlplane.ControlPlane, f func(*http.Request) fault) *faultyWire {
	t.Helper()
	return newFaultyWireFor(t, cp.RESTConfig(), f)
}

// newFaultyWireFor makes a wire with the credentials of config.
func newFaultyWireFor(t *testing.T, config *rest.Config, f func(*http.Request) fault) *faultyWire {
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

// newFaultyTest does the same as newSchedulerTest, with a faulty wire.
func newFaultyTest(t *testing.T, p *schedulerPlane, nodes map[string]nodeSpec, f func(*http.Request) fault) *schedulerTest {
	t.Helper()
	s := newFleetTest(t, p, nodes)
	s.wire = newFaultyWire(t, p.ControlPlane, f)
	s.sched = startSchedulerWith(t, schedulerVerb, s.wire.Access(), nil)
	return s
}

// TestSchedulerUnderFaults has the same nodes as TestScheduler.
func TestSchedulerUnderFaults(t *testing.T) {
	runCases(t, []schedulerCase{
		{"loses answers", testSchedulerLosesAnswers},
		{"cut watches", testSchedulerWithCutWatches},
		{"recreates at once", testSchedulerRecreatesAtOnce},
		{"evicts slowly", testSchedulerEvictsSlowly},
	})
}

func testSchedulerLosesAnswers(t *testing.T, p *schedulerPlane) {
	rng := rand.New(rand.NewPCG(5, 6))
	s := newFaultyTest(t, p, pinnedNodes(3), func(r *http.Request) fault {
		if !isBinding(r) {
			return noFault
		}
		return []fault{noFault, noFault, noFault, lostRequest, lostAnswer, lateAnswer}[rng.IntN(6)]
	})
	s.churn(rand.New(rand.NewPCG(7, 8)), 100, func(int) {})
	s.fleet.demandNoSurprise()
	if s.wire.count(lostAnswer) == 0 || s.wire.count(lostRequest) == 0 {
		t.Error("no answer was lost, or no request")
	}
}

func testSchedulerWithCutWatches(t *testing.T, p *schedulerPlane) {
	s := newFaultyTest(t, p, pinnedNodes(3), func(*http.Request) fault { return noFault })
	s.churn(rand.New(rand.NewPCG(9, 10)), 100, func(i int) {
		if i%25 == 24 {
			s.wire.Cut()
			s.wire.mu.Lock()
			s.wire.counts[cutWatch]++
			s.wire.mu.Unlock()
		}
	})
	s.fleet.demandNoSurprise()
}

// testSchedulerEvictsSlowly: victims leave one after the other, with reports in between.
func testSchedulerEvictsSlowly(t *testing.T, p *schedulerPlane) {
	rng := rand.New(rand.NewPCG(11, 12))
	s := newFaultyTest(t, p, pinnedNodes(1), func(r *http.Request) fault {
		if r.Method != http.MethodDelete && r.Method != http.MethodPatch {
			return noFault
		}
		return []fault{noFault, lateAnswer, lateRequest, lateRequest}[rng.IntN(4)]
	})
	s.demandPreemption()
	if s.wire.count(lateRequest) == 0 {
		t.Error("nothing was late")
	}
}

// testSchedulerRecreatesAtOnce deletes pods and creates them again under the same name in the same
// moment.
func testSchedulerRecreatesAtOnce(t *testing.T, p *schedulerPlane) {
	s := newSchedulerTest(t, p, pinnedNodes(1), nil)
	for i := range 3 {
		s.create(pod(fmt.Sprint("r", i), 4))
	}
	s.awaitRunning(3)
	for round := range 3 {
		for i := range 3 {
			name := fmt.Sprint("r", i)
			s.delete(name)
			s.create(pod(fmt.Sprint(name, "-", round), 4)) // has the same name and a new UID, before the old pod has left
		}
		s.awaitRunning(3)
		for i := range 3 {
			s.delete(fmt.Sprint("r", i, "-", round))
			s.create(pod(fmt.Sprint("r", i), 4+round%2*0))
		}
		s.awaitRunning(3)
	}
	s.fleet.demandNoSurprise()
}
