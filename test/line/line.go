// Package line puts something between a client and the API server that sees every request of the
// client, with the client's credentials, and may lose it, delay it, or do something else first.
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

// Line leads from one client to the API server. It is safe for concurrent use.
type Line struct {
	server   http.Server
	addr     string
	proxy    *httputil.ReverseProxy
	upstream http.RoundTripper
	target   *url.URL

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// New opens a line with the credentials of config. The handler gets every request of the client,
// and may Forward it, Send a copy later, or Drop it.
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
	quiet := log.New(io.Discard, "", 0) // connections end all the time
	l.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { Drop() },
		ErrorLog:     quiet,
	}
	l.server = http.Server{Handler: handler, ConnState: l.track, ErrorLog: quiet}
	go func() {
		if err := l.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err) // the listener is ours alone
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

// Addr is where the client connects to.
func (l *Line) Addr() string { return l.addr }

// Forward makes the API server answer the request.
func (l *Line) Forward(out http.ResponseWriter, r *http.Request) { l.proxy.ServeHTTP(out, r) }

// Drop ends the handling of a request, which gets no answer.
func Drop() { panic(http.ErrAbortHandler) }

// CopyOf returns the request as it may be sent when its client is gone; nil when it cannot be read.
// The request itself may be forwarded after that.
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

// Send carries out what CopyOf returned, if anything. The client does not hear of the answer, whose
// status code is returned; 0 is none.
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

// Close ends the line.
func (l *Line) Close() { l.server.Close() }

// Access is what leads here, without credentials.
func (l *Line) Access() *rest.Config { return &rest.Config{Host: "http://" + l.addr, QPS: -1} }

// IsWatch reports whether the request is a watch, which lasts.
func IsWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// BindingOf returns the pod, as namespace and name, whose Binding the request writes; "" where it
// is another one.
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
