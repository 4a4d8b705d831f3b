package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
)

// twoTasks is a Job with a server and two workers, to which a scenario adds fields.
const twoTasks = `
%s
tasks:
- {name: ps, replicas: 1, template: {spec: {containers: [{name: c, image: i}]}}, %s}
- {name: worker, replicas: 2, template: {spec: {containers: [{name: c, image: i}]}}}
`

// onceAll lets every pod run and then succeed, except those for which except returns true.
func onceAll(except func(w *world, pod *corev1.Pod) bool) func(*world, *corev1.Pod) {
	return func(w *world, pod *corev1.Pod) {
		switch {
		case pod.Status.Phase == "" || pod.Status.Phase == corev1.PodPending:
			w.set(pod, corev1.PodRunning, 0)
		case except != nil && except(w, pod):
		default:
			w.set(pod, corev1.PodSucceeded, 0)
		}
	}
}

// failOnce makes the first pod of this name fail.
func failOnce(name string, code int32) func(*world, *corev1.Pod) bool {
	return func(w *world, pod *corev1.Pod) bool {
		if pod.Name != name || w.lives[name] > 1 {
			return false
		}
		w.set(pod, corev1.PodFailed, code)
		return true
	}
}

// never keeps pods running.
func never(names ...string) func(*world, *corev1.Pod) bool {
	return func(_ *world, pod *corev1.Pod) bool {
		for _, name := range names {
			if pod.Name == name {
				return true
			}
		}
		return false
	}
}

func evictOnce(names ...string) func(*world, *corev1.Pod) bool {
	return func(w *world, pod *corev1.Pod) bool {
		if w.lives[names[0]] > 1 {
			return false
		}
		if slices.Contains(names, pod.Name) {
			w.evict(pod)
		}
		return true
	}
}

func either(some ...func(*world, *corev1.Pod) bool) func(*world, *corev1.Pod) bool {
	return func(w *world, pod *corev1.Pod) bool {
		for _, f := range some {
			if f(w, pod) {
				return true
			}
		}
		return false
	}
}

const allDone = "j-ps-0:Succeeded j-worker-0:Succeeded j-worker-1:Succeeded"

var scenarios = map[string]struct {
	head, ps string
	except   func(*world, *corev1.Pod) bool
	want     string
}{
	"all succeed":                  {want: "Completed version 0 retries 0 succeeded 3 failed 0: " + allDone},
	"one fails and nobody minds":   {"minAvailable: 1", "minAvailable: 0", failOnce("j-worker-1", 1), "Completed version 0 retries 0 succeeded 2 failed 1: j-ps-0:Succeeded j-worker-0:Succeeded j-worker-1:Failed"},
	"one fails that was needed":    {"", "", failOnce("j-worker-1", 1), "Failed version 0 retries 0 succeeded 2 failed 1: j-ps-0:Succeeded j-worker-0:Succeeded j-worker-1:Failed"},
	"a task fails":                 {"policies: [{event: TaskFailed, action: TerminateJob}]", "", either(failOnce("j-ps-0", 1), never("j-worker-0")), "Terminated version 0 retries 0 succeeded 1 failed 1: j-ps-0:Failed j-worker-1:Succeeded"},
	"the last task fails":          {"policies: [{event: TaskFailed, action: TerminateJob}]", "", failOnce("j-ps-0", 1), "Terminated version 0 retries 0 succeeded 2 failed 1: j-ps-0:Failed j-worker-0:Succeeded j-worker-1:Succeeded"},
	"a completed task's pod again": {"maxRetry: 2", "policies: [{event: TaskCompleted, action: RestartPod}]", never("j-worker-0"), "Failed version 0 retries 2 succeeded 2 failed 0: j-ps-0:Succeeded j-worker-1:Succeeded"},
	"the Job asks for less":        {"minAvailable: 2", "minAvailable: 1", failOnce("j-ps-0", 1), "Completed version 0 retries 0 succeeded 2 failed 1: j-ps-0:Failed j-worker-0:Succeeded j-worker-1:Succeeded"},
	"the Job is restarted":         {"policies: [{event: PodFailed, action: RestartJob}]", "", failOnce("j-worker-1", 1), "Completed version 1 retries 1 succeeded 3 failed 0: " + allDone},
	"it is restarted too often":    {"maxRetry: 2\npolicies: [{event: PodFailed, action: RestartJob}]", "", func(w *world, pod *corev1.Pod) bool { w.set(pod, corev1.PodFailed, 1); return true }, "Failed version 1 retries 2 succeeded 0 failed 3: j-ps-0:Failed j-worker-0:Failed j-worker-1:Failed"},
	"a task is restarted":          {"policies: [{event: PodFailed, action: RestartTask}]", "", failOnce("j-worker-1", 1), "Completed version 0 retries 1 succeeded 3 failed 0: " + allDone},
	"a pod is restarted":           {"policies: [{event: PodFailed, action: RestartPod}]", "", failOnce("j-worker-1", 1), "Completed version 0 retries 1 succeeded 3 failed 0: " + allDone},
	"a task completes the Job":     {"", "policies: [{event: TaskCompleted, action: CompleteJob}]", never("j-worker-0", "j-worker-1"), "Completed version 0 retries 0 succeeded 1 failed 0: j-ps-0:Succeeded"},
	"an exit code aborts":          {"policies: [{exitCode: 3, action: AbortJob}, {event: PodFailed, action: RestartJob}]", "", either(failOnce("j-worker-1", 3), never("j-ps-0")), "Aborted version 0 retries 0 succeeded 1 failed 1: j-worker-0:Succeeded j-worker-1:Failed"},
	"the first policy acts":        {"policies: [{event: PodFailed, action: RestartJob}, {exitCode: 3, action: AbortJob}]", "", failOnce("j-worker-1", 3), "Completed version 1 retries 1 succeeded 3 failed 0: " + allDone},
	"the task's policy acts first": {"policies: [{exitCode: 3, action: AbortJob}]", "policies: [{event: PodFailed, action: RestartTask}]", failOnce("j-ps-0", 3), "Completed version 0 retries 1 succeeded 3 failed 0: " + allDone},
	"an event twice is one":        {"policies: [{events: [PodEvicted, PodFailed, PodEvicted], action: TerminateJob}]", "", either(failOnce("j-worker-1", 1), never("j-ps-0", "j-worker-0")), "Terminated version 0 retries 0 succeeded 0 failed 1: j-worker-1:Failed"},
	"another exit code does not":   {"policies: [{exitCode: 3, action: AbortJob}, {event: PodFailed, action: RestartJob}]", "", failOnce("j-worker-1", 4), "Completed version 1 retries 1 succeeded 3 failed 0: " + allDone},
	"any event terminates":         {"policies: [{event: '*', action: TerminateJob}]", "", either(failOnce("j-worker-1", 1), never("j-ps-0", "j-worker-0")), "Terminated version 0 retries 0 succeeded 0 failed 1: j-worker-1:Failed"},
	"an eviction restarts the Job": {"policies: [{event: PodEvicted, action: RestartJob}]", "", evictOnce("j-worker-0"), "Completed version 1 retries 1 succeeded 3 failed 0: " + allDone},
	"an eviction restarts a task":  {"policies: [{events: [PodEvicted, PodFailed], action: RestartTask}]", "", evictOnce("j-worker-0"), "Completed version 0 retries 1 succeeded 3 failed 0: " + allDone},
	"two tasks are evicted from":   {"policies: [{event: PodEvicted, action: RestartTask}]", "", evictOnce("j-ps-0", "j-worker-0"), "Completed version 0 retries 1 succeeded 3 failed 0: " + allDone},
	"an evicted pod comes again":   {"", "", evictOnce("j-worker-0"), "Completed version 0 retries 0 succeeded 3 failed 0: " + allDone},
	"enough succeed":               {"minSuccess: 1", "", never("j-worker-0", "j-worker-1"), "Completed version 0 retries 0 succeeded 1 failed 0: j-ps-0:Succeeded"},
	"the task's own policy first":  {"policies: [{event: PodFailed, action: TerminateJob}]", "policies: [{event: PodFailed, action: RestartTask}]", failOnce("j-ps-0", 1), "Completed version 0 retries 1 succeeded 3 failed 0: " + allDone},
	"it comes again in time":       {"policies: [{event: PodEvicted, action: TerminateJob, timeout: 5s}]", "", evictOnce("j-worker-0"), "Completed version 0 retries 0 succeeded 3 failed 0: " + allDone},
	"hosts of the svc plugin":      {"plugins: {svc: [], env: []}", "", nil, "Completed version 0 retries 0 succeeded 3 failed 0: " + allDone},
}

// TestScenarios runs each scenario to its end. Then it runs the scenario again for every write of
// the controller, which is killed just before or just after this write. Every result is the same.
func TestScenarios(t *testing.T) {
	for name, c := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := fmt.Sprintf(twoTasks, c.head, c.ps)
			w := newWorld(t, spec, onceAll(c.except))
			if got := w.play(); got != c.want {
				t.Fatalf("it ends as\n%s, want\n%s", got, c.want)
			}
			for kill := range w.writes {
				for _, after := range []bool{false, true} {
					k := newWorld(t, spec, onceAll(c.except))
					k.kill, k.after = kill, after
					if got := k.play(); got != c.want {
						t.Errorf("killed at write %d (after it: %v) it ends as\n%s, want\n%s", kill, after, got, c.want)
					}
				}
			}
			if w.writes < 5 {
				t.Errorf("only %d writes", w.writes)
			}
		})
	}
}

// TestRestartsAreVisible: a Job of which a part restarts goes through the phase Restarting, as in
// Volcano (runningState in its pkg/controllers/job/state), and its pods run again.
func TestRestartsAreVisible(t *testing.T) {
	for _, action := range []batch.Action{batch.RestartJob, batch.RestartTask, batch.RestartPod} {
		w := newWorld(t, fmt.Sprintf(twoTasks, "policies: [{event: PodFailed, action: "+string(action)+"}]", ""), onceAll(failOnce("j-worker-1", 1)))
		w.play()
		var phases []batch.JobPhase
		for _, c := range w.read().Status.Conditions {
			phases = append(phases, c.Status)
		}
		if want := []batch.JobPhase{batch.Pending, batch.Running, batch.Restarting, batch.Pending, batch.Running, batch.Completed}; !slices.Equal(phases, want) {
			t.Errorf("%s: %s, want %s", action, phases, want)
		}
	}
}

// TestAReplacementThatWaits (Volcano's e2e test of PodEvicted with a timeout): a pod is evicted,
// and its replacement is pending for longer than the timeout. It is pending only once, so that the
// policy acts once.
func TestAReplacementThatWaits(t *testing.T) {
	for action, want := range map[string]string{
		"TerminateJob": "Terminated version 0 retries 0 succeeded 0 failed 0: ",
		"RestartJob":   "Completed version 1 retries 1 succeeded 3 failed 0: " + allDone,
		"RestartTask":  "Completed version 0 retries 1 succeeded 3 failed 0: " + allDone,
		"RestartPod":   "Completed version 0 retries 1 succeeded 3 failed 0: " + allDone,
	} {
		spec := fmt.Sprintf(twoTasks, "policies: [{event: PodEvicted, action: "+action+", timeout: 5s}]", "")
		fate := func(w *world, pod *corev1.Pod) {
			const evicted = "j-worker-0"
			switch {
			case w.lives[evicted] == 1 && pod.Name == evicted && pod.Status.Phase == corev1.PodRunning:
				w.evict(pod)
			case w.lives[evicted] == 2 && pod.Name == evicted:
			case w.lives[evicted] <= 2 && pod.Status.Phase == corev1.PodRunning:
			default:
				onceAll(nil)(w, pod)
			}
		}
		w := newWorld(t, spec, fate)
		if got := w.play(); got != want {
			t.Errorf("%s: it ends as\n%s, want\n%s", action, got, want)
		}
		if left := w.read().Status.ControlledResources[evictedPods+"worker"]; action != "TerminateJob" && left != "" {
			t.Errorf("%s: pods %s still wait for replacements", action, left)
		}
		for kill := range 2 * w.writes {
			k := newWorld(t, spec, fate)
			k.kill, k.after = kill/2, kill%2 == 1
			if got := k.play(); got != want {
				t.Errorf("%s, killed at write %d (after it: %v): it ends as\n%s, want\n%s", action, k.kill, k.after, got, want)
			}
		}
	}
}

// TestTheMessageIsForPeople: the status has its own fields for a restart that is under way. Its
// message has no effect.
func TestTheMessageIsForPeople(t *testing.T) {
	job := jobOf(t, "tasks: [{name: a, replicas: 2, policies: [{event: PodFailed, action: RestartTask}], template: {spec: {containers: [{name: c}]}}}]")
	s := specOf(job)
	var pods []*corev1.Pod
	for i := range 2 {
		pod := podOf(job, &s, member{&s.tasks[0], i}, "berth")
		pod.UID, pod.Status.Phase = types.UID(pod.Name), corev1.PodRunning
		pods = append(pods, pod)
	}
	for name, c := range map[string]struct {
		notes map[string]string
		want  int
	}{
		"restarting":            {map[string]string{restartingTask: "a"}, 2},
		"not restarting":        {nil, 0},
		"a task that is gone":   {map[string]string{restartingTask: "b"}, 0},
		"another plugin's word": {map[string]string{"plugin-svc": "svc"}, 0},
	} {
		job.Status = batch.JobStatus{
			State:               batch.JobState{Phase: batch.Running, Reason: string(batch.RestartTask), Message: "restarting task a: so people say"},
			ControlledResources: c.notes,
		}
		if got := next(job, nil, pods, job.CreationTimestamp.Time); len(got.remove) != c.want {
			t.Errorf("%s: %d pods go, want %d; status %+v", name, len(got.remove), c.want, got.status)
		}
	}
}

// TestAFullQuotaIsAskedOnce: if the first pods of a large Job are refused, the others are not
// tried, so that other Jobs need not wait for these requests.
func TestAFullQuotaIsAskedOnce(t *testing.T) {
	w := newWorld(t, "{tasks: [{name: a, replicas: 200, template: {spec: {containers: [{name: c}]}}}]}", onceAll(nil))
	var tried atomic.Int32
	r := w.reconciler()
	r.Client = interceptor.NewClient(w.client, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if _, pod := o.(*corev1.Pod); pod {
			tried.Add(1)
			return apierrors.NewForbidden(corev1.Resource("pods"), o.GetName(), errors.New("exceeded quota"))
		}
		return c.Create(ctx, o, opts...)
	}})
	var err error
	for range 5 { // the status and the objects around the pods come first
		if _, err = r.Reconcile(t.Context(), reconcile.Request{NamespacedName: w.job}); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "exceeded quota") || tried.Load() == 0 || tried.Load() > parallel {
		t.Errorf("%d pods were tried, %v; want at most %d, and the error", tried.Load(), err, parallel)
	}
}
