package web

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/placement"
)

const fixture = "../../test/web/testdata/cluster.berth"

// change returns a snapshot in which some of the JSON text is replaced.
func change(t testing.TB, replace ...string) *survey.Live {
	t.Helper()
	f, err := os.Open(fixture)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	packer := gzip.NewWriter(&out)
	if _, err := io.WriteString(packer, strings.NewReplacer(replace...).Replace(string(text))); err != nil {
		t.Fatal(err)
	}
	if err := packer.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := survey.Open(strings.NewReader(out.String()), "changed")
	if err != nil {
		t.Fatal(err)
	}
	return c.NewLive()
}

// served returns a server with a snapshot, which reports all its nodes.
func served(t testing.TB, o Options) *Server {
	t.Helper()
	s := New(o)
	var names []string
	for _, row := range s.Live.Rows() {
		names = append(names, row.Name)
	}
	s.Changed(names, nil)
	return s
}

// get sends a request, and returns status, body and headers.
func get(s http.Handler, path string) (int, string, http.Header) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String(), w.Header()
}

// TestAnswers requests the data of every view.
func TestAnswers(t *testing.T) {
	s := served(t, Options{Live: change(t)})
	for _, c := range []struct {
		path   string
		status int
		want   []string
	}{
		{"/", 200, []string{`<div id="page">`, `src="app.js"`}},
		{"/app.js", 200, []string{"api/rows?since="}},
		{"/app.css", 200, []string{"prefers-color-scheme"}},
		{"/machine.css", 200, []string{".berths .p0"}},
		{"/healthz", 200, []string{"ok"}},
		{"/api/cluster", 200, []string{`"moves":false`, `"ready":true`, `"where":"the playground, snapshot changed"`}},
		{"/api/rows", 200, []string{`"anew":true`, `"name":"gpu-1"`, `"pool":"gpu"`, `"namespaces":["data","research","telco"]`}},
		{"/api/rows?since=2", 200, []string{`"anew":false`, `"rows":[]`}},
		{"/api/rows?since=99", 200, []string{`"anew":true`, `"name":"gpu-1"`}},
		{"/api/rows?since=x", 400, []string{`since=\"x\": want a number`}},
		{"/api/nodes/gpu-2", 200, []string{`data-pod=\"A\"`, `"tag":"A"`, `"name":"research/train-1"`, `"words":"16 CPUs, 128 GiB on 0, 2 nvidia.com/gpu"`, `"type":"Ready"`}},
		{"/api/nodes/nobody", 404, []string{"there is no node nobody"}},
		{"/api/pods/research/train-1", 200, []string{`"outcome":"kept"`, `"node":"gpu-2"`}},
		{"/api/pods/inference/wide-0", 200, []string{"70 CPUs need 2 NUMA nodes", `"refusal"`}},
		{"/api/pods/research/nobody", 404, []string{"there is no pod research/nobody"}},
		{"/api/pods?q=train+gpu-2", 200, []string{`"total":3`, `"name":"train-1"`}},
		{"/api/pods?namespace=telco", 200, []string{`"name":"upf-0"`}},
		{"/api/pods?q=train-1", 200, []string{`"milliCPUs":16000`, `"numaNodes":"0"`, `"certainty":"exact"`, `"outcome":"kept"`, `"alignment":"numa-node"`}},
		{"/api/pods?from=-1", 400, []string{`from=\"-1\": want the number of pods`}},
		{"/api/pods?sort=size", 400, []string{`sort=\"size\": want cpus, node, old, young`}},
		{"/api/pods?kind=x", 400, []string{`kind=\"x\": want differs, exact, split, verdict`}},
		{"/api/pending", 200, []string{`"total":7`, `"count":2`, "Berth: 1 node: container main: 70 CPUs need 2 NUMA nodes, and single-numa-node allows 1 (TopologyAffinityError)\""}},
		{"/api/history", 200, []string{`"nvidia.com/gpu":16`, `"pending":7`, `"troubled":`}},
		{"/nothing", 404, nil},
	} {
		status, body, header := get(s, c.path)
		if status != c.status {
			t.Errorf("%s: status %d, want %d: %.300s", c.path, status, c.status, body)
		}
		for _, want := range c.want {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %s in %.2000s", c.path, want, body)
			}
		}
		if !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'") {
			t.Errorf("%s: policy %q", c.path, header.Get("Content-Security-Policy"))
		}
	}
}

// TestWaitingPodsHearTheNodes: a group of waiting pods shows the nodes' answers first. Pods with
// the same answers are one group, even if the scheduler's events differ.
func TestWaitingPodsHearTheNodes(t *testing.T) {
	s := served(t, Options{Live: change(t)})
	for range 2 { // the second time with all slots taken
		_, body, _ := get(s, "/api/pending")
		var page struct {
			Total  int
			Groups []waitingGroup
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatal(err)
		}
		count, events := 0, map[string]bool{}
		for _, g := range page.Groups {
			count += g.Count
			events[g.Message] = true
			switch free := len(s.explains) < cap(s.explains); {
			case !free && g.Said != nil:
				t.Errorf("%s: the nodes were asked although others ask: %v", g.Message, g.Said)
			case free && len(g.Said) == 0:
				t.Errorf("%s: the nodes were not asked", g.Message)
			case free && g.Pods[0].Name == "wide-0" && (g.Said[0].Answer != query.Refuses || !strings.Contains(g.Said[0].Message, "70 CPUs need 2 NUMA nodes") || g.Count != 2):
				t.Errorf("wide-0: %d pods, %+v", g.Count, g.Said)
			}
		}
		if count != page.Total || page.Total != 7 {
			t.Errorf("%d pods in groups, %d in all, want 7", count, page.Total)
		}
		for len(s.explains) < cap(s.explains) {
			s.explains <- struct{}{}
		}
	}
}

// TestPodsPageByPage reads the list in every order, and with every filter.
func TestPodsPageByPage(t *testing.T) {
	f := change(t)
	s := served(t, Options{Live: f})
	list := func(query string) (pods []listed, total int) {
		_, body, _ := get(s, "/api/pods?"+query)
		var page struct {
			Pods  []listed
			Total int
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatalf("%s: %v: %.300s", query, err, body)
		}
		return page.Pods, page.Total
	}
	all, total := list("")
	if len(all) != total || total != len(f.Pods()) {
		t.Fatalf("%d pods on the page, %d in all, want %d", len(all), total, len(f.Pods()))
	}
	for name, order := range podOrders {
		pods, _ := list("sort=" + name)
		if len(pods) != total || !slices.IsSortedFunc(pods, func(a, b listed) int { return order(&a, &b) }) {
			t.Errorf("sort=%s: %d pods, not in their order", name, len(pods))
		}
		rest, of := list("sort=" + name + "&from=3")
		if of != total || len(rest) != total-3 || rest[0].Name != pods[3].Name {
			t.Errorf("sort=%s from the fourth on: %d of %d, beginning with %s, want %s", name, len(rest), of, rest[0].Name, pods[3].Name)
		}
	}
	if rest, of := list("from=1000"); len(rest) != 0 || of != total {
		t.Errorf("beyond the end: %d of %d", len(rest), of)
	}
	for name, is := range podKinds {
		want := 0
		for i := range all {
			if all[i].Has != nil && is(all[i].Has) {
				want++
			}
		}
		if pods, of := list("kind=" + name); len(pods) != want || of != want {
			t.Errorf("kind=%s: %d pods of %d, want %d", name, len(pods), of, want)
		}
	}
	waiting, _ := list("phase=Pending")
	if len(waiting) != 7 {
		t.Errorf("%d pods are pending, want 7", len(waiting))
	}
}

// TestStrandedAddsUp: the sums on the page equal the sums of its lines.
func TestStrandedAddsUp(t *testing.T) {
	f := change(t)
	s := served(t, Options{Live: f})
	_, body, _ := get(s, "/api/stranded")
	var page struct{ Resources []strandedSum }
	if err := json.Unmarshal([]byte(body), &page); err != nil || len(page.Resources) == 0 {
		t.Fatalf("%v: %.300s", err, body)
	}
	want, lines := map[string]uint64{}, map[string]int{}
	for _, one := range f.Stranded() {
		want[one.Resource] += one.Stranded
		lines[one.Resource]++
	}
	for _, sum := range page.Resources {
		reasons := uint64(0)
		for _, r := range sum.Reasons {
			reasons += r.Stranded
		}
		if sum.Stranded != want[sum.Resource] || reasons != sum.Stranded || sum.Count != lines[sum.Resource] || len(sum.Most) != min(sum.Count, maxStranded) {
			t.Errorf("%s: %d stranded, %d by reasons, %d lines of %d; want %d on %d", sum.Resource, sum.Stranded, reasons, len(sum.Most), sum.Count, want[sum.Resource], lines[sum.Resource])
		}
		delete(want, sum.Resource)
	}
	if len(want) > 0 {
		t.Errorf("not on the page: %v", want)
	}
}

// TestAPodThatWaitsIsAskedAbout: the YAML of every pod can be used for a request without changes,
// and gets the same answer as the pod.
func TestAPodThatWaitsIsAskedAbout(t *testing.T) {
	f := change(t)
	s := served(t, Options{Live: f})
	for _, pod := range f.Pods() {
		_, body, _ := get(s, "/api/pods/"+pod.Namespace+"/"+pod.Name+"/yaml")
		var answer struct{ YAML string }
		if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.YAML == "" {
			t.Fatalf("%s: %v: %.300s", pod.Name, err, body)
		}
		for _, never := range []string{"berth.dev/placement", "nodeName", "status", "uid"} {
			if strings.Contains(answer.YAML, never) {
				t.Errorf("%s: the YAML has %s:\n%s", pod.Name, never, answer.YAML)
			}
		}
		status, said := ask(s, "", "application/yaml", answer.YAML)
		if status != 200 {
			t.Errorf("%s: status %d: %.500s", pod.Name, status, said)
		}
		if pod.Name == "wide-0" && !strings.Contains(said, "70 CPUs need 2 NUMA nodes") {
			t.Errorf("wide-0: %.500s", said)
		}
	}
	of, _ := gated(t, &authority{may: map[string]bool{"dev list nodetopologies": true, "dev list pods telco": true}})
	for path, want := range map[string]int{"/api/pods/telco/upf-0/yaml": 200, "/api/pods/research/train-1/yaml": 404} {
		if status, body := as(of, path, "Authorization", "Bearer token-of-dev"); status != want {
			t.Errorf("%s, of one who sees telco alone: status %d, want %d: %.200s", path, status, want, body)
		}
	}
	if status, _, _ := get(s, "/api/pods/data/nobody/yaml"); status != 404 {
		t.Errorf("the YAML of a pod that does not exist: status %d", status)
	}
}

// TestPackedAnswersAreTheSame, after decompression, as answers that are not compressed.
func TestPackedAnswersAreTheSame(t *testing.T) {
	s := served(t, Options{Live: change(t)})
	_, plain, _ := get(s, "/api/rows")
	r := httptest.NewRequest(http.MethodGet, "/api/rows", nil)
	r.Header.Set("Accept-Encoding", "br, gzip")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	unpacked, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(unpacked)
	if err != nil || string(got) != plain {
		t.Errorf("%v: %.200s, want %.200s", err, got, plain)
	}
}

// TestOnlyOwnNames: a request with another host name is refused, because another site's name may
// point to this address.
func TestOnlyOwnNames(t *testing.T) {
	s := served(t, Options{Live: change(t), Hosts: []string{"localhost", "127.0.0.1", "::1"}})
	for host, want := range map[string]int{
		"localhost:8270": 200, "LOCALHOST": 200, "127.0.0.1:1": 200, "[::1]:8270": 200,
		"evil.example": 421, "localhost.evil.example:8270": 421, "": 421, "127.0.0.1.evil.example": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/api/cluster", nil)
		r.Host = host
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("host %q: status %d, want %d", host, w.Code, want)
		}
	}
}

// TestNothingIsWritten: methods that could change something are refused.
func TestNothingIsWritten(t *testing.T) {
	s := served(t, Options{Live: change(t)})
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		for _, path := range []string{"/api/rows", "/api/nodes/gpu-1", "/api/pods/research/train-1", "/"} {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader("{}")))
			if w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: status %d", method, path, w.Code)
			}
		}
	}
}

// onlyNamespace is a gate that lets every viewer see one namespace.
type onlyNamespace string

func (o onlyNamespace) Admit(*http.Request) (Viewer, error) { return o, nil }
func (o onlyNamespace) Sees(namespace string) bool          { return namespace == string(o) }
func (o onlyNamespace) Name() string                        { return "somebody" }

// TestOneNamespace: a viewer of one namespace finds no name, UID or container of another in any
// answer.
func TestOneNamespace(t *testing.T) {
	live := change(t)
	s := served(t, Options{Live: live, Gate: onlyNamespace("telco")})
	var secrets []string
	for _, p := range live.Pods() {
		if p.Namespace != "telco" {
			secrets = append(secrets, string(p.UID), p.Namespace+"/"+p.Name, `"`+p.Namespace+`"`)
		}
	}
	paths := []string{"/api/cluster", "/api/rows", "/api/pods", "/api/pending", "/api/history", "/api/pods?namespace=research", "/api/pods/telco/upf-0", "/api/pods/telco/cu-3"}
	for _, row := range live.Rows() {
		paths = append(paths, "/api/nodes/"+row.Name)
	}
	for _, path := range paths {
		_, body, _ := get(s, path)
		for _, secret := range secrets {
			if strings.Contains(body, secret) {
				t.Errorf("%s tells %s", path, secret)
			}
		}
	}
	_, body, _ := get(s, "/api/nodes/gpu-1")
	if !strings.Contains(body, "telco/upf-0") || !strings.Contains(body, hidden) {
		t.Errorf("its own pod and a hidden one are not drawn: %.500s", body)
	}
	if n := strings.Count(body, "container main"); n != 6 { // the CPUs of upf-0
		t.Errorf("%d CPUs name a container, want 6", n)
	}
	if status, _, _ := get(s, "/api/pods/research/train-1"); status != 404 {
		t.Errorf("a pod of another namespace: status %d, want 404 as for one that is not there", status)
	}
}

// TestHoldersOfOneNamespace: a viewer does not learn which pod of a hidden namespace has a device.
func TestHoldersOfOneNamespace(t *testing.T) {
	answers := func() []query.Answer {
		a := query.Answer{Node: "gpu-1", Answer: query.Refuses, Refusal: new(placement.Refusal)}
		for _, holder := range []string{"telco/upf-0", "research/train-1", "secret-uid", ""} {
			a.Refusal.Devices = append(a.Refusal.Devices, placement.DeviceAnswer{ID: "gpu", Why: "held", Holder: holder})
		}
		return []query.Answer{a}
	}
	holders := func(a *query.Answer) (out []string) {
		for _, d := range a.Refusal.Devices {
			out = append(out, d.Holder)
		}
		return out
	}
	for _, c := range []struct {
		viewer Viewer
		want   []string
	}{
		{everything{}, []string{"telco/upf-0", "research/train-1", "secret-uid", ""}},
		{onlyNamespace("telco"), []string{"telco/upf-0", hidden, "", ""}},
	} {
		if got := holders(&shortened(answers(), c.viewer)[0]); !slices.Equal(got, c.want) {
			t.Errorf("%T: an explanation tells %q, want %q", c.viewer, got, c.want)
		}
		fit := shownFit(&query.Fitting{Nodes: []query.NodeFit{{Answer: answers()[0]}}}, c.viewer)
		if got := holders(&fit.Nodes[0].Answer); !slices.Equal(got, c.want) {
			t.Errorf("%T: a fit tells %q, want %q", c.viewer, got, c.want)
		}
	}
}

// TestHostileText: names and messages with markup, or with marks that change the direction of text,
// are shown as plain text.
func TestHostileText(t *testing.T) {
	hostile := `\u202e</script><script>alert(1)</script><img src=x onerror=alert(1)>`
	s := served(t, Options{Live: change(t, `"namespace":"research"`, `"namespace":"`+hostile+`"`, "0/6 nodes", hostile)})
	for _, path := range []string{"/api/rows", "/api/nodes/gpu-2", "/api/pods", "/api/pending"} {
		status, body, header := get(s, path)
		if status != 200 || strings.Contains(body, "<script") || strings.Contains(body, "<img") || header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: status %d, type %s: %.500s", path, status, header.Get("Content-Type"), body)
		}
		var out struct{ SVG string }
		if err := json.Unmarshal([]byte(body), &out); err != nil || strings.Contains(out.SVG, "<script") || strings.Contains(out.SVG, "\u202e") {
			t.Errorf("%s: %v: markup in the drawing", path, err)
		}
	}
}

// TestRowsAgainstTwin: a page that asks rarely, and misses many changes, has the same names in the
// end as one that gets every change.
func TestRowsAgainstTwin(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := newRows()
		exists, page, last := map[string]bool{}, map[string]bool{}, uint64(0)
		for range 400 {
			var names []string
			for range random.IntN(40) {
				name := fmt.Sprint("n", random.IntN(6000))
				exists[name] = random.IntN(3) > 0
				names = append(names, name)
			}
			r.note(names, func(n string) bool { return exists[n] })
			if random.IntN(20) > 0 {
				continue
			}
			number, changed, went, anew := r.since(last)
			if anew {
				clear(page)
			}
			for _, n := range changed {
				page[n] = true
			}
			for _, n := range went {
				delete(page, n)
			}
			last = number
			maps.DeleteFunc(exists, func(_ string, there bool) bool { return !there })
			if !maps.Equal(page, exists) {
				t.Fatalf("seed %d: the page has %d nodes, %d exist", seed, len(page), len(exists))
			}
		}
	}
}

// TestRowsForgetTheGone: a page that has missed more changes than are kept starts again.
func TestRowsForgetTheGone(t *testing.T) {
	r := newRows()
	for i := range maxGone + 10 {
		name := fmt.Sprint("n", i)
		r.note([]string{name}, func(string) bool { return true })
		r.note([]string{name}, func(string) bool { return false })
	}
	if _, names, _, anew := r.since(2); !anew || len(names) > 0 {
		t.Errorf("anew %v, names %v", anew, names)
	}
	if number, _, went, anew := r.since(r.number - 4); anew || len(went) != 2 {
		t.Errorf("at %d: anew %v, %d went, want 2", number, anew, len(went))
	}
}

// stream opens a stream of events, and returns its lines. stop closes it.
func stream(t *testing.T, url string) (lines *bufio.Scanner, status int, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/api/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return bufio.NewScanner(answer.Body), answer.StatusCode, func() {
		cancel()
		_ = answer.Body.Close()
	}
}

// next returns the next number in a stream.
func next(lines *bufio.Scanner) string {
	for lines.Scan() {
		if number, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			return number
		}
	}
	return "nothing"
}

// TestStreams report every change. When browsers disconnect a thousand times, nothing is left.
func TestStreams(t *testing.T) {
	s := served(t, Options{Live: change(t)})
	server := httptest.NewServer(s)
	defer server.Close()
	lines, _, stop := stream(t, server.URL)
	if first := next(lines); first != "2" {
		t.Errorf("a stream begins with %s, want 2", first)
	}
	s.Changed([]string{"gpu-1"}, nil)
	if second := next(lines); second != "3" {
		t.Errorf("after a change it tells %s, want 3", second)
	}
	for range 1000 {
		_, _, leave := stream(t, server.URL)
		leave()
	}
	stop()
	left := func() int {
		s.streams.mu.Lock()
		defer s.streams.mu.Unlock()
		return len(s.streams.open)
	}
	for deadline := time.Now().Add(time.Minute); left() > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d streams are left", left())
		}
		s.Changed([]string{"gpu-1"}, nil)
	}
}

// TestTooManyStreams are refused, and the answer says when to try again.
func TestTooManyStreams(t *testing.T) {
	s := served(t, Options{Live: change(t)})
	for range maxStreams {
		if _, ok := s.streams.join(); !ok {
			t.Fatal("full too early")
		}
	}
	status, body, header := get(s, "/api/events")
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("status %d: %s", status, body)
	}
	s.Changed([]string{"gpu-1"}, nil) // no client reads, and the server does not wait
}

// TestHistoryIsBounded keeps the last hours.
func TestHistoryIsBounded(t *testing.T) {
	var h history
	for i := range historyPoints + 5 {
		h.add(point{At: int64(i)})
	}
	all := h.all()
	if len(all) != historyPoints || all[0].At != 5 || !slices.IsSortedFunc(all, func(a, b point) int { return int(a.At - b.At) }) {
		t.Errorf("%d points from %d", len(all), all[0].At)
	}
}

// ask posts a manifest to the fit endpoint.
func ask(s http.Handler, query, kind, yaml string) (int, string) {
	return post(s, "/api/fit"+query, kind, yaml)
}

// post posts a manifest.
func post(s http.Handler, path, kind, yaml string) (int, string) {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(yaml))
	r.Header.Set("Content-Type", kind)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

const gpuPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: new}\nspec: {containers: [{name: main, resources: {limits: {cpu: 4, memory: 1Gi, nvidia.com/gpu: 1}}}]}\n"

// badPod is a document that cannot be read, badNote the note about it.
const (
	badPod  = "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {containers: []}\n---\n"
	badNote = `"not read: stdin: document 1: Pod bad: spec.containers: \"\": want at least one container"`
)

// TestFit answers where a pod would be placed, and refuses invalid requests.
func TestFit(t *testing.T) {
	s := served(t, Options{Live: change(t)})
	const yaml = "application/yaml"
	for _, c := range []struct {
		what, query, kind, body string
		status                  int
		want                    string
	}{
		{"a pod", "", yaml, gpuPod, 200, `"new":["`},
		{"a setting", "?set=numaNodesPerPackage%3D2&on=gpu-1", yaml, gpuPod, 200, "a node must be drained before this setting is changed"},
		{"an unknown setting", "?set=nps%3D2", yaml, gpuPod, 400, "want KEY=VALUE"},
		{"a node that is not there", "?on=nobody", yaml, gpuPod, 400, "there is no Node nobody"},
		{"a form of another site", "", "text/plain", gpuPod, 415, "want application/yaml"},
		{"no YAML", "", yaml, "{", 400, "stdin: document 1"},
		{"a bad document first", "", yaml, badPod + gpuPod, 200, badNote},
		{"a bad document last", "", yaml, gpuPod + "---\n{", 200, `"notes":["not read: stdin: document 2: `},
		{"a good document after a bad one", "", yaml, badPod + gpuPod, 200, `"name":"new"`},
		{"no pod", "", yaml, "apiVersion: v1\nkind: Service\n", 400, "no pods in it"},
		{"nothing", "", yaml, "", 400, "no pods in it"},
		{"too long", "", yaml, strings.Repeat("# long\n", 50000), 413, "larger than 256 KiB"},
		{"too many", "", yaml, strings.Repeat(gpuPod+"---\n", 11), 400, "11 pods and workloads: want at most 10"},
		{"markup", "", yaml, strings.Replace(gpuPod, "name: main", "name: <script>alert(1)</script>", 1), 400, `\u003cscript`},
	} {
		status, body := ask(s, c.query, c.kind, c.body)
		if status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: status %d, want %d with %s: %.600s", c.what, status, c.status, c.want, body)
		}
	}
	for range maxFits {
		s.fits <- struct{}{}
	}
	if status, body := ask(s, "", yaml, gpuPod); status != http.StatusServiceUnavailable {
		t.Errorf("beside %d others: status %d: %s", maxFits, status, body)
	}
	if status, _, _ := get(s, "/api/fit"); status != http.StatusMethodNotAllowed {
		t.Errorf("GET: status %d", status)
	}
}

// TestCompare answers for the nodes before and after a change, with the same limits as fit.
func TestCompare(t *testing.T) {
	s := served(t, Options{Live: change(t)})
	for _, c := range []struct {
		what, query, kind, body string
		status                  int
		want                    string
	}{
		{"nothing changes", "", "application/yaml", gpuPod, 200, `"empty":false,"groups":[{"like":"gpu-1"`},
		{"a bad document", "", "application/yaml", badPod + gpuPod, 200, badNote},
		{"a setting", "?set=numaNodesPerPackage%3D2&set=reservedSystemCPUs%3D0-3", "application/yaml", gpuPod, 200, `"empty":true`},
		{"a list that is none", "?set=reservedSystemCPUs%3Dall", "application/yaml", gpuPod, 400, "want a list of CPUs"},
		{"a node that is not there", "?on=nobody", "application/yaml", gpuPod, 400, "there is no Node nobody"},
		{"a form of another site", "", "text/plain", gpuPod, 415, "want application/yaml"},
		{"too many", "", "application/yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: many}\nspec: {replicas: 2001, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: main}]}}}\n", 400, "pods: want at most 2000"},
	} {
		status, body := post(s, "/api/compare"+c.query, c.kind, c.body)
		if status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: status %d, want %d with %s: %.600s", c.what, status, c.status, c.want, body)
		}
	}
	if len(s.fits) != 0 {
		t.Errorf("%d questions are still being answered", len(s.fits))
	}
	for range maxFits {
		s.fits <- struct{}{}
	}
	if status, body := post(s, "/api/compare", "application/yaml", gpuPod); status != http.StatusServiceUnavailable {
		t.Errorf("beside %d others: status %d: %s", maxFits, status, body)
	}
}

// TestFitOfOneNamespace draws pods of other namespaces without names, and the new pod with its
// name.
func TestFitOfOneNamespace(t *testing.T) {
	live := change(t)
	s := served(t, Options{Live: live, Gate: onlyNamespace("telco")})
	status, body := ask(s, "", "application/yaml", gpuPod)
	if status != 200 || !strings.Contains(body, "new, copy 1") || !strings.Contains(body, hidden) {
		t.Errorf("status %d: %.400s", status, body)
	}
	for _, p := range live.Pods() {
		if p.Namespace != "telco" && (strings.Contains(body, string(p.UID)) || strings.Contains(body, p.Namespace+"/"+p.Name)) {
			t.Errorf("it tells of %s/%s", p.Namespace, p.Name)
		}
	}
}

// TestRoom plans room. A viewer of one namespace learns nothing about others.
func TestRoom(t *testing.T) {
	live := func() *survey.Live {
		return change(t, `"metadata":{"name":"train-3",`,
			`"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"train","uid":"train","controller":true}],"name":"train-3",`)
	}
	three := strings.Replace(gpuPod, "nvidia.com/gpu: 1", "nvidia.com/gpu: 3", 1)
	plan := func(s *Server) (int, string) { return post(s, "/api/room", "application/yaml", badPod+three) }
	status, body := plan(served(t, Options{Live: live()}))
	for _, want := range []string{`"outcome":"found"`, `"name":"train-3"`, `"before":[{"node":"gpu-1"`, `"after":[`, "nothing would replace it", badNote} {
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("status %d: no %s in %.900s", status, want, body)
		}
	}
	status, body = plan(served(t, Options{Live: live(), Gate: onlyNamespace("telco")}))
	if status != 200 || !strings.Contains(body, `"outcome":"found"`) || !strings.Contains(body, hidden) {
		t.Errorf("status %d: %.400s", status, body)
	}
	for _, secret := range []string{"train-3", "research", "nothing would replace it"} {
		if strings.Contains(body, secret) {
			t.Errorf("it tells %s", secret)
		}
	}
}

// reserved adds a Reservation that holds CPU 4 of node gpu-1 to the snapshot.
const reserved = `"reservations":[{"metadata":{"name":"secret-plan","uid":"secret-uid","annotations":{}},
"spec":{"owners":[{"labelSelector":{}}],"ttl":"0s","template":{"spec":{"containers":[{"name":"held","resources":{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"1","memory":"1Gi"}}}]}}},
"status":{"phase":"Available","nodeName":"gpu-1"}}],`

// TestReservationsHidden: a viewer of all namespaces sees the names of Reservations. A viewer of
// one namespace only sees that something is reserved.
func TestReservationsHidden(t *testing.T) {
	live := change(t, `"nodeTopologies":[`, reserved+`"nodeTopologies":[`)
	for gate, sees := range map[Gate]bool{open{}: true, onlyNamespace("telco"): false} {
		s := served(t, Options{Live: live, Gate: gate})
		for _, path := range []string{"/api/rows", "/api/nodes/gpu-1"} {
			status, body, _ := get(s, path)
			if status != 200 || strings.Contains(body, "secret-plan") != sees || strings.Contains(body, "secret-uid") != sees || !sees && !strings.Contains(body, hiddenPlace) {
				t.Errorf("%T, %s: %d %.600s", gate, path, status, body)
			}
		}
	}
}

// TestWholeNUMANodesTakePods: a NUMA node counts as whole if all its CPUs are free and its node
// accepts new pods.
func TestWholeNUMANodesTakePods(t *testing.T) {
	row := func(change func(*survey.Row)) *survey.Row {
		r := &survey.Row{}
		r.NUMANodes = []survey.NUMANode{{CPUs: &survey.Amount{Free: 8, Total: 8}}, {CPUs: &survey.Amount{Free: 7, Total: 8}}}
		change(r)
		return r
	}
	for name, c := range map[string]struct {
		change func(*survey.Row)
		want   int
	}{
		"ready":      {func(*survey.Row) {}, 1},
		"in trouble": {func(r *survey.Row) { r.Trouble = &survey.Trouble{Reason: "Silent"} }, 0},
		"cordoned":   {func(r *survey.Row) { r.Conditions = []string{"Unschedulable"} }, 0},
	} {
		if got := pointOf(time.Now(), []*survey.Row{row(c.change)}, 0).Whole; got != c.want {
			t.Errorf("%s: %d whole NUMA nodes, want %d", name, got, c.want)
		}
	}
}
