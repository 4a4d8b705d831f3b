package web

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/machineview"
)

//go:embed static
var static embed.FS

// New returns a Server. It shows changes of the cluster only after calls of Changed.
func New(o Options) *Server {
	s := &Server{
		Options: o, rows: newRows(), streams: newStreams(), history: new(history), mux: http.NewServeMux(),
		fits: make(slots, maxFits), explains: make(slots, maxExplains), patience: bodyPatience, answerPatience: answerPatience,
	}
	if s.Gate == nil {
		s.Gate = open{}
	}
	s.Hosts = slices.Clone(o.Hosts)
	for i := range s.Hosts {
		s.Hosts[i] = strings.ToLower(s.Hosts[i])
	}
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	assets := http.FileServerFS(files)
	s.mux.Handle("GET /{$}", assets)
	s.mux.Handle("GET /app.js", assets)
	s.mux.Handle("GET /app.css", assets)
	s.mux.Handle("GET /icon.svg", assets)
	s.mux.HandleFunc("GET /machine.css", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write([]byte(machineview.Style))
	})
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	for pattern, answer := range map[string]func(*http.Request, Viewer) (any, error){
		"GET /api/cluster": s.cluster, "GET /api/rows": s.changedRows, "GET /api/nodes/{name}": s.node,
		"GET /api/pods/{namespace}/{name}": s.pod, "GET /api/pods/{namespace}/{name}/yaml": s.podYAML, "GET /api/pods": s.pods, "GET /api/pending": s.pending, "GET /api/stranded": s.stranded, "GET /api/gangs": s.gangs, "GET /api/gangs/{namespace}/{source}/{name}": s.gang, "GET /api/history": s.past, "GET /api/shadow": s.shadow,
		"POST /api/fit": s.fit, "POST /api/compare": s.compare, "POST /api/room": s.room,
	} {
		s.mux.Handle(pattern, s.answer(answer))
	}
	s.mux.HandleFunc("GET /api/events", s.events)
	return s
}

// policy is the Content-Security-Policy. The page may use only scripts, styles and images of this
// server, and may send requests only to this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if !s.called(r.Host) {
		http.Error(w, "this server is not called "+quoted(r.Host)+": use an address that berth serve printed, or name it with --host", http.StatusMisdirectedRequest)
		return
	}
	if site := r.Header.Get("Sec-Fetch-Site"); strings.HasPrefix(r.URL.Path, "/api/") && (site == "cross-site" || site == "same-site") {
		http.Error(w, "this server answers only its own page, not pages of other sites", http.StatusForbidden)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// called reports whether host is a name of this server.
func (s *Server) called(host string) bool {
	if len(s.Hosts) == 0 {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return slices.Contains(s.Hosts, strings.ToLower(strings.Trim(host, "[]")))
}

// answer returns a handler that calls the function make for viewers that the gate admits, and sends
// its result as JSON. The context of a request ends after answerPatience.
func (s *Server) answer(make func(*http.Request, Viewer) (any, error)) http.Handler {
	return packed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		viewer, err := s.Gate.Admit(r)
		if err == nil && r.Method == http.MethodPost {
			err = s.readWhole(w, r)
		}
		ctx, cancel := context.WithTimeout(r.Context(), s.answerPatience)
		defer cancel()
		var out any
		if err == nil {
			out, err = make(r.WithContext(ctx), viewer)
		}
		if err != nil {
			out = map[string]string{"error": err.Error()}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(statusOf(err))
		if data, ready := out.(text); ready {
			_, _ = w.Write(data)
			return
		}
		_ = json.NewEncoder(w).Encode(out)
	}))
}

func statusOf(err error) int {
	if err == nil {
		return http.StatusOK
	}
	if f := new(failure); errors.As(err, &f) {
		return f.status
	}
	return http.StatusInternalServerError
}
