package outcome

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"
)

// world is a Writer with the watch's pods, and with an API server that answers when the test says
// so.
type world struct {
	*Writer
	pods  cache.Indexer
	clock *testingclock.FakeClock
	// asked has each patch that has arrived. Its sender waits for an answer.
	asked chan *request
}

type request struct {
	pod    string // namespace and name
	patch  map[string]any
	answer chan error
}

func newWorld() *world {
	w := &world{pods: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
		clock: testingclock.NewFakeClock(time.Unix(1_800_000_000, 0)), asked: make(chan *request)}
	w.Writer = NewWriter(Options{Client: server{w: w}, Pods: corelisters.NewPodLister(w.pods), Clock: w.clock, Logger: klog.Background()})
	return w
}

// server plays the API server, and serverPods the pods of a namespace.
type server struct {
	kubernetes.Interface
	typedcorev1.CoreV1Interface
	w *world
}

type serverPods struct {
	typedcorev1.PodInterface
	w         *world
	namespace string
}

func (s server) CoreV1() typedcorev1.CoreV1Interface { return s }

func (s server) Pods(namespace string) typedcorev1.PodInterface {
	return serverPods{w: s.w, namespace: namespace}
}

func (s serverPods) Patch(_ context.Context, name string, _ types.PatchType, patch []byte, _ metav1.PatchOptions, part ...string) (*corev1.Pod, error) {
	r := &request{pod: s.namespace + "/" + name, answer: make(chan error)}
	if err := json.Unmarshal(patch, &r.patch); err != nil || !slices.Equal(part, []string{"status"}) {
		r.pod = fmt.Sprintf("%s of %v, %v", patch, part, err)
	}
	s.w.asked <- r
	return nil, <-r.answer
}

// show makes the watch show a pod.
func (w *world) show(namespace, name string, edit func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name), ResourceVersion: "7"}}
	if edit != nil {
		edit(pod)
	}
	if err := w.pods.Update(pod); err != nil {
		panic(err)
	}
	return pod
}

// comes waits for a patch of a pod.
func (w *world) comes(t *testing.T, pod string) *request {
	t.Helper()
	r := <-w.asked
	if r.pod != pod {
		t.Fatalf("a write of %s, want one of %s", r.pod, pod)
	}
	return r
}

// until waits for another goroutine, until holds returns true.
func (w *world) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; runtime.Gosched() {
		w.mu.Lock()
		done := holds()
		w.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(end) {
			t.Fatal("not after a minute: ", what)
		}
	}
}

// idle waits until no write is under way.
func (w *world) idle(t *testing.T) {
	t.Helper()
	w.until(t, "no write under way", func() bool { return w.writing == 0 })
}

// empty waits until there are no outcomes left.
func (w *world) empty(t *testing.T) {
	t.Helper()
	w.until(t, "nothing remembered", func() bool { return w.writing+len(w.due)+len(w.held)+w.line.Len() == 0 })
}

func unschedulable(message string) *corev1.PodCondition {
	return &corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message}
}

// TestNamespacesTakeTurns: while the API server is slow for one pod, pods of other namespaces are
// written, but none of the same namespace.
func TestNamespacesTakeTurns(t *testing.T) {
	w := newWorld()
	for i := range 3 {
		w.Write(w.show("foe", fmt.Sprint("p", i), nil), unschedulable("no room"), nil)
	}
	slow := w.comes(t, "foe/p0")
	for i := range 3 {
		w.Write(w.show("friends", fmt.Sprint("q", i), nil), unschedulable("no room"), nil)
		w.comes(t, fmt.Sprint("friends/q", i)).answer <- nil
	}
	slow.answer <- nil
	w.comes(t, "foe/p1").answer <- nil
	w.comes(t, "foe/p2").answer <- nil
	w.empty(t)
}

// TestWritesAreFew: the number of writes at a time is limited, however many namespaces have
// outcomes.
func TestWritesAreFew(t *testing.T) {
	w := newWorld()
	const namespaces = 3 * maxWriting
	for i := range namespaces {
		w.Write(w.show(fmt.Sprint("n", i), "p", nil), unschedulable("no room"), nil)
	}
	var under []*request
	for range maxWriting {
		under = append(under, <-w.asked)
	}
	for i := range namespaces {
		w.mu.Lock()
		if want := min(maxWriting, namespaces-i); w.writing != want {
			t.Errorf("%d writes under way, want %d", w.writing, want)
		}
		w.mu.Unlock()
		under[0].answer <- nil
		if under = under[1:]; i < namespaces-maxWriting {
			under = append(under, <-w.asked)
		} else {
			w.until(t, "one write less", func() bool { return w.writing == len(under) })
		}
	}
	w.empty(t)
}

// TestALongWriteIsFollowedByARest: after a slow write, the namespace pauses for as long as the
// write took.
func TestALongWriteIsFollowedByARest(t *testing.T) {
	w := newWorld()
	w.Write(w.show("foe", "p", nil), unschedulable("no room"), nil)
	w.Write(w.show("foe", "q", nil), unschedulable("no room"), nil)
	first := w.comes(t, "foe/p")
	w.clock.Step(2 * time.Second)
	first.answer <- nil
	w.idle(t)
	w.clock.Step(2*time.Second - time.Millisecond)
	w.Write(w.show("friends", "p", nil), unschedulable("no room"), nil)
	w.comes(t, "friends/p").answer <- nil // and not foe/q
	w.idle(t)
	w.clock.Step(time.Millisecond)
	w.comes(t, "foe/q").answer <- nil
	w.empty(t)
}

// TestTheLastAttemptIsTold: a new outcome replaces one that waits to be written, but keeps its
// nominated node.
func TestTheLastAttemptIsTold(t *testing.T) {
	w := newWorld()
	before := w.show("ours", "before", nil)
	pod := w.show("ours", "p", nil)
	w.Write(before, unschedulable("no room"), nil)
	first := w.comes(t, "ours/before")
	w.Write(pod, unschedulable("first"), &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n"})
	w.Write(pod, unschedulable("second"), nil)
	first.answer <- nil
	r := w.comes(t, "ours/p")
	if status := fmt.Sprint(r.patch["status"]); !says(status, "second", "nominatedNodeName:n") {
		t.Errorf("wrote %s, want the second attempt and the node", status)
	}
	w.Write(pod, unschedulable("third"), nil) // while the second is being written
	r.answer <- nil
	if r = w.comes(t, "ours/p"); !says(fmt.Sprint(r.patch["status"]), "third") {
		t.Errorf("wrote %v, want the third attempt", r.patch["status"])
	}
	r.answer <- nil
	w.empty(t)
}

// TestAFailedWriteLosesNothing: if a write fails, the newer outcome also has the nominated node of
// the failed one.
func TestAFailedWriteLosesNothing(t *testing.T) {
	w := newWorld()
	pod := w.show("ours", "p", nil)
	w.Write(pod, unschedulable("first"), &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n"})
	r := w.comes(t, "ours/p")
	w.Write(pod, unschedulable("second"), nil)
	r.answer <- apierrors.NewInternalError(fmt.Errorf("etcd"))
	w.idle(t)
	w.clock.Step(retryPause)
	r = w.comes(t, "ours/p")
	if status := fmt.Sprint(r.patch["status"]); !says(status, "second", "nominatedNodeName:n") {
		t.Errorf("wrote %s, want the second attempt and the node of the first", status)
	}
	r.answer <- nil
	w.empty(t)
}

// TestNothingIsToldOfOtherVersions: a write has the version of its pod. If the API server refuses
// it, it is tried again with the next version, unless the pod is bound by then.
func TestNothingIsToldOfOtherVersions(t *testing.T) {
	w := newWorld()
	pod := w.show("ours", "p", nil)
	w.Write(pod, unschedulable("no room"), nil)
	conflict := apierrors.NewConflict(corev1.Resource("pods"), "p", nil)
	for i, version := range []string{"7", "8"} {
		r := w.comes(t, "ours/p")
		if meta := fmt.Sprint(r.patch["metadata"]); !says(meta, "uid:oursp", "resourceVersion:"+version) {
			t.Errorf("for %s, want UID and version %s", meta, version)
		}
		w.show("ours", "p", func(p *corev1.Pod) {
			p.ResourceVersion = []string{"8", "9"}[i]
			if i == 1 {
				p.Spec.NodeName = "n"
			}
		})
		r.answer <- conflict
		w.idle(t)
		w.clock.Step(retryPause << i)
	}
	w.empty(t)
}

// TestAWriteThatAlwaysFails is given up.
func TestAWriteThatAlwaysFails(t *testing.T) {
	w := newWorld()
	w.Write(w.show("ours", "p", nil), unschedulable("no room"), nil)
	for i := range maxTries {
		w.comes(t, "ours/p").answer <- apierrors.NewInternalError(fmt.Errorf("etcd"))
		w.idle(t)
		w.clock.Step(retryPause << i)
	}
	w.empty(t)
}

// TestWhatIsDueGoesWithThePod: outcomes of deleted pods are neither kept nor written.
func TestWhatIsDueGoesWithThePod(t *testing.T) {
	w := newWorld()
	w.Write(w.show("foe", "first", nil), unschedulable("no room"), nil)
	first := w.comes(t, "foe/first")
	for i := range 1000 {
		pod := w.show("foe", fmt.Sprint("p", i), nil)
		w.Write(pod, unschedulable("no room"), nil)
		if err := w.pods.Delete(pod); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 { // the others were deleted before their outcome came
			w.Forget(pod.UID)
		}
	}
	w.mu.Lock()
	if len(w.due) != 500 {
		t.Errorf("%d outcomes are due, want 500", len(w.due))
	}
	w.mu.Unlock()
	first.answer <- nil
	w.empty(t)
}

// TestWhoWaitsIsToldLater: only the last attempt is written, and only if the pod is not bound by
// then. An outcome that is written at once replaces one that was to be written later.
func TestWhoWaitsIsToldLater(t *testing.T) {
	w := newWorld()
	told := make(chan string, 8)
	wait := func(name string, attempts ...string) *corev1.Pod {
		pod := w.show("a", name, nil)
		for _, text := range attempts {
			w.WriteLater(pod, unschedulable(text), func() { told <- name + " " + text })
		}
		return pod
	}
	wait("bound", "first")
	wait("waits", "first", "second")
	w.Write(wait("refused", "first"), unschedulable("refused"), nil)
	w.comes(t, "a/refused").answer <- nil
	w.Forget(wait("gone", "first").UID)
	w.idle(t)
	w.show("a", "bound", func(pod *corev1.Pod) { pod.Spec.NodeName = "n" })
	w.clock.Step(quiet - time.Second)
	w.idle(t)
	if len(told) > 0 {
		t.Errorf("told before its time: %s", <-told)
	}
	w.clock.Step(time.Second)
	r := w.comes(t, "a/waits")
	if text := fmt.Sprint(r.patch); !says(text, "second") {
		t.Errorf("wrote %s, want the second attempt", text)
	}
	r.answer <- nil
	w.empty(t)
	if got := <-told; got != "waits second" || len(told) > 0 {
		t.Errorf("told %q and %d more, want the second attempt of who waits alone", got, len(told))
	}
}

// TestPatch: the patch that is written into a pod's status.
func TestPatch(t *testing.T) {
	then, now := metav1.Unix(1_700_000_000, 0), metav1.Unix(1_800_000_000, 0)
	had := func(c *corev1.PodCondition) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "7"}, Status: corev1.PodStatus{NominatedNodeName: "n"}}
		if c != nil {
			c.LastTransitionTime = then
			pod.Status.Conditions = []corev1.PodCondition{{Type: "berth.dev/other"}, *c}
		}
		return pod
	}
	scheduled := &corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}
	text := func(c *corev1.PodCondition, at metav1.Time, nominated string) string {
		status := map[string]any{}
		if c != nil {
			written := *c
			written.LastTransitionTime = at
			status["conditions"] = []corev1.PodCondition{written}
		}
		if nominated != "-" {
			status["nominatedNodeName"] = nominated
		}
		out, _ := json.Marshal(map[string]any{"metadata": map[string]any{"uid": "u", "resourceVersion": "7"}, "status": status})
		return string(out)
	}
	to := func(node string) *fwk.NominatingInfo {
		return &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}
	}
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		o    outcome
		want string
	}{
		{"first", had(nil), outcome{condition: unschedulable("a")}, text(unschedulable("a"), now, "-")},
		{"another message", had(unschedulable("a")), outcome{condition: unschedulable("b")}, text(unschedulable("b"), then, "-")},
		{"another status", had(scheduled), outcome{condition: unschedulable("b")}, text(unschedulable("b"), now, "-")},
		{"the same", had(unschedulable("a")), outcome{condition: unschedulable("a")}, ""},
		{"the same, and a node", had(unschedulable("a")), outcome{condition: unschedulable("a"), nominating: to("m")}, text(nil, now, "m")},
		{"the same node", had(unschedulable("a")), outcome{condition: unschedulable("a"), nominating: to("n")}, ""},
		{"no node any more", had(unschedulable("a")), outcome{nominating: to("")}, text(nil, now, "")},
	} {
		got, err := tc.o.patch(tc.pod, now)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: got %s, %v, want %s", tc.name, got, err, tc.want)
		}
	}
}

// says reports whether the text contains all parts.
func says(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// TestANominationCountsBeforeItIsShown: until the watch shows the nominated node of the last
// outcome, the Writer returns it.
func TestANominationCountsBeforeItIsShown(t *testing.T) {
	w := newWorld()
	to := func(node string) *fwk.NominatingInfo {
		return &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}
	}
	says := func(node string) *corev1.Pod {
		pod := w.show("d", "p", func(pod *corev1.Pod) { pod.Status.NominatedNodeName = node })
		w.Shown(pod)
		return pod
	}
	for i, step := range []struct {
		shown   string // as the watch shows the pod
		outcome *fwk.NominatingInfo
		node    string // nominated, but not shown
		unshown bool
	}{
		{"", nil, "", false},
		{"", to("a"), "a", true},
		{"", nil, "a", true},
		{"a", nil, "", false},
		{"a", to("a"), "", false},
		{"", nil, "", false}, // another client removed it
		{"a", to("b"), "b", true},
		{"a", to(""), "", true},
		{"", nil, "", false},
		{"", to(""), "", false},
		{"", to("c"), "c", true},
	} {
		pod := says(step.shown)
		w.Write(pod, nil, step.outcome)
		if step.outcome.Mode() == fwk.ModeOverride && step.outcome.NominatedNodeName != step.shown {
			w.comes(t, "d/p").answer <- nil
		}
		w.empty(t)
		if node, unshown := w.Nominated(pod.UID); unshown != step.unshown || unshown && node != step.node {
			t.Errorf("step %d: %q, unshown %t: want %q, %t", i, node, unshown, step.node, step.unshown)
		}
	}
	pod := says("")
	w.Forget(pod.UID)
	if err := w.pods.Delete(pod); err != nil {
		t.Fatal(err)
	}
	w.Write(pod, nil, to("d"))
	w.empty(t)
	if len(w.nominated) > 0 {
		t.Errorf("pods that are gone are nominated: %v", w.nominated)
	}
}
