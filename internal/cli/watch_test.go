package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
)

// firstVersion is the resource version of the initial objects.
const firstVersion = 100

// Paths of the stand-in for the API server.
const (
	podsPath         = "/api/v1/pods"
	reportsPath      = "/apis/berth.dev/v1alpha1/nodetopologies"
	reservationsPath = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
)

// event is one line of a watch.
type event struct{ path, text string }

// tell changes an object, and reports it to the watches of the path.
func (w *world) tell(path, what string, object metav1.Object) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	object.SetResourceVersion(strconv.Itoa(firstVersion + len(w.told) + 1))
	switch o := object.(type) { // a watch includes the kind of its objects
	case *corev1.Pod:
		o.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	case *corev1.Node:
		o.TypeMeta = metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}
	case *koordinator.Reservation:
		o.TypeMeta = metav1.TypeMeta{Kind: "Reservation", APIVersion: koordinator.GroupVersion.String()}
	}
	data, err := json.Marshal(object)
	if err != nil {
		w.t.Fatal(err)
	}
	w.apply(what, object, data)
	w.told = append(w.told, event{path, fmt.Sprintf(`{"type":%q,"object":%s}`, what, data)})
	w.wake()
}

// wake notifies the watches of new events. The caller holds the lock.
func (w *world) wake() {
	if w.news != nil {
		close(w.news)
	}
	w.news = make(chan struct{})
}

// waitForWatch waits until there is a watch of the path.
func (w *world) waitForWatch(path string) {
	for {
		w.mu.Lock()
		if w.news == nil {
			w.news = make(chan struct{})
		}
		watched, news := slices.Contains(w.requests, "WATCH "+path), w.news
		w.mu.Unlock()
		if watched {
			return
		}
		<-news
	}
}

// apply changes the objects that lists contain.
func (w *world) apply(what string, object metav1.Object, data []byte) {
	switch o := object.(type) {
	case *corev1.Pod:
		w.pods = replaced(w.pods, what, *o, func(p *corev1.Pod) bool { return p.Name == o.Name })
	case *corev1.Node:
		w.nodes = replaced(w.nodes, what, *o, func(n *corev1.Node) bool { return n.Name == o.Name })
	case *koordinator.Reservation:
		w.reservations = replaced(w.reservations, what, *o, func(r *koordinator.Reservation) bool { return r.Name == o.Name })
	case *v1alpha1.NodeTopology:
		var now map[string]any
		if err := json.Unmarshal(data, &now); err != nil {
			w.t.Fatal(err)
		}
		w.topologies = replaced(w.topologies, what, now, func(u *map[string]any) bool { return (*u)["metadata"].(map[string]any)["name"] == o.Name })
	}
}

func replaced[T any](list []T, what string, now T, same func(*T) bool) []T {
	list = slices.DeleteFunc(slices.Clone(list), func(v T) bool { return same(&v) })
	if what == "DELETED" {
		return list
	}
	return append(list, now)
}

func (w *world) serveWatch(out http.ResponseWriter, r *http.Request) {
	out.Header().Set("Content-Type", "application/json")
	q := r.URL.Query()
	switch {
	case w.mayNotWatch(r.URL.Path):
		w.refuse(out, http.StatusForbidden, metav1.StatusReasonForbidden)
		return
	case q.Get("sendInitialEvents") != "": // like an API server without streaming lists
		w.refuse(out, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
		return
	}
	w.mu.Lock()
	w.requests = append(w.requests, "WATCH "+r.URL.Path)
	w.wake()
	w.mu.Unlock()
	version, _ := strconv.Atoi(q.Get("resourceVersion"))
	for at := version - firstVersion; ; {
		w.mu.Lock()
		if w.news == nil {
			w.news = make(chan struct{})
		}
		told, news := w.told[min(at, len(w.told)):], w.news
		w.mu.Unlock()
		for _, e := range told {
			at++
			if e.path == r.URL.Path {
				fmt.Fprintln(out, e.text)
				if w.brief {
					return
				}
			}
		}
		out.(http.Flusher).Flush()
		select {
		case <-news:
		case <-r.Context().Done():
			return
		}
	}
}

// watching is a running verb with -w.
type watching struct {
	t      *testing.T
	lines  *bufio.Scanner
	stop   context.CancelFunc
	code   chan int
	stderr lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// await waits until the words have been written.
func (l *lockedBuffer) await(t *testing.T, words string) {
	t.Helper()
	tick, end := time.NewTicker(10*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for !strings.Contains(l.String(), words) {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("nobody wrote %q; want it in %q", words, l.String())
		}
	}
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func watch(t *testing.T, w *world, args ...string) *watching {
	ctx, stop := context.WithCancel(t.Context())
	r, out := io.Pipe()
	v := &watching{t: t, lines: bufio.NewScanner(r), stop: stop, code: make(chan int, 1)}
	file := w.kubeconfig()
	go func() {
		v.code <- Run(ctx, append(append([]string{"berth"}, args...), "--kubeconfig", file), strings.NewReader(""), out, &v.stderr)
		out.Close()
	}()
	t.Cleanup(func() { stop(); r.Close() })
	return v
}

// line reads up to a line that has all words, and returns it.
func (v *watching) line(words ...string) string {
	v.t.Helper()
next:
	for v.lines.Scan() {
		for _, word := range words {
			if !strings.Contains(v.lines.Text(), word) {
				continue next
			}
		}
		return v.lines.Text()
	}
	v.t.Fatalf("no line with %q came; stderr %q", words, v.stderr.String())
	return ""
}

// end interrupts the verb, which then succeeds, and returns the remaining lines.
func (v *watching) end() (left []string) {
	v.t.Helper()
	v.stop()
	for v.lines.Scan() {
		left = append(left, v.lines.Text())
	}
	if code := <-v.code; code != ExitOK {
		v.t.Errorf("exit code %d, stderr %q", code, v.stderr.String())
	}
	return left
}

func smallWorld(t *testing.T) *world {
	w := &world{t: t}
	w.pods = make([]corev1.Pod, 0, 8)
	w.addNode("n1", 0)
	w.addNode("n2", 0)
	w.addTopology(reportOf(t, "n1"), nil)
	w.addTopology(reportOf(t, "n2"), nil)
	w.addPod("first", "", 2, 0)
	return w
}

// reportWith returns the next report of a node with the pods.
func reportWith(t *testing.T, node string, pods ...*corev1.Pod) *v1alpha1.NodeTopology {
	w := &world{t: t}
	n := reportOf(t, node)
	for _, p := range pods {
		n = reportOf(t, node, requestOf(t, p))
	}
	w.addTopology(n, nil)
	data, err := json.Marshal(w.topologies[0])
	if err != nil {
		t.Fatal(err)
	}
	nt := new(v1alpha1.NodeTopology)
	if err := json.Unmarshal(data, nt); err != nil {
		t.Fatal(err)
	}
	return nt
}

func TestWatchPods(t *testing.T) {
	for _, brief := range []bool{false, true} {
		w := smallWorld(t)
		w.brief = brief
		v := watch(t, w, "pods", "-w")
		header := v.line("NAMESPACE", "STATE")
		if got := v.line("first", "pending"); strings.Index(got, "pending") != strings.Index(header, "STATE") {
			t.Errorf("columns do not stand under one another:\n%s\n%s", header, got)
		}
		pod := w.pods[0].DeepCopy()
		pod.Spec.NodeName = "n1"
		annotate(t, pod, reportOf(t, "n1", requestOf(t, pod)), 1, wire.Exact)
		w.tell(podsPath, "MODIFIED", pod)
		v.line("first", "n1", "in flight")
		w.tell(reportsPath, "MODIFIED", reportWith(t, "n1", pod))
		v.line("first", "n1", "admitted")
		pod.Status.Phase = corev1.PodSucceeded
		w.tell(podsPath, "MODIFIED", pod)
		next := smallWorld(t).pods[0].DeepCopy()
		next.Name, next.UID = "next", "uid-next"
		w.tell(podsPath, "ADDED", next)
		v.line("next", "pending") // the first pod has ended: the order of two watches is not defined
		w.tell(reportsPath, "MODIFIED", reportWith(t, "n1"))
		v.line("first", "n1", "ended", "kept")
		w.tell(podsPath, "DELETED", pod)
		v.line("first", "n1", "gone", "kept")
		if left := v.end(); len(left) > 0 {
			t.Errorf("brief %t: more was printed than changed: %q", brief, left)
		}
	}
}

func TestWatchNodes(t *testing.T) {
	w := smallWorld(t)
	v := watch(t, w, "nodes", "-w", "-o", "wide")
	v.line("NODE", "CONDITIONS")
	v.line("n2", "Ready", "best-effort")
	drifted := reportWith(t, "n1")
	drifted.Status.Conditions = append(drifted.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionKubeletCurrent, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonConfigurationChanged})
	w.tell(reportsPath, "MODIFIED", drifted)
	v.line("n1", v1alpha1.ReasonConfigurationChanged, "KubeletCurrent=False")
	w.tell(reportsPath, "DELETED", drifted)
	v.line("n1", nodestate.NoReport)
	w.tell("/api/v1/nodes", "DELETED", w.nodes[0].DeepCopy())
	v.line("n1", statusGone)
	if left := v.end(); len(left) > 0 {
		t.Errorf("what did not change was printed again: %q", left)
	}
}

// TestWatchGoesOnWithoutWhatIsForbiddenMeanwhile: a permission may be removed after the first list
// and before the watch. The other objects are still shown, and a note names the missing ones.
func TestWatchGoesOnWithoutWhatIsForbiddenMeanwhile(t *testing.T) {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases"
	for resource, path := range map[string]string{"nodes": "/api/v1/nodes", "leases": leases, "reservations": reservationsPath} {
		w := smallWorld(t)
		w.reservations = []koordinator.Reservation{}
		w.mayRead = map[string]int{path: 1}
		v := watch(t, w, "nodes", "-w")
		v.line("n1", "full")
		v.line("n2", "full")
		v.stderr.await(t, resource)
		drifted := reportWith(t, "n1")
		drifted.Status.Conditions = append(drifted.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionKubeletCurrent, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonConfigurationChanged})
		w.waitForWatch(reportsPath)
		w.tell(reportsPath, "MODIFIED", drifted)
		v.line("n1", v1alpha1.ReasonConfigurationChanged)
		v.end()
	}
}

// TestWatchTellsWhatChanged: each line has the time, and marks the cells that differ from the line
// before. If a node has a line for each NUMA node, only the lines that differ are printed.
func TestWatchTellsWhatChanged(t *testing.T) {
	w := smallWorld(t)
	v := watch(t, w, "pods", "-w")
	if header := v.line("NAMESPACE"); !strings.HasPrefix(header, "TIME       NAMESPACE") {
		t.Errorf("header %q", header)
	}
	first := v.line("first", "pending")
	if _, err := time.Parse(time.TimeOnly, strings.Fields(first)[0]); err != nil || strings.Contains(first, "*") {
		t.Errorf("first line %q: %v", first, err)
	}
	pod := w.pods[0].DeepCopy()
	pod.Spec.NodeName = "n1"
	annotate(t, pod, reportOf(t, "n1", requestOf(t, pod)), 1, wire.Exact)
	w.tell(podsPath, "MODIFIED", pod)
	bound := strings.Fields(v.line("first", "in flight"))
	if got := strings.Join(bound[1:6], " "); got != "default first n1* in flight*" {
		t.Errorf("of a pod that was bound: %q", bound)
	}
	v.end()

	w = smallWorld(t)
	v = watch(t, w, "nodes", "--watch-only", "-o", "wide")
	w.waitForWatch(reportsPath)
	w.waitForWatch(podsPath)
	pod = w.pods[0].DeepCopy()
	pod.Spec.NodeName = "n1"
	w.tell(podsPath, "ADDED", pod)
	w.tell(reportsPath, "MODIFIED", reportWith(t, "n1", pod))
	line := v.line("n1", "/")
	if !strings.Contains(line, "*") {
		t.Errorf("no mark in %q", line)
	}
	if left := v.end(); len(left) > 1 {
		t.Errorf("lines that do not differ were printed: %q", left)
	}
}

// TestWatchFormats: a change is printed in the same format as the first output.
func TestWatchFormats(t *testing.T) {
	for format, want := range map[string][2]string{
		"name":                              {"pod/first", "pod/late"},
		"jsonpath={.pods[*].name}{\"\\n\"}": {"first", "late"},
		"yaml":                              {"name: first", "name: late"},
	} {
		w := smallWorld(t)
		v := watch(t, w, "pods", "-w", "-o", format)
		v.line(want[0])
		late := w.pods[0].DeepCopy()
		late.Name, late.UID = "late", "uid-late"
		w.tell(podsPath, "ADDED", late)
		v.line(want[1])
		v.end()
	}
	w := smallWorld(t)
	v := watch(t, w, "nodes", "--watch-only", "-o", "json")
	var list struct{ Nodes []survey.Node }
	w.waitForWatch(reportsPath)
	w.tell(reportsPath, "DELETED", reportWith(t, "n2"))
	text := v.line("{") + "\n"
	for !strings.HasSuffix(text, "\n}\n") { // up to the end of the document
		text += v.line() + "\n"
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Nodes) != 1 || list.Nodes[0].Name != "n2" || list.Nodes[0].Trouble == nil {
		t.Errorf("%v: got %s", err, text)
	}
	v.end()
}

func (w *world) mayNotWatch(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unwatchable[path]
}

// TestWatchGoesOnWithoutWhatItMayNotWatch: if a kind is optional for the output and may not be
// watched, there is a note. It is watched when this is allowed.
func TestWatchGoesOnWithoutWhatItMayNotWatch(t *testing.T) {
	w := smallWorld(t)
	const nodesPath = "/api/v1/nodes"
	w.unwatchable = map[string]bool{nodesPath: true}
	v := watch(t, w, "nodes", "-w")
	v.line("n2", "Ready")
	v.stderr.await(t, "no permission to watch nodes")
	w.tell(reportsPath, "DELETED", reportWith(t, "n2"))
	v.line("n2", nodestate.NoReport)
	w.mu.Lock()
	w.unwatchable = nil
	w.mu.Unlock()
	w.waitForWatch(nodesPath)
	v.stderr.await(t, "nodes may be watched again")
	v.end()
}

func TestWatchErrors(t *testing.T) {
	w := smallWorld(t)
	w.unwatchable = map[string]bool{podsPath: true}
	v := watch(t, w, "nodes", "--watch-only")
	for v.lines.Scan() {
	}
	if code := <-v.code; code != ExitFailure || !strings.Contains(v.stderr.String(), "no permission to watch pods") {
		t.Errorf("exit code %d, stderr %q", code, v.stderr.String())
	}
	for _, verb := range []string{"explain", "fit"} {
		if code, _, stderr := run(t, verb, "x", "-w"); code != ExitUsage || !strings.Contains(stderr, "-w") {
			t.Errorf("%s -w: exit code %d, stderr %q", verb, code, stderr)
		}
	}
	code, _, stderr := run(t, "pods", "nobody", "-w", "--kubeconfig", smallWorld(t).kubeconfig())
	if code != ExitFailure || !strings.Contains(stderr, "no pod nobody") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}
