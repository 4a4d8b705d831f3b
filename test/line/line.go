// Package line is a proxy between one client and the API server. A test's handler sees every
// request of the client, and can forward, delay or drop it.
package line

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/child"
)

// Line is the proxy of one client. It is safe for concurrent use.
type Line struct {
	server   http.Server
	addr     string
	proxy    *httputil.ReverseProxy
	upstream http.RoundTripper
	target   *url.URL

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// New starts a proxy with the credentials of config. The handler gets every request of the client,
// and can Forward it, Send a copy later, or Drop it.
func New(config *rest.Config, handler http.Handler) (*Line, error) {
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
	l := &Line{addr: listener.Addr().String(), upstream: transport, target: target, conns: map[net.Conn]bool{}}
	quiet := log.New(io.Discard, "", 0) // ended connections are normal
	l.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { Drop() },
		ErrorLog:     quiet,
	}
	l.server = http.Server{Handler: handler, ConnState: l.track, ErrorLog: quiet}
	go func() {
		if err := l.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err) // impossible: nothing else closes the listener
		}
	}()
	return l, nil
}

func (l *Line) track(c net.Conn, s http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch s {
	case http.StateNew:
		l.conns[c] = true
	case http.StateClosed, http.StateHijacked:
		delete(l.conns, c)
	}
}

// Addr is the address that the client connects to.
func (l *Line) Addr() string { return l.addr }

// Forward sends the request to the API server and returns its answer to the client.
func (l *Line) Forward(out http.ResponseWriter, r *http.Request) { l.proxy.ServeHTTP(out, r) }

// Drop ends the handling of a request without an answer.
func Drop() { panic(http.ErrAbortHandler) }

// CopyOf returns a copy of the request that can be sent after its client is gone, or nil if the
// request cannot be read. The request itself can still be forwarded.
func (l *Line) CopyOf(r *http.Request) *http.Request {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	later := r.Clone(context.WithoutCancel(r.Context()))
	later.URL.Scheme, later.URL.Host, later.Host, later.RequestURI = l.target.Scheme, l.target.Host, "", ""
	later.Body, later.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return later
}

// Send sends a request from CopyOf, and returns the status code of the answer, or 0. The client
// does not get the answer. The request may be nil.
func (l *Line) Send(r *http.Request) (code int) {
	if r == nil {
		return 0
	}
	resp, err := l.upstream.RoundTrip(r)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// Cut closes all connections of the client.
func (l *Line) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.Close()
	}
}

// Close stops the proxy.
func (l *Line) Close() { l.server.Close() }

// Access is the client configuration for this proxy, without credentials.
func (l *Line) Access() *rest.Config { return &rest.Config{Host: "http://" + l.addr, QPS: -1} }

// IsWatch reports if the request is a watch.
func IsWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// BindingOf returns NAMESPACE/NAME of the pod whose Binding the request writes. It returns "" for
// other requests.
func BindingOf(r *http.Request) string {
	rest, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/")
	if !ok || r.Method != http.MethodPost {
		return ""
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 4 || parts[1] != "pods" || parts[3] != "binding" {
		return ""
	}
	return parts[0] + "/" + parts[2]
}
