package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/berth-dev/berth/internal/controlplane"
)

// faultyWire stands between a scheduler and the API server and loses what it is told to lose.
type faultyWire struct {
	server *httptest.Server
	proxy  *httputil.ReverseProxy

	mu sync.Mutex
	// fault is asked for every request.
	fault func(*http.Request) fault
	// counts are the faults that happened.
	counts map[fault]int
}

type fault string

const (
	noFault     fault = ""
	lostRequest fault = "lost request"
	lostAnswer  fault = "lost answer"
	lateAnswer  fault = "late answer"
	cutWatch    fault = "cut watch"
)

func newFaultyWire(t *testing.T, cp *controlplane.ControlPlane, f func(*http.Request) fault) *faultyWire {
	t.Helper()
	config := cp.RESTConfig()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	w := &faultyWire{fault: f, counts: map[fault]int{}}
	w.proxy = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	w.server = httptest.NewServer(w)
	t.Cleanup(func() {
		w.server.CloseClientConnections()
		w.server.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		t.Logf("faults: %v", w.counts)
	})
	return w
}

// ServeHTTP implements http.Handler.
func (w *faultyWire) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	f := w.fault(r)
	if f != noFault {
		w.counts[f]++
	}
	w.mu.Unlock()
	switch f {
	case lostRequest:
		panic(http.ErrAbortHandler)
	case lostAnswer:
		w.proxy.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case lateAnswer:
		w.proxy.ServeHTTP(out, r)
		time.Sleep(150 * time.Millisecond) // the fault itself
	default:
		w.proxy.ServeHTTP(out, r)
	}
}

// kubeconfig leads to the wire.
func (w *faultyWire) kubeconfig(t *testing.T) []byte {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["w"] = &clientcmdapi.Cluster{Server: w.server.URL}
	c.AuthInfos["w"] = &clientcmdapi.AuthInfo{}
	c.Contexts["w"] = &clientcmdapi.Context{Cluster: "w", AuthInfo: "w"}
	c.CurrentContext = "w"
	data, err := clientcmd.Write(*c)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func isBinding(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/binding")
}

// newFaultyTest is newSchedulerTest with a faulty wire.
func newFaultyTest(t *testing.T, nodes map[string]nodeSpec, f func(*http.Request) fault) *schedulerTest {
	t.Helper()
	cp := startBerthControlPlane(t)
	api := clientsOf(t, cp)
	s := &schedulerTest{T: t, cp: cp, api: api, fleet: newFleet(t, api, nodes)}
	s.wire = newFaultyWire(t, cp, f)
	s.sched = startSchedulerWith(t, s.wire.kubeconfig(t), nil)
	return s
}

func TestSchedulerLosesAnswers(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	s := newFaultyTest(t, pinnedNodes(3), func(r *http.Request) fault {
		if !isBinding(r) {
			return noFault
		}
		return []fault{noFault, noFault, noFault, lostRequest, lostAnswer, lateAnswer}[rng.IntN(6)]
	})
	s.churn(rand.New(rand.NewPCG(7, 8)), 100, func(int) {})
	s.fleet.demandNoSurprise()
	if s.wire.counts[lostAnswer] == 0 || s.wire.counts[lostRequest] == 0 {
		t.Errorf("nothing was lost: %v", s.wire.counts)
	}
}

func TestSchedulerWithCutWatches(t *testing.T) {
	s := newFaultyTest(t, pinnedNodes(3), func(*http.Request) fault { return noFault })
	s.churn(rand.New(rand.NewPCG(9, 10)), 100, func(i int) {
		if i%25 == 24 {
			s.wire.server.CloseClientConnections()
			s.wire.mu.Lock()
			s.wire.counts[cutWatch]++
			s.wire.mu.Unlock()
		}
	})
	s.fleet.demandNoSurprise()
}

// TestSchedulerRecreatesAtOnce deletes pods and creates them again under the same name in the same moment.
func TestSchedulerRecreatesAtOnce(t *testing.T) {
	s := newSchedulerTest(t, pinnedNodes(1))
	for i := range 3 {
		s.create(pod(fmt.Sprint("r", i), 4))
	}
	s.awaitRunning(3, 20*time.Second)
	for round := range 3 {
		for i := range 3 {
			name := fmt.Sprint("r", i)
			s.delete(name)
			s.create(pod(fmt.Sprint(name, "-", round), 4)) // takes the place, under a new UID, before the old one has left
		}
		s.awaitRunning(3, 20*time.Second)
		for i := range 3 {
			s.delete(fmt.Sprint("r", i, "-", round))
			s.create(pod(fmt.Sprint("r", i), 4+round%2*0))
		}
		s.awaitRunning(3, 20*time.Second)
	}
	s.fleet.demandNoSurprise()
}
