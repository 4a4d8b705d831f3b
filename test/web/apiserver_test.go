package web

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// object is an object of the API.
type object = map[string]any

// apiServer imitates an API server: it serves lists of given objects, and watches.
type apiServer struct {
	mu    sync.Mutex
	lists map[string][]object // by path
	kinds map[string]string
	told  []told
	news  chan struct{}
	// server is the server of start. While away is set, it closes every connection.
	server *httptest.Server
	away   atomic.Bool
}

// told is an event of a watch.
type told struct {
	path string
	line []byte
}

const (
	nodesPath   = "/api/v1/nodes"
	podsPath    = "/api/v1/pods"
	leasesPath  = "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases"
	reportsPath = "/apis/berth.dev/v1alpha1/nodetopologies"
)

// snapshot reads the file with the tests' cluster.
func snapshot(t testing.TB) map[string]json.RawMessage {
	t.Helper()
	f, err := os.Open("testdata/cluster.berth")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]json.RawMessage
	if err := json.NewDecoder(unpacked).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// newAPIServer serves the cluster of the snapshot.
func newAPIServer(t testing.TB) *apiServer {
	t.Helper()
	s := &apiServer{lists: map[string][]object{}, news: make(chan struct{}), kinds: map[string]string{
		nodesPath: "NodeList", podsPath: "PodList", leasesPath: "LeaseList", reportsPath: "NodeTopologyList",
	}}
	read := snapshot(t)
	for path, field := range map[string]string{nodesPath: "nodes", podsPath: "pods", leasesPath: "leases", reportsPath: "nodeTopologies"} {
		var list []object
		if err := json.Unmarshal(read[field], &list); err != nil {
			t.Fatal(err)
		}
		s.lists[path] = list
	}
	return s
}

// start serves, and returns a kubeconfig for it.
func (s *apiServer) start(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(s)
	s.server = server
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	path := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":%q}}]}`, server.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// goAway makes the server answer no more requests, and breaks open connections.
func (s *apiServer) goAway() {
	s.away.Store(true)
	s.server.CloseClientConnections()
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.away.Load() {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	q := r.URL.Query()
	kind := s.kinds[r.URL.Path]
	switch {
	case kind == "":
		refuse(w, http.StatusNotFound, "NotFound")
	case q.Get("watch") != "" && q.Get("sendInitialEvents") != "": // refused, as by a server without streaming lists
		refuse(w, http.StatusUnprocessableEntity, "Invalid")
	case q.Get("watch") != "":
		s.watch(w, r)
	default:
		s.list(w, r.URL.Path, q.Get("limit") == "1")
	}
}

func refuse(w http.ResponseWriter, code int, reason string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason})
}

func (s *apiServer) list(w http.ResponseWriter, path string, one bool) {
	s.mu.Lock()
	items, version := s.lists[path], len(s.told)+1
	s.mu.Unlock()
	if one && len(items) > 1 {
		items = items[:1]
	}
	group := map[string]string{leasesPath: "coordination.k8s.io/v1", reportsPath: "berth.dev/v1alpha1"}[path]
	if group == "" {
		group = "v1"
	}
	_ = json.NewEncoder(w).Encode(object{"kind": s.kinds[path], "apiVersion": group, "metadata": object{"resourceVersion": fmt.Sprint(version)}, "items": items})
}

func (s *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	var at int
	_, _ = fmt.Sscan(r.URL.Query().Get("resourceVersion"), &at)
	for at--; ; {
		s.mu.Lock()
		lines, news := s.told[min(max(at, 0), len(s.told)):], s.news
		s.mu.Unlock()
		for _, line := range lines {
			at++
			if line.path == r.URL.Path {
				_, _ = w.Write(line.line)
			}
		}
		w.(http.Flusher).Flush()
		select {
		case <-news:
		case <-r.Context().Done():
			return
		}
	}
}

// tell sends a change to the watches.
func (s *apiServer) tell(t testing.TB, path, what, kind string, o object) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	o["kind"], o["apiVersion"] = kind, "v1"
	o["metadata"].(object)["resourceVersion"] = fmt.Sprint(len(s.told) + 2)
	line, err := json.Marshal(object{"type": what, "object": o})
	if err != nil {
		t.Fatal(err)
	}
	s.told = append(s.told, told{path, append(line, '\n')})
	close(s.news)
	s.news = make(chan struct{})
}

// named returns a copy of an object with another name.
func named(t testing.TB, o object, name string) object {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var out object
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	out["metadata"].(object)["name"] = name
	return out
}

func nameOf(o object) string { return o["metadata"].(object)["name"].(string) }

// find returns the object with that name.
func (s *apiServer) find(t testing.TB, path, name string) object {
	t.Helper()
	for _, o := range s.lists[path] {
		if nameOf(o) == name {
			return o
		}
	}
	t.Fatalf("%s has no %s", path, name)
	return nil
}
