package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/berth-dev/berth/internal/child"
)

// way is where a process's connections lead through, so that they can be broken.
type way interface {
	// set begins a fault, or with "" ends it.
	set(f Kind)
	// cut closes all connections.
	cut()
	// hits counts what was broken.
	hits() int
	// close ends the way.
	close()
}

var _, _ way = (*line)(nil), (*storageLine)(nil)

// line stands between one client and the API server, with the client's credentials, and does to its
// requests what it is told.
type line struct {
	server   http.Server
	addr     string
	proxy    *httputil.ReverseProxy
	upstream http.RoundTripper
	target   *url.URL
	fraud    fraud

	mu     sync.Mutex
	conns  map[net.Conn]bool
	fault  Kind // "", Lose, Late or Orphan
	count  int
	struck int // requests that a fault hit, connections that were cut
}

// every few requests are hit.
const every = 3

func newLine(config *rest.Config) (*line, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	listener, err := child.Listen()
	if err != nil {
		return nil, err
	}
	w := &line{addr: listener.Addr().String(), upstream: transport, target: target, conns: map[net.Conn]bool{}}
	quiet := log.New(io.Discard, "", 0) // connections end all the time
	w.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     quiet,
	}
	w.server = http.Server{Handler: w, ConnState: w.track, ErrorLog: quiet}
	go func() {
		if err := w.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err) // the listener is ours alone
		}
	}()
	return w, nil
}

func (w *line) track(c net.Conn, s http.ConnState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch s {
	case http.StateNew:
		w.conns[c] = true
	case http.StateClosed, http.StateHijacked:
		delete(w.conns, c)
	}
}

// hits implements way.
func (w *line) hits() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.struck
}

// close implements way.
func (w *line) close() { w.server.Close() }

// cut implements way.
func (w *line) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.Close()
	}
	w.struck++
}

// set implements way.
func (w *line) set(f Kind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

// next returns the fault that hits the request, and of a lost one whether it is carried out all the
// same.
func (w *line) next(r *http.Request) (fault Kind, arrives bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault == "" || r.URL.Query().Get("watch") != "" || w.fault == Orphan && r.Method == http.MethodGet {
		return "", true
	}
	if w.count++; w.count%every != 0 && !strings.HasSuffix(r.URL.Path, "/binding") {
		return "", true
	}
	w.struck++
	return w.fault, w.count%2 == 0
}

// lateness is how late what is late comes: less than a container takes to stop.
const lateness = 400 * time.Millisecond

// ServeHTTP implements http.Handler.
func (w *line) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if w.cheat(out, r) {
		return
	}
	fault, arrives := w.next(r)
	switch fault {
	case Lose:
		if arrives {
			w.proxy.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithoutCancel(r.Context())))
		}
		panic(http.ErrAbortHandler)
	case Late:
		time.Sleep(lateness) // the fault itself
		w.proxy.ServeHTTP(out, r)
	case Orphan:
		w.orphan(r)
		panic(http.ErrAbortHandler)
	default:
		w.proxy.ServeHTTP(out, r)
	}
}

// orphan carries the request out later; its client has been told of a failure by then.
func (w *line) orphan(r *http.Request) {
	if later := w.copyOf(r); later != nil {
		time.AfterFunc(3*lateness, func() { w.send(later) })
	}
}

// copyOf returns the request as it may be sent when its client is gone; nil when it cannot be read.
func (w *line) copyOf(r *http.Request) *http.Request {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	later := r.Clone(context.WithoutCancel(r.Context()))
	later.URL.Scheme, later.URL.Host, later.Host, later.RequestURI = w.target.Scheme, w.target.Host, "", ""
	later.Body, later.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return later
}

func (w *line) send(r *http.Request) {
	if resp, err := w.upstream.RoundTrip(r); err == nil {
		resp.Body.Close()
	}
}

// kubeconfig writes one that leads here.
func (w *line) kubeconfig(path string) error {
	c := clientcmdapi.NewConfig()
	c.Clusters["w"] = &clientcmdapi.Cluster{Server: "http://" + w.addr}
	c.AuthInfos["w"] = &clientcmdapi.AuthInfo{}
	c.Contexts["w"] = &clientcmdapi.Context{Cluster: "w", AuthInfo: "w"}
	c.CurrentContext = "w"
	data, err := clientcmd.Write(*c)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
