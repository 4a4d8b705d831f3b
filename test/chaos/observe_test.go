package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology/shapes"
)

// begun is the time at which the tests' events begin.
var begun = time.Now().Add(-2 * time.Hour)

func after(d time.Duration) time.Time { return begun.Add(d) }

// scene is an observer without a cluster. Its pod "ours" was decided on report 7 and is promised
// CPUs 2-3.
func scene(t *testing.T) (*observer, *watched) {
	t.Helper()
	b := &book{out: io.Discard, begun: begun, counts: map[Kind]int{}, logs: func(string) map[string]string { return nil }}
	o := newObserver(&cluster{}, b)
	o.store = corelisters.NewPodLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil))
	p := wire.Placement{Sequence: 1, Report: 7, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull,
		Decision: placement.Decision{UID: "ours", Containers: []placement.ContainerDecision{{Name: "c", Hint: placement.Hint{Any: true, Preferred: true}, CPUs: shapes.CPUs("2-3")}}}}
	text, err := wire.WritePlacement(&p)
	if err != nil {
		t.Fatal(err)
	}
	w := o.add("ours", after(time.Minute))
	w.pod.Annotations = map[string]string{wire.PlacementAnnotation: text}
	return o, w
}

func (o *observer) add(name string, bound time.Time) *watched {
	w := &watched{bound: bound, pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{NodeName: "n0", Containers: []corev1.Container{{Name: "c"}}},
	}}
	o.pods[w.pod.UID] = w
	return w
}

// TestContended: a decision is excused by some pods of other schedulers. The Binding was seen after
// a minute, and the admission a second later.
func TestContended(t *testing.T) {
	for _, tc := range []struct {
		name   string
		bound  time.Duration // of the other pod
		change func(o *observer, f *watched)
		want   bool
	}{
		{"just before", time.Minute - time.Second, nil, true},
		{"between Binding and admission", time.Minute + time.Second/2, nil, true},
		{"after the admission", time.Minute + 2*time.Second, nil, false},
		{"long before, so that the scheduler knew", 30 * time.Second, nil, false},
		{"long before, while the scheduler could not hear", 30 * time.Second, func(o *observer, _ *watched) {
			o.book.faults = []span{{Pause, "scheduler-0", after(20 * time.Second), after(50 * time.Second), false}}
		}, true},
		{"long before, and a clock has jumped", 30 * time.Second, func(o *observer, _ *watched) {
			o.book.faults = []span{{Jump, "scheduler-0", after(20 * time.Second), after(50 * time.Second), false}}
		}, false},
		{"in the report that was decided on", time.Minute - time.Second, func(o *observer, f *watched) { o.listed["other"] = 7 }, false},
		{"in a later report", time.Minute - time.Second, func(o *observer, f *watched) { o.listed["other"] = 8 }, true},
		{"in that report, which does not show what it asks for, and too little is left", time.Minute - time.Second, func(o *observer, f *watched) {
			o.listed["other"] = 7
			o.pods["ours"].pod.Status.Reason = "OutOfcpu"
		}, true},
		{"in that report, which shows what it has, and too little is left", time.Minute - time.Second, func(o *observer, f *watched) {
			o.listed["other"], o.shown["other"] = 7, 7
			o.pods["ours"].pod.Status.Reason = "OutOfcpu"
		}, false},
		{"on another node", time.Minute - time.Second, func(_ *observer, f *watched) { f.pod.Spec.NodeName = "n1" }, false},
		{"one of ours", time.Minute - time.Second, func(_ *observer, f *watched) { f.foreign = false }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o, w := scene(t)
			f := o.add("other", after(tc.bound))
			f.foreign = true
			if tc.change != nil {
				tc.change(o, f)
			}
			if got := o.contended(w, after(time.Minute+time.Second)); got != tc.want || (w.excuse != "") != tc.want {
				t.Errorf("contended %v, excuse %q; want %v", got, w.excuse, tc.want)
			}
		})
	}
}

// TestReportsShowWhatPodsHold: for a pod without exclusive resources a report has only the UID.
func TestReportsShowWhatPodsHold(t *testing.T) {
	o, _ := scene(t)
	o.seeReport(&unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "n0"},
		"status":   map[string]any{"sequence": int64(7), "pods": []any{"pinned pod=default/a c;cpus=1-2", "sharing"}},
	}})
	if want := map[string]int64{"pinned": 7, "sharing": 7}; !maps.Equal(o.listed, want) {
		t.Errorf("listed %v, want %v", o.listed, want)
	}
	if want := map[string]int64{"pinned": 7}; !maps.Equal(o.shown, want) {
		t.Errorf("shown %v, want %v", o.shown, want)
	}
}

// TestARefusalIsJudgedByAllPods: after a break of the watch the observer sees a refused pod before
// it sees another scheduler's pod that came in between.
func TestARefusalIsJudgedByAllPods(t *testing.T) {
	for _, labels := range []map[string]string{nil, {foreignLabel: "yes"}} {
		o, w := scene(t)
		store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
		o.store = corelisters.NewPodLister(store)
		if err := store.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other", Labels: labels}, Spec: corev1.PodSpec{NodeName: "n0"}}); err != nil {
			t.Fatal(err)
		}
		refused := w.pod.DeepCopy()
		refused.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "TopologyAffinityError"}
		o.seePod(refused)
		if want := labels != nil; (o.tally.refused.contended == 1) != want || (o.book.count() == 0) != want {
			t.Errorf("labels %v: %d contended, %d violations", labels, o.tally.refused.contended, o.book.count())
		}
	}
}

// TestBrokenPromisesAreViolations: each case breaks one promise, and is no violation with an
// excuse.
func TestBrokenPromisesAreViolations(t *testing.T) {
	landed := after(time.Minute + time.Second)
	hold := func(cpus string) func(*testing.T, *observer, *watched) {
		return func(t *testing.T, o *observer, w *watched) {
			o.holdings["ours"] = &holding{node: "n0", first: landed, last: after(time.Hour), alloc: placement.PodAllocation{UID: "ours",
				Containers: []placement.ContainerAllocation{{Name: "c", CPUs: shapes.CPUs(cpus)}}}}
			o.judge(w, landed)
		}
	}
	told := func(how string) func(*testing.T, *observer, *watched) {
		return func(_ *testing.T, o *observer, w *watched) {
			w.ended = landed
			o.outcome(&outcome{read: landed, node: "n0", uid: "ours", how: how})
		}
	}
	// The storage was late, and the pod's Binding was sent during the delay. The delay ended long
	// before the kubelet decided about the pod.
	slowly := func(sent time.Duration) func(*testing.T, *observer, *watched) {
		return func(_ *testing.T, o *observer, w *watched) {
			o.book.faults = []span{{Late, storageName, landed.Add(-12 * time.Second), landed.Add(-8 * time.Second), false}}
			o.cluster.bindings.Store(w.pod.Namespace+"/"+w.pod.Name, landed.Add(-sent))
		}
	}
	refuse := func(_ *testing.T, o *observer, w *watched) { o.refusal(w) }
	fault := func(_ *testing.T, o *observer, _ *watched) {
		o.book.faults = []span{{Kill, "node-n0", after(time.Minute), after(time.Minute + time.Second/2), false}}
	}
	// A kubelet that has just restarted, while the checkpoints still contained a pod.
	restart := func(named string) func(*testing.T, *observer, *watched) {
		return func(_ *testing.T, o *observer, _ *watched) {
			now := time.Now()
			o.book.faults = []span{{Kill, "node-n0", now.Add(-2 * time.Second), now.Add(-time.Second), false}}
			o.add("ended", after(0)).ended = now.Add(-3 * time.Second)
			o.add("running", after(0))
			o.holdings[named] = &holding{node: "n0", first: after(0), last: now}
		}
	}
	// A kubelet that has just restarted, and has admitted a pod again whose resources it had
	// released.
	returned := func(_ *testing.T, o *observer, _ *watched) {
		now := time.Now()
		o.book.faults = []span{{Kill, "node-n0", now.Add(-2 * time.Second), now.Add(-time.Second), false}}
		o.returned["n0"] = now
	}
	// A pod that was bound before ours.
	gone := func(ran bool, ended time.Duration) func(*testing.T, *observer, *watched) {
		return func(_ *testing.T, o *observer, _ *watched) {
			w := o.add("gone", after(ended-time.Minute/2))
			w.ran, w.ended = ran, after(ended)
		}
	}
	other := func(_ *testing.T, o *observer, _ *watched) { o.add("other", after(time.Minute)).foreign = true }
	for _, tc := range []struct {
		name  string
		given []func(*testing.T, *observer, *watched)
		want  int
	}{
		{"kept", []func(*testing.T, *observer, *watched){hold("2-3")}, 0},
		{"other CPUs", []func(*testing.T, *observer, *watched){hold("4-5")}, 1},
		{"other CPUs after a restart of the kubelet", []func(*testing.T, *observer, *watched){fault, hold("4-5")}, 0},
		{"other CPUs, of a Binding that was sent while storage was late", []func(*testing.T, *observer, *watched){slowly(10 * time.Second), hold("4-5")}, 0},
		{"other CPUs, of a Binding that was sent while that was felt", []func(*testing.T, *observer, *watched){slowly(5 * time.Second), hold("4-5")}, 0},
		{"other CPUs, of a Binding that was sent after", []func(*testing.T, *observer, *watched){slowly(3 * time.Second), hold("4-5")}, 1},
		{"other CPUs, contended", []func(*testing.T, *observer, *watched){other, hold("4-5")}, 0},
		{"other CPUs, after a pod that was deleted before it ran", []func(*testing.T, *observer, *watched){gone(false, time.Minute), hold("4-5")}, 0},
		{"other CPUs, after a pod that ran and was deleted", []func(*testing.T, *observer, *watched){gone(true, time.Minute), hold("4-5")}, 1},
		{"other CPUs, after a pod that was deleted long before", []func(*testing.T, *observer, *watched){gone(false, time.Minute-2*hearing), hold("4-5")}, 1},
		{"other CPUs, after a pod that is deleted later", []func(*testing.T, *observer, *watched){gone(false, 2*time.Minute), hold("4-5")}, 1},
		{"refused", []func(*testing.T, *observer, *watched){refuse}, 1},
		{"refused, contended", []func(*testing.T, *observer, *watched){other, refuse}, 0},
		{"refused after a restart", []func(*testing.T, *observer, *watched){restart("running"), refuse}, 1},
		{"refused after a restart, for what an ended pod held", []func(*testing.T, *observer, *watched){restart("ended"), refuse}, 0},
		{"refused after a restart, for a pod that came back", []func(*testing.T, *observer, *watched){returned, refuse}, 0},
		{"told as mispredicted", []func(*testing.T, *observer, *watched){told("mispredicted")}, 1},
		{"told as refused", []func(*testing.T, *observer, *watched){told("refused")}, 1},
		{"told as mispredicted after a restart of the kubelet", []func(*testing.T, *observer, *watched){fault, told("mispredicted")}, 0},
		{"told as contended", []func(*testing.T, *observer, *watched){other, told("contended")}, 0},
		{"contended, and told as mispredicted", []func(*testing.T, *observer, *watched){other, told("mispredicted")}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o, w := scene(t)
			for _, f := range tc.given {
				f(t, o, w)
			}
			if got := o.book.count(); got != tc.want {
				t.Errorf("%d violations, want %d: %v", got, tc.want, o.book.violations)
			}
		})
	}
}

// TestHoldingsMayNotChange: a container keeps its CPUs until it ends, unless its kubelet releases
// them, dies and admits the pod again.
func TestHoldingsMayNotChange(t *testing.T) {
	const killed = "killed"
	for _, tc := range []struct {
		name string
		// looks has the CPUs in the checkpoints second by second, "" for none, or a kill of the
		// kubelet.
		looks            []string
		violations, anew int
	}{
		{"the same", []string{"2", "2"}, 0, 0},
		{"others", []string{"2", "2", "3"}, 1, 0},
		{"others after a while without", []string{"2", "", "3"}, 1, 0},
		{"others after a death", []string{"2", killed, "3"}, 1, 0},
		{"others after a death before it was without", []string{"2", killed, "", "3"}, 1, 0},
		{"others after it was without when it died", []string{"2", "", killed, "", "3"}, 0, 1},
		{"others again after that", []string{"2", "", killed, "3", "4"}, 1, 1},
		{"as before that", []string{"2", "", killed, "3", killed, "2"}, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o, _ := scene(t)
			for i, cpus := range tc.looks {
				now := after(time.Duration(i) * time.Second)
				switch cpus {
				case killed:
					o.book.faults = append(o.book.faults, span{Kill, "node-n0", now, now.Add(time.Second / 2), false})
				case "":
					o.saw("n0", nil, now)
				default:
					o.saw("n0", []placement.PodAllocation{{UID: "ours", Containers: []placement.ContainerAllocation{{Name: "c", CPUs: shapes.CPUs(cpus)}}}}, now)
				}
			}
			if got := o.book.count(); got != tc.violations || o.tally.readmitted != tc.anew {
				t.Errorf("%d violations, %d admitted again; want %d and %d", got, o.tally.readmitted, tc.violations, tc.anew)
			}
		})
	}
}

// TestAKubeletKilledBetweenTwoWrites: chaos distinguishes such a kubelet from one that writes wrong
// checkpoints, and repairs its node.
func TestAKubeletKilledBetweenTwoWrites(t *testing.T) {
	o, _ := scene(t)
	o.book.faults = []span{{Kill, "node-n0", after(time.Minute), after(time.Minute + time.Second), false}}
	for since, want := range map[time.Duration]bool{time.Minute: true, time.Minute + checkpointPoll: true, 2 * time.Minute: false} {
		if got := o.torn("n0", after(since)); got != want {
			t.Errorf("changed %v after the beginning: %v, want %v", since, got, want)
		}
	}
	o.cluster.dir = t.TempDir()
	dir := o.cluster.nodeDir("n0").Root()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	there := func(file string) bool { _, err := os.Stat(filepath.Join(dir, file)); return err == nil }
	files := []string{"cpu_manager_state", "memory_manager_state"}
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ours := func(cpus string) []placement.PodAllocation {
		return []placement.PodAllocation{{UID: "ours", Containers: []placement.ContainerAllocation{{Name: "c", CPUs: shapes.CPUs(cpus)}}}}
	}
	o.saw("n0", ours("2"), after(0))
	o.mend("n0", `kubelet state: n0: memory: "2 bytes of memory reserved": want 1 (1 less), the total of all containers`)
	if !there(files[0]) || there(files[1]) {
		t.Error("memory is wrong: want its checkpoint removed alone")
	}
	o.mend("n0", `kubelet state: n0: cpu: "1": want 2`)
	o.saw("n0", ours("3"), after(2*time.Minute))
	if there(files[0]) || o.book.count() > 0 || o.tally.torn != 2 {
		t.Errorf("the CPU checkpoint is there: %v; %d violations, %d mended", there(files[0]), o.book.count(), o.tally.torn)
	}
}

// TestOutcomesAreReadOnce: from growing logs of two schedulers that log the same, each outcome is
// read once.
func TestOutcomesAreReadOnce(t *testing.T) {
	dir := t.TempDir()
	line := `I1120 21:08:01.753090   22901 feed.go:163] "A promise was not kept" logger="Berth" node="n2" uid="u-%d" outcome="mispredicted" promised="{}" found="{}"` + "\n"
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		return file
	}
	s := outcomes{told: map[string]bool{}}
	half := fmt.Sprintf(line, 2)
	for i, step := range []struct {
		file, text string
		want       int
	}{{"a", "something else\n" + fmt.Sprintf(line, 1), 1}, {"b", fmt.Sprintf(line, 1), 1}, {"a", half[:40], 1}, {"a", half[40:], 2}} {
		if err := s.read(write(step.file, step.text), begun); err != nil {
			t.Fatal(err)
		}
		if len(s.waiting) != step.want {
			t.Errorf("step %d: %d outcomes, want %d: %v", i, len(s.waiting), step.want, s.waiting)
		}
	}
	if got := s.waiting[1]; got.node != "n2" || got.uid != "u-2" || got.how != "mispredicted" {
		t.Errorf("read %+v", got)
	}
}
