package jobs

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"context"
	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	group "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/wire"
)

func jobOf(t *testing.T, spec string) *batch.Job {
	t.Helper()
	job := &batch.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "j", UID: "u"}}
	if err := yaml.UnmarshalStrict([]byte(spec), &job.Spec); err != nil {
		t.Fatal(err)
	}
	return job
}

func documented(t *testing.T, name string) *batch.Job {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "test", "volcano", "documents", name))
	if err != nil {
		t.Fatal(err)
	}
	job := new(batch.Job)
	if err := yaml.UnmarshalStrict(data, job); err != nil {
		t.Fatal(err)
	}
	return job
}

// TestPodsOfDocumentedJobs: pods have the same labels and annotations as Volcano's, and the policy
// of their task.
func TestPodsOfDocumentedJobs(t *testing.T) {
	job := documented(t, "job-best-effort.yaml")
	job.Namespace, job.UID = "d", "u"
	if wrong := Refused(job); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	s := specOf(job)
	pod := podOf(job, &s, member{&s.tasks[0], 0}, "berth")
	want := map[string]string{
		"volcano.sh/job-name": "vj-test", "volcano.sh/task-spec": "test", "volcano.sh/task-index": "0", "volcano.sh/queue-name": "default",
		"volcano.sh/job-version": "0", "volcano.sh/job-retry-count": "0", "volcano.sh/template-uid": "vj-test-test",
		"scheduling.k8s.io/group-name": "vj-test-u", "volcano.sh/numa-topology-policy": "best-effort",
	}
	for key, value := range want {
		if pod.Annotations[key] != value {
			t.Errorf("annotation %s is %q, want %q", key, pod.Annotations[key], value)
		}
	}
	if pod.Name != "vj-test-test-0" || pod.Spec.SchedulerName != "volcano" || pod.Labels["volcano.sh/job-namespace"] != "d" ||
		pod.Labels["volcano.sh/job-name"] != "vj-test" || pod.Spec.RestartPolicy != corev1.RestartPolicyOnFailure || !metav1.IsControlledBy(pod, job) {
		t.Errorf("made %+v", pod)
	}
	g := podGroupOf(job, &s, nil, nil)
	if cpu := (*g.Spec.MinResources)[corev1.ResourceCPU]; g.Spec.MinMember != 1 || g.Spec.Queue != "default" || g.Name != "vj-test-u" || cpu.Value() != 20 {
		t.Errorf("PodGroup %+v", g)
	}
	reference := documented(t, "job-reference.yaml")
	s = specOf(reference)
	if pod := podOf(reference, &s, member{&s.tasks[0], 0}, "berth"); pod.Name != "reference-default0-0" || pod.Spec.SchedulerName != "berth" {
		t.Errorf("made %s for scheduler %s", pod.Name, pod.Spec.SchedulerName)
	}
}

func TestPluginsShowHosts(t *testing.T) {
	job := jobOf(t, `
plugins: {svc: [], env: []}
tasks:
- {name: the-ps, replicas: 1, template: {spec: {containers: [{name: c}], initContainers: [{name: i, env: [{name: VC_TASK_INDEX, value: own}]}]}}}
- {name: worker, replicas: 2, template: {spec: {containers: [{name: c}]}}}
`)
	s := specOf(job)
	pod := podOf(job, &s, member{&s.tasks[0], 0}, "berth")
	env := map[string]string{}
	for _, e := range pod.Spec.Containers[0].Env {
		env[e.Name] = e.Value
		if e.ValueFrom != nil {
			env[e.Name] = e.ValueFrom.ConfigMapKeyRef.Name + "/" + e.ValueFrom.ConfigMapKeyRef.Key
		}
	}
	for name, want := range map[string]string{
		"VC_TASK_INDEX": "0", "VK_TASK_INDEX": "0", "VC_THE_PS_HOSTS": "j-svc/VC_THE_PS_HOSTS", "VC_WORKER_NUM": "j-svc/VC_WORKER_NUM",
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	if own := pod.Spec.InitContainers[0].Env[0]; own.Value != "own" {
		t.Errorf("the template's own variable became %+v", own)
	}
	if pod.Spec.Hostname != "j-the-ps-0" || pod.Spec.Subdomain != "j" || pod.Spec.Containers[0].VolumeMounts[0].MountPath != "/etc/volcano" {
		t.Errorf("made %+v", pod.Spec)
	}
	data := hosts(job, &s)
	if data["worker.host"] != "j-worker-0.j\nj-worker-1.j" || data["VC_WORKER_HOSTS"] != "j-worker-0.j,j-worker-1.j" || data["VC_WORKER_NUM"] != "2" {
		t.Errorf("hosts %q", data)
	}
}

// TestRefused: unsupported fields and contradictions are refused, and the error has the path.
func TestRefused(t *testing.T) {
	const task = "tasks: [{name: a, replicas: 2, template: {spec: {containers: [{name: c}]}}%s}]\n"
	for spec, want := range map[string]string{
		"": "spec.tasks",
		fmt.Sprintf(task, "") + "volumes: [{mountPath: /x}]":                                                                                                      "spec.volumes[0].volumeClaimName",
		fmt.Sprintf(task, "") + "networkTopology: {mode: hard}":                                                                                                   "spec.networkTopology",
		fmt.Sprintf(task, "") + "plugins: {nccl: []}":                                                                                                             "spec.plugins[nccl]",
		fmt.Sprintf(task, "") + "plugins: {svc: [--publish]}":                                                                                                     "spec.plugins[svc]",
		fmt.Sprintf(task, "") + "plugins: {env: [x]}":                                                                                                             "spec.plugins[env]",
		fmt.Sprintf(task, "") + "plugins: {pytorch: [--port=0, --master=a]}":                                                                                      "spec.plugins[pytorch]",
		fmt.Sprintf(task, "") + "plugins: {mpi: [--master=a]}":                                                                                                    "spec.plugins[mpi]",
		fmt.Sprintf(task, "") + "plugins: {ray: []}":                                                                                                              "spec.plugins[ray]",
		fmt.Sprintf(task, "") + "plugins: {ssh: [--ssh-key-file-path=keys]}":                                                                                      "spec.plugins[ssh]",
		fmt.Sprintf(task, "") + "plugins: {ssh: [--ssh-private-key=x]}":                                                                                           "spec.plugins[ssh]",
		fmt.Sprintf(task, "") + "volumes: [{mountPath: /x, volumeClaimName: A_b}]":                                                                                "spec.volumes[0].volumeClaimName",
		fmt.Sprintf(task, "") + "volumes: [{mountPath: /x, volumeClaimName: a}, {mountPath: /x, volumeClaimName: b}]":                                             "spec.volumes[1].mountPath",
		fmt.Sprintf(task, "") + "maxRetry: -1":                                                                                                                    "spec.maxRetry",
		fmt.Sprintf(task, "") + "policies: [{exitCode: 3, action: AbortJob}, {exitCode: 3, action: RestartJob}]":                                                  "spec.policies[1].exitCode",
		"tasks: [{name: a, replicas: 1, dependsOn: {name: [b]}}, {name: b, replicas: 1, dependsOn: {name: [a]}}]":                                                 "spec.tasks[0].dependsOn.name spec.tasks[1].dependsOn.name",
		"tasks: [{name: a, replicas: 1, dependsOn: {name: [c]}}, {name: b, replicas: 1, dependsOn: {name: [c]}}, {name: c, replicas: 1, dependsOn: {name: [b]}}]": "spec.tasks[1].dependsOn.name spec.tasks[2].dependsOn.name",
		"minAvailable: 1\ntasks: [{name: a, replicas: 1}, {name: b, replicas: 1, dependsOn: {name: [a, a]}}, {name: c, replicas: 1, dependsOn: {name: [b, a]}}]":  "",
		"tasks: [{name: a, replicas: 1}, {name: b, replicas: 1, dependsOn: {name: [a, a, a]}}]":                                                                   "spec.tasks[1].dependsOn.name",
		"minAvailable: 2\ntasks: [{name: a, replicas: 1}, {name: b, replicas: 1, dependsOn: {name: [a]}}]":                                                        "",
		fmt.Sprintf(task, "") + "minAvailable: 3":                                                                                                                 "spec.minAvailable",
		fmt.Sprintf(task, "") + "policies: [{event: PodPending, action: RestartJob}]":                                                                             "spec.policies[0].timeout",
		fmt.Sprintf(task, "") + "policies: [{event: PodRunning, action: RestartJob}]":                                                                             "spec.policies[0].event",
		fmt.Sprintf(task, "") + "policies: [{event: PodFailed, action: ResumeJob}]":                                                                               "spec.policies[0].action",
		fmt.Sprintf(task, "") + "policies: [{event: Unknown, action: RestartJob, timeout: 5s}]":                                                                   "spec.policies[0].timeout",
		fmt.Sprintf(task, "") + "policies: [{exitCode: 0, action: RestartJob}]":                                                                                   "spec.policies[0].exitCode",
		fmt.Sprintf(task, "") + "policies: [{exitCode: 1, event: PodFailed, action: RestartJob}]":                                                                 "spec.policies[0].exitCode",
		fmt.Sprintf(task, "") + "policies: [{action: RestartJob}]":                                                                                                "spec.policies[0].event",
		fmt.Sprintf(task, "") + "policies: [{event: PodFailed, action: AbortJob}, {event: PodFailed, action: RestartJob}]":                                        "spec.policies[1].event",
		fmt.Sprintf(task, "") + "policies: [{event: '*', action: AbortJob}, {event: PodFailed, action: RestartJob}]":                                              "spec.policies",
		fmt.Sprintf(task, ", dependsOn: {name: [b]}"):                                                                                                             "spec.tasks[0].dependsOn.name[0]",
		fmt.Sprintf(task, ", partitionPolicy: {totalPartitions: 1, partitionSize: 2}"):                                                                            "spec.tasks[0].partitionPolicy",
		fmt.Sprintf(task, ", minAvailable: 3"):                                                                                                                    "spec.tasks[0].minAvailable",
		"tasks: [{name: a, replicas: 1}, {name: a, replicas: 1}]":                                                                                                 "spec.tasks[1].name",
		"tasks: [{name: A_b, replicas: 1}]":                                                                                                                       "spec.tasks[0].name",
		"tasks: [{name: a, replicas: 6000}, {name: b, replicas: 6000}]":                                                                                           "spec.tasks",
		"tasks: [{name: a, replicas: 5000}]":                                                                                                                      "spec.minAvailable",
		"minAvailable: 4097\ntasks: [{name: a, replicas: 5000}]":                                                                                                  "spec.minAvailable",
		"tasks: [{name: a, replicas: 3000}, {name: b, replicas: 3000}]":                                                                                           "spec.minAvailable",
		"minAvailable: 4096\ntasks: [{name: a, replicas: 5000}]":                                                                                                  "",
		"tasks: [{name: a, replicas: 5000, minAvailable: 1}, {replicas: 40}]":                                                                                     "",
		"tasks: [{name: a, replicas: 100000}]":                                                                                                                    "spec.tasks",
		"tasks: [{name: " + strings.Repeat("a", 63) + ", replicas: 1}]":                                                                                           "spec.tasks[0].name",
	} {
		var paths []string
		for _, e := range Refused(jobOf(t, spec)) {
			paths = append(paths, e.Field)
		}
		if strings.Join(paths, " ") != want {
			t.Errorf("%.200s: refused for %q, want %s", spec, paths, want)
		}
	}
	if wrong := Refused(jobOf(t, fmt.Sprintf(task, ""))); len(wrong) > 0 {
		t.Errorf("a plain Job is refused: %v", wrong)
	}
}

// TestTheSchedulerPlansWhatIsServed: if a Job is not refused, berth-scheduler accepts its group.
func TestTheSchedulerPlansWhatIsServed(t *testing.T) {
	for spec, served := range map[string]bool{
		"tasks: [{name: a, replicas: 4096}]":                              true,
		"tasks: [{name: a, replicas: 4097}]":                              false,
		"minAvailable: 4096\ntasks: [{name: a, replicas: 9000}]":          true,
		"minAvailable: 1\ntasks: [{name: a, replicas: 9000}]":             true,
		"minAvailable: 4097\ntasks: [{name: a, replicas: 9000}]":          false,
		"tasks: [{replicas: 5000, minAvailable: 2000}, {replicas: 2000}]": true,
		"tasks: [{replicas: 5000, minAvailable: 2000}, {replicas: 3000}]": false,
	} {
		job := jobOf(t, spec)
		s := specOf(job)
		_, err := wire.ReadVolcanoGroup(podGroupOf(job, &s, nil, nil))
		if wrong := Refused(job); (err == nil) != served || (len(wrong) == 0) != served {
			t.Errorf("%s: the scheduler says %v, the controller %v; want served %t", spec, err, wrong, served)
		}
	}
}

// TestCountsDoNotOverflow: a Job of 2^32 pods must not be read as one of ten.
func TestCountsDoNotOverflow(t *testing.T) {
	const huge = "{name: %s, replicas: 2147483647, minAvailable: 2147483647}"
	job := jobOf(t, "tasks: ["+fmt.Sprintf(huge, "a")+", "+fmt.Sprintf(huge, "b")+", {name: c, replicas: 12}]")
	if s := specOf(job); s.replicas != math.MaxInt32 || s.minAvailable != math.MaxInt32 {
		t.Errorf("%d pods, %d at least, want the largest number for both", s.replicas, s.minAvailable)
	}
	if wrong := Refused(job); len(wrong) != 1 || wrong[0].Field != "spec.tasks" {
		t.Errorf("refused for %v, want spec.tasks", wrong)
	}
}

func TestPassedOver(t *testing.T) {
	got := Unserved(jobOf(t, "{queue: gold, runningEstimate: 1h, networkTopology: {mode: soft}, tasks: [{replicas: 1}]}"))
	for i, want := range []string{"spec.queue", "spec.networkTopology", "spec.runningEstimate"} {
		if len(got) != 3 || !strings.HasPrefix(got[i], want+":") {
			t.Errorf("passed over %q, want a word about %s", got, want)
		}
	}
	if got := Unserved(jobOf(t, "{queue: default, tasks: [{replicas: 1}]}")); len(got) > 0 {
		t.Errorf("passed over %q", got)
	}
}

// TestRefusedJobMakesNothing: it ends at once, with the reason.
func TestRefusedJobMakesNothing(t *testing.T) {
	w := newWorld(t, "{volumes: [{mountPath: /x}], tasks: [{replicas: 1}]}", onceAll(nil))
	w.settle()
	s := w.read().Status
	if s.State.Phase != batch.Failed || s.State.Reason != "Refused" || !strings.Contains(s.State.Message, "spec.volumes") || len(w.pods()) > 0 {
		t.Errorf("status %+v, pods %v", s, w.pods())
	}
}

// TestAMalformedJobIsRefused: a Job that does not match the types ends, and its message has the
// reason.
func TestAMalformedJobIsRefused(t *testing.T) {
	w := newWorld(t, "tasks: [{replicas: 1}]", onceAll(nil))
	r := w.reconciler()
	r.Client = malforming{r.Client}
	for range 2 {
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: w.job}); err != nil {
			t.Fatal(err)
		}
	}
	s := w.read().Status
	if s.State.Phase != batch.Failed || s.State.Reason != "Refused" || s.State.Message != "spec.x: wrong" || len(w.pods()) > 0 {
		t.Errorf("status %+v, pods %v", s, w.pods())
	}
}

// malforming returns Jobs that do not match the types.
type malforming struct{ client.Client }

func (m malforming) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := m.Client.Get(ctx, key, o, opts...)
	if job, ok := o.(*batch.Job); ok {
		job.Spec, job.Malformed = batch.JobSpec{}, "spec.x: wrong"
	}
	return err
}

// TestOtherControllersJob: a Job that belongs to another controller is not written.
func TestOtherControllersJob(t *testing.T) {
	w := newWorld(t, "tasks: [{replicas: 1}]", onceAll(nil))
	r := w.reconciler()
	r.Mine = func(context.Context, string) string { return "Volcano's controller runs" }
	q, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: w.job})
	if err != nil || q.RequeueAfter == 0 || w.writes > 0 {
		t.Errorf("%+v, %v, %d writes", q, err, w.writes)
	}
}

// TestGrowAndShrink: replicas may change while a Job runs. A pod that is no longer needed does not
// count as evicted. As with Volcano's webhook, a Job without minAvailable needs the pods with which
// it began, and no more.
func TestGrowAndShrink(t *testing.T) {
	w := newWorld(t, "policies: [{event: PodEvicted, action: TerminateJob}]\ntasks: [{name: a, replicas: 2, template: {spec: {containers: [{name: c}]}}}]", onceAll(never("j-a-0", "j-a-1", "j-a-2")))
	for _, c := range [][2]int32{{2, 2}, {3, 2}, {1, 1}, {2, 2}} {
		replicas, least := c[0], c[1]
		job := w.read()
		job.Spec.Tasks[0].Replicas = replicas
		w.byWorld = true
		if err := w.client.Update(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		w.byWorld = false
		for range 3 {
			w.settle()
			w.act()
		}
		w.settle()
		var g group.PodGroup
		if err := w.client.Get(t.Context(), types.NamespacedName{Namespace: "d", Name: "j-job-uid"}, &g); err != nil {
			t.Fatal(err)
		}
		if s := w.read().Status; s.State.Phase != batch.Running || s.Running != replicas || len(w.pods()) != int(replicas) || s.MinAvailable != least || g.Spec.MinMember != least || g.Spec.MinTaskMember["a"] != least {
			t.Errorf("%d replicas: %+v, %d pods, PodGroup %+v; want minMember %d", replicas, s, len(w.pods()), g.Spec, least)
		}
	}
}

// TestAJobThatGrowsIsNotTorn: a further pod that finds no node has no effect on the pods that run.
func TestAJobThatGrowsIsNotTorn(t *testing.T) {
	job := jobOf(t, "policies: [{event: '*', action: RestartJob}]\ntasks: [{name: a, replicas: 2, template: {spec: {containers: [{name: c}]}}}]")
	job.Status = next(job, nil, nil, job.CreationTimestamp.Time).status
	var pods []*corev1.Pod
	for i := range 3 {
		pod := podWith(t, job, "a", i)
		pod.Spec.NodeName, pod.Status.Phase = "n", corev1.PodRunning
		pods = append(pods, pod)
	}
	job.Status = next(job, nil, pods[:2], job.CreationTimestamp.Time).status
	job.Spec.Tasks[0].Replicas = 3
	pods[2].Spec.NodeName = ""
	pods[2].Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
	}}
	if out := next(job, nil, pods, job.CreationTimestamp.Time); out.status.State.Phase != batch.Running || len(out.remove) > 0 {
		t.Errorf("%s, %d pods are deleted: want Running, and none", out.status.State.Phase, len(out.remove))
	}
}

// TestAClaimThatVolcanoMade: Volcano's controller writes the name of the claim into the Job. A Job
// that berth-controller takes over uses this claim.
func TestAClaimThatVolcanoMade(t *testing.T) {
	job := jobOf(t, "volumes: [{mountPath: /x, volumeClaimName: j-pvc-3f2a, volumeClaim: {accessModes: [ReadWriteOnce]}}]\ntasks: [{name: a, replicas: 1, template: {spec: {containers: [{name: c}]}}}]")
	if wrong := Refused(job); len(wrong) != 1 {
		t.Errorf("a new Job: %v, want one error", wrong)
	}
	job.Status.State.Phase = batch.Running
	pod := podWith(t, job, "a", 0)
	if claim := pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName; claim != "j-pvc-3f2a" {
		t.Errorf("claim %q", claim)
	}
}

// TestNamesWithDots: only the plugin svc, which other plugins imply, needs names without dots.
func TestNamesWithDots(t *testing.T) {
	for name, c := range map[string]struct{ plugins, want string }{
		"resnet-1.5":            {"{env: [], ssh: []}", ""},
		"resnet-1.6":            {"{svc: []}", "resnet-1.6-a-1, which is not a DNS label, as the plugin svc needs"},
		"resnet-1.7":            {"{pytorch: ['--master=a']}", "as the plugin svc needs"},
		"resnet-.8":             {"{}", "resnet-.8-a-1, which is not a DNS name"},
		strings.Repeat("x", 60): {"{}", "which is longer than 63 characters"},
	} {
		job := jobOf(t, "plugins: "+c.plugins+"\ntasks: [{name: a, replicas: 1, template: {spec: {containers: [{name: c}]}}}]")
		job.Name = name
		if wrong := Refused(job).ToAggregate(); (wrong == nil) != (c.want == "") || wrong != nil && !strings.Contains(wrong.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, wrong, c.want)
		}
	}
}

// TestMinResources has the values of Volcano's controller (CalcPGMinResources and
// CalcFirstCountResources): what the pods need that start together.
func TestMinResources(t *testing.T) {
	for spec, want := range map[string]int64{
		"tasks: [{name: a, replicas: 4, %s}, {name: b, replicas: 1, %s}]":                                   4*10 + 1,
		"tasks: [{name: a, replicas: 4, minAvailable: 1, %s}, {name: b, replicas: 1, %s}]":                  10 + 1,
		"minAvailable: 2\ntasks: [{name: a, replicas: 4, minAvailable: 1, %s}, {name: b, replicas: 1, %s}]": 10 + 1,
		"minAvailable: 3\ntasks: [{name: a, replicas: 4, minAvailable: 1, %s}, {name: b, replicas: 1, %s}]": 2*10 + 1,
		"minAvailable: 2\ntasks: [{name: a, replicas: 1, %s}, {name: b, replicas: 5, minAvailable: 0, %s}]": 10 + 1,
		"minAvailable: 2\ntasks: [{name: a, replicas: 4, %s}, {name: b, replicas: 1, %s}]":                  2 * 10, // the tasks' values have no effect
		"minAvailable: 5\ntasks: [{name: a, replicas: 4, %s}, {name: b, replicas: 3, minAvailable: 1, %s}]": 4*10 + 1,
	} {
		const of = "template: {spec: {containers: [{name: c, resources: {requests: {cpu: %d}}}]}}"
		s := specOf(jobOf(t, fmt.Sprintf(spec, fmt.Sprintf(of, 10), fmt.Sprintf(of, 1))))
		if cpu := leastResources(&s)[corev1.ResourceCPU]; cpu.Value() != want {
			t.Errorf("%s: %v CPUs, want %d", spec, cpu, want)
		}
	}
}

// TestNameOfAnother: an object that belongs to another owner is not changed, and an event names it.
// The Job waits until pods of its name are gone. Advice to delete a pod is only about a pod that
// stays (volcano#2284).
func TestNameOfAnother(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "d", Name: "j-a-0"}
	earlier := jobOf(t, "tasks: []")
	earlier.UID = "earlier"
	owned := *meta.DeepCopy()
	owned.OwnerReferences = ownerOf(earlier)
	hosts := *owned.DeepCopy()
	hosts.Name = "j-svc"
	for _, c := range []struct {
		plugins string
		other   client.Object
		err     string
		event   string
	}{
		{"", &corev1.Pod{ObjectMeta: meta}, "does not belong to Job j", "pod j-a-0 exists already and does not belong to this Job: delete the pod"},
		{"", &corev1.Pod{ObjectMeta: owned}, "deleted Job of the same name", "pod j-a-0: it belongs to a deleted Job of the same name, and is not deleted yet"},
		{"plugins: {svc: []}", &corev1.ConfigMap{ObjectMeta: hosts}, "deleted Job of the same name", "ConfigMap d/j-svc: it belongs to a deleted Job of the same name, and is not deleted yet"},
		{"plugins: {svc: []}", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "j"}}, "", "PassedOver Service j exists already and does not belong to this Job"},
	} {
		w := newWorld(t, c.plugins+"\ntasks: [{name: a, replicas: 1, template: {spec: {containers: [{name: c}]}}}]", onceAll(nil))
		w.byWorld = true
		if err := w.client.Create(t.Context(), c.other); err != nil {
			t.Fatal(err)
		}
		w.byWorld = false
		r, told := w.reconciler(), events.NewFakeRecorder(16)
		r.Events = told
		_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: w.job})
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("error %v, want %q", err, c.err)
		}
		close(told.Events)
		var texts []string
		for text := range told.Events {
			texts = append(texts, text)
		}
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, c.event) }) {
			t.Errorf("events %q, want %q", texts, c.event)
		}
		if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(c.other), c.other); err != nil {
			t.Error(err)
		}
	}
}

// TestEndedJobGoes: ttlSecondsAfterFinished deletes it. Its PodGroup is deleted before. A Job that
// was aborted stays.
func TestEndedJobGoes(t *testing.T) {
	for action, stays := range map[batch.Action]bool{batch.CompleteJob: false, batch.TerminateJob: false, batch.AbortJob: true} {
		w := newWorld(t, fmt.Sprintf("ttlSecondsAfterFinished: 5\npolicies: [{event: TaskCompleted, action: %s}]\ntasks: [{name: a, replicas: 1, template: {spec: {containers: [{name: c}]}}}]", action), onceAll(nil))
		w.play()
		var groups group.PodGroupList
		if err := w.client.List(t.Context(), &groups); err != nil || len(groups.Items) > 0 {
			t.Errorf("%s: PodGroups %v, error %v", action, groups.Items, err)
		}
		for range 6 {
			w.act()
		}
		w.settle()
		if err := w.client.Get(t.Context(), w.job, new(batch.Job)); client.IgnoreNotFound(err) != nil || (err == nil) != stays {
			t.Errorf("%s: the Job stays: %t, want %t: %v", action, err == nil, stays, err)
		}
	}
}

// TestHostsThatNobodyCanBeTold: the svc plugin gives every container the names of all hosts, in a
// file from a ConfigMap and in a variable. Both have size limits.
func TestHostsThatNobodyCanBeTold(t *testing.T) {
	spec := func(plugins string, replicas ...int) string {
		text := "minAvailable: 1\nplugins: {" + plugins + "}\ntasks:\n"
		for i, n := range replicas {
			text += fmt.Sprintf("- {name: %s%d, replicas: %d, template: {spec: {containers: [{name: c}]}}}\n", strings.Repeat("t", 50), i, n)
		}
		return text
	}
	for _, c := range []struct {
		name, spec string
		want       []string
	}{
		{"few", spec("svc: []", 1000), nil},
		{"a variable that is too long", spec("svc: []", 3000), []string{"spec.tasks[0].replicas"}},
		{"the same without svc", spec("env: []", 3000), nil},
		{"a ConfigMap that is too large", spec("svc: []", 2000, 2000, 2000, 2000, 2000), []string{"spec.plugins[svc]"}},
	} {
		var paths []string
		for _, w := range Refused(jobOf(t, c.spec)) {
			paths = append(paths, w.Field)
		}
		if !slices.Equal(paths, c.want) {
			t.Errorf("%s: refused for %q, want %q", c.name, paths, c.want)
		}
	}
}

// TestPodsBeyondReplicasDecideNothing: if a Job needs fewer pods than before, the state of the
// others has no effect.
func TestPodsBeyondReplicasDecideNothing(t *testing.T) {
	job := jobOf(t, "policies: [{event: PodFailed, action: AbortJob}]\ntasks: [{name: a, replicas: 2, template: {spec: {containers: [{name: c}]}}}]")
	job.Status.State.Phase = batch.Running
	s := specOf(job)
	var pods []*corev1.Pod
	for i, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodSucceeded, corev1.PodSucceeded, corev1.PodFailed} {
		pod := podOf(job, &s, member{&s.tasks[0], i}, "berth")
		pod.Status.Phase = phase
		pods = append(pods, pod)
	}
	out := next(job, nil, pods, job.CreationTimestamp.Time)
	if phase := out.status.State.Phase; phase != batch.Running || !slices.Equal(out.remove, pods[2:]) {
		t.Errorf("%s, %d pods are deleted: want Running, and the two that are too many deleted", phase, len(out.remove))
	}
	if out.status.Running != 1 || out.status.Succeeded != 1 || out.status.Failed != 0 || out.status.Terminating != 2 {
		t.Errorf("%+v: want one that runs, one that has succeeded, and two that leave", out.status)
	}
}

// runningJob returns a Job with the tasks a and b. Each task has two pods, and all four run.
func runningJob(t *testing.T, policies string) (*batch.Job, []*corev1.Pod) {
	const tasks = "\ntasks: [{name: a, replicas: 2, template: {spec: {containers: [{name: c}]}}}, {name: b, replicas: 2, template: {spec: {containers: [{name: c}]}}}]"
	job := jobOf(t, policies+tasks)
	job.Status.State.Phase, job.Status.Conditions = batch.Running, []batch.JobCondition{{Status: batch.Running}}
	s := specOf(job)
	var pods []*corev1.Pod
	for i := range 4 {
		pod := podOf(job, &s, member{&s.tasks[i/2], i % 2}, "berth")
		pod.UID, pod.Spec.NodeName, pod.Status.Phase = types.UID(pod.Name), "node", corev1.PodRunning
		pods = append(pods, pod)
	}
	job.Status = next(job, nil, pods, job.CreationTimestamp.Time).status
	return job, pods
}

// TestAnEvictionWaitsForAnotherTask: an eviction from a task while another task is restarted is
// remembered, and its policy is applied afterwards.
func TestAnEvictionWaitsForAnotherTask(t *testing.T) {
	job, pods := runningJob(t, "policies: [{event: PodEvicted, action: RestartTask}]")
	for i, c := range []struct {
		there, removed []*corev1.Pod
		made           int
		retries        int32
		restarting     string
	}{
		{[]*corev1.Pod{pods[1], pods[2], pods[3]}, pods[1:2], 0, 1, "a"}, // one pod of a is evicted
		{[]*corev1.Pod{pods[1], pods[3]}, pods[1:2], 0, 1, "a"},          // and one of b
		{pods[3:], nil, 2, 1, ""},                                        // no pod of a is left
		{[]*corev1.Pod{pods[0], pods[1], pods[3]}, pods[3:], 0, 1, "b"},  // created before the retry: not another failure
		{pods[:2], nil, 2, 1, ""},
	} {
		out := next(job, nil, c.there, job.CreationTimestamp.Time)
		job.Status = out.status
		if !slices.Equal(out.remove, c.removed) || len(out.make) != c.made || out.status.RetryCount != c.retries || out.status.ControlledResources[restartingTask] != c.restarting {
			t.Errorf("step %d: %d pods go, %d are made: want %d and %d; status %+v", i, len(out.remove), len(out.make), len(c.removed), c.made, out.status)
		}
	}
}

// TestAnEvictionOfAFailedJob: a failed Job does not wait for anything.
func TestAnEvictionOfAFailedJob(t *testing.T) {
	job, pods := runningJob(t, "maxRetry: 1\npolicies: [{event: PodEvicted, action: RestartTask}]")
	out := next(job, nil, []*corev1.Pod{pods[1], pods[3]}, job.CreationTimestamp.Time)
	if s := out.status; s.State.Phase != batch.Failed || len(s.TaskStatusCount) > 0 || s.Terminating != 2 {
		t.Errorf("status %+v: want Failed, and two pods that leave", s)
	}
}

// TestPodsThatFailTogetherCountOnce: if a node fails, several pods fail with it, and this is one
// retry. If their successors fail, this is another one.
func TestPodsThatFailTogetherCountOnce(t *testing.T) {
	job, pods := runningJob(t, "maxRetry: 2\npolicies: [{event: PodFailed, action: RestartPod}]")
	for _, pod := range pods[1:] {
		pod.Status.Phase = corev1.PodFailed
	}
	for _, leaving := range []bool{false, false, true} { // the deletion is not visible at once
		for i, pod := range pods[1:] {
			if leaving && i > 0 {
				pod.DeletionTimestamp = &job.CreationTimestamp
			}
		}
		out := next(job, nil, pods, job.CreationTimestamp.Time)
		if job.Status = out.status; out.status.RetryCount != 1 || !leaving && !slices.Equal(out.remove, pods[1:]) {
			t.Errorf("%d pods go, %d retries: want %d, and one; status %+v", len(out.remove), out.status.RetryCount, len(pods[1:]), out.status)
		}
	}
	for _, pod := range pods[1:] {
		pod.UID, pod.DeletionTimestamp = "next-"+pod.UID, nil
		pod.Annotations[batch.JobRetryCountKey] = "1"
	}
	if s := next(job, nil, pods, job.CreationTimestamp.Time).status; s.RetryCount != 2 || s.State.Phase != batch.Failed {
		t.Errorf("when they fail again: %+v, want Failed by the second retry", s)
	}
}

// TestATearCountsOnce: a Job is torn as long as one of its pods finds no node, even while a part of
// it is restarted. The policy for this restarts a part once. When the Job has been whole, the next
// tear counts again.
func TestATearCountsOnce(t *testing.T) {
	for _, action := range []batch.Action{batch.RestartTask, batch.RestartPod} {
		job, pods := runningJob(t, "policies: [{event: Unknown, action: "+string(action)+"}]")
		first := pods[0] // of the restarted task
		for i, step := range []struct {
			torn, gone bool // gone: deleted pods are gone
			want       int32
		}{{true, false, 1}, {true, true, 1}, {true, false, 1}, {true, true, 1}, {false, false, 1}, {true, false, 2}, {true, true, 2}} {
			first.Spec.NodeName, first.Status = "node", corev1.PodStatus{Phase: corev1.PodRunning}
			if step.torn {
				first.Spec.NodeName, first.Status.Phase = "", corev1.PodPending
				first.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
			}
			there := pods
			if step.gone {
				there = pods[2:]
			}
			job.Status = next(job, nil, there, job.CreationTimestamp.Time).status
			if got := job.Status.RetryCount; got != step.want || isFinal(job.Status.State.Phase) {
				t.Errorf("%s, look %d: %d retries, want %d; status %+v", action, i, got, step.want, job.Status)
			}
		}
	}
}

// jobOfANode returns a Job whose pods all run on one node.
func jobOfANode(t *testing.T, policies string, count int) (*batch.Job, []*corev1.Pod) {
	job := jobOf(t, fmt.Sprintf("%s\ntasks: [{name: a, replicas: %d, template: {spec: {containers: [{name: c}]}}}]", policies, count))
	job.Status.State.Phase, job.Status.Conditions = batch.Running, []batch.JobCondition{{Status: batch.Running}}
	s := specOf(job)
	var pods []*corev1.Pod
	for i := range count {
		pods = append(pods, running(podOf(job, &s, member{&s.tasks[0], i}, "berth")))
	}
	job.Status = next(job, nil, pods, job.CreationTimestamp.Time).status
	return job, pods
}

func running(pod *corev1.Pod) *corev1.Pod {
	pod.UID, pod.Spec.NodeName, pod.Status.Phase = types.UID(pod.Name), "node", corev1.PodRunning
	return pod
}

// TestOneFailureIsOneRetry: when a node is lost, its pods fail or disappear over several looks of
// the controller, however many they are. If their successors fail, this is another failure.
func TestOneFailureIsOneRetry(t *testing.T) {
	fails := func(pod *corev1.Pod) *corev1.Pod { pod.Status.Phase = corev1.PodFailed; return pod }
	goes := func(*corev1.Pod) *corev1.Pod { return nil }
	for name, c := range map[string]struct {
		action batch.Action
		count  int
		looks  []int // how many pods are lost at each look
		lost   []func(*corev1.Pod) *corev1.Pod
	}{
		"one after the other":     {batch.RestartPod, 8, []int{3, 3, 2}, []func(*corev1.Pod) *corev1.Pod{fails}},
		"many at once":            {batch.RestartPod, 150, []int{150}, []func(*corev1.Pod) *corev1.Pod{fails}},
		"evicted":                 {batch.RestartPod, 8, []int{3, 3, 2}, []func(*corev1.Pod) *corev1.Pod{goes}},
		"evicted, tasks":          {batch.RestartTask, 8, []int{3, 3, 2}, []func(*corev1.Pod) *corev1.Pod{goes}},
		"some fail and some go":   {batch.RestartPod, 8, []int{4, 4}, []func(*corev1.Pod) *corev1.Pod{goes, fails}},
		"many, one after another": {batch.RestartPod, 8, []int{1, 1, 1, 1, 1, 1, 1, 1}, []func(*corev1.Pod) *corev1.Pod{fails, goes}},
	} {
		job, pods := jobOfANode(t, "policies: [{events: [PodFailed, PodEvicted], action: "+string(c.action)+"}]", c.count)
		s := specOf(job)
		// look lets the controller look three times, and carries out its actions.
		look := func() {
			for range 3 {
				out := next(job, nil, slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return p == nil }), job.CreationTimestamp.Time)
				job.Status = out.status
				for _, gone := range out.remove {
					pods[slices.Index(pods, gone)] = nil
				}
				for _, m := range out.make {
					pods[m.index] = running(podOf(job, &s, m, "berth"))
				}
			}
		}
		for round := int32(1); round <= 2; round++ {
			first := 0
			for i, n := range c.looks {
				for at := first; at < first+n; at++ {
					if pods[at] != nil && pods[at].Annotations[batch.JobRetryCountKey] == fmt.Sprint(round-1) {
						pods[at] = c.lost[at%len(c.lost)](pods[at])
					}
				}
				first += n
				if look(); job.Status.RetryCount != round || isFinal(job.Status.State.Phase) {
					t.Errorf("%s: failure %d, look %d: %d retries, %s; want %d", name, round, i, job.Status.RetryCount, job.Status.State.Phase, round)
				}
			}
			if slices.Contains(pods, nil) {
				t.Errorf("%s: pods are missing after failure %d", name, round)
			}
		}
	}
}

// TestAJobWithoutItsPodsIsPending: a Job that ran and lost its pods is pending again.
func TestAJobWithoutItsPodsIsPending(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		lost int // pods that are pending again
		want batch.JobPhase
	}{
		"all are lost":         {"", 4, batch.Pending},
		"one is lost":          {"", 1, batch.Pending},
		"enough are left":      {"minAvailable: 2", 2, batch.Running},
		"too few are left":     {"minAvailable: 2", 3, batch.Pending},
		"all, and none needed": {"minAvailable: 1", 4, batch.Pending},
	} {
		job, pods := runningJob(t, c.spec)
		for _, pod := range pods[:c.lost] {
			pod.Spec.NodeName, pod.Status.Phase = "", corev1.PodPending
		}
		out := next(job, nil, pods, job.CreationTimestamp.Time)
		if got := out.status.State.Phase; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		job.Status = next(job, nil, pods[c.lost:], job.CreationTimestamp.Time).status // before they are created again
		if got := job.Status.State.Phase; got != c.want {
			t.Errorf("%s, not made again: %s, want %s", name, got, c.want)
		}
		for _, pod := range pods {
			pod.Status.Phase = corev1.PodRunning
		}
		if got := next(job, nil, pods, job.CreationTimestamp.Time).status.State.Phase; got != batch.Running {
			t.Errorf("%s, and back: %s", name, got)
		}
	}
}

// TestATaskOfWhichTooFewSucceed has failed when its pods have ended.
func TestATaskOfWhichTooFewSucceed(t *testing.T) {
	for name, c := range map[string]struct {
		least  string
		phases [2]corev1.PodPhase
		want   batch.JobPhase
	}{
		"both fail":        {"", [2]corev1.PodPhase{corev1.PodFailed, corev1.PodFailed}, batch.Terminating},
		"one fails":        {"", [2]corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded}, batch.Terminating},
		"one goes on":      {"", [2]corev1.PodPhase{corev1.PodFailed, corev1.PodRunning}, batch.Running},
		"enough succeed":   {", minAvailable: 1", [2]corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded}, batch.Running},
		"none has to":      {", minAvailable: 0", [2]corev1.PodPhase{corev1.PodFailed, corev1.PodFailed}, batch.Running},
		"nothing was lost": {"", [2]corev1.PodPhase{corev1.PodSucceeded, corev1.PodSucceeded}, batch.Running},
	} {
		job := jobOf(t, "minAvailable: 1\npolicies: [{event: TaskFailed, action: TerminateJob}]\ntasks: [{name: a, replicas: 2"+c.least+", template: {spec: {restartPolicy: Never}}}, {name: b, replicas: 1}]")
		job.Status.State.Phase = batch.Running
		s := specOf(job)
		var pods []*corev1.Pod
		for i, phase := range append(c.phases[:], corev1.PodRunning) {
			pod := running(podOf(job, &s, member{&s.tasks[i/2], i % 2}, "berth"))
			pod.Status.Phase = phase
			pods = append(pods, pod)
		}
		out := next(job, nil, pods, job.CreationTimestamp.Time)
		if got := out.status.State.Phase; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestAnEndedJobWaitsForPoliciesOfItsFailure, but for no other policies.
func TestAnEndedJobWaitsForPoliciesOfItsFailure(t *testing.T) {
	for policy, want := range map[string]batch.JobPhase{
		"{event: TaskCompleted, timeout: 24h, action: CompleteJob}": batch.Completed,
		"{event: PodFailed, timeout: 24h, action: AbortJob}":        batch.Running,
		"{exitCode: 3, timeout: 24h, action: AbortJob}":             batch.Running,
		"{exitCode: 4, timeout: 24h, action: AbortJob}":             batch.Completed,
	} {
		job := jobOf(t, "minAvailable: 1\npolicies: ["+policy+"]\ntasks: [{name: a, replicas: 1, minAvailable: 0}, {name: b, replicas: 1}]")
		job.Status.State.Phase = batch.Running
		s := specOf(job)
		bad, good := running(podOf(job, &s, member{&s.tasks[0], 0}, "berth")), running(podOf(job, &s, member{&s.tasks[1], 0}, "berth"))
		bad.Status = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}},
		}}
		good.Status.Phase = corev1.PodSucceeded
		if got := next(job, nil, []*corev1.Pod{bad, good}, job.CreationTimestamp.Time).status.State.Phase; got != want {
			t.Errorf("%s: %s, want %s", policy, got, want)
		}
	}
}

// TestStagesOfOneJob: a Job may need pods of tasks that wait for other tasks. Only pods of tasks
// that have begun start together, but minResources are those of all tasks.
func TestStagesOfOneJob(t *testing.T) {
	w := newWorld(t, `
tasks:
- {name: b, replicas: 2, dependsOn: {name: [a]}, template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}}
- {name: a, replicas: 1, template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}}`, onceAll(never("j-a-0")))
	for _, want := range []struct {
		pods, minimum int32
		tasks         string
		phase         batch.JobPhase
	}{{1, 1, "map[a:1]", batch.Pending}, {3, 3, "map[a:1 b:2]", batch.Pending}, {3, 3, "map[a:1 b:2]", batch.Running}} {
		w.settle()
		var g group.PodGroup
		if err := w.client.Get(t.Context(), types.NamespacedName{Namespace: "d", Name: "j-job-uid"}, &g); err != nil {
			t.Fatal(err)
		}
		cpu, phase := (*g.Spec.MinResources)[corev1.ResourceCPU], w.read().Status.State.Phase
		if tasks := fmt.Sprint(g.Spec.MinTaskMember); len(w.pods()) != int(want.pods) || g.Spec.MinMember != want.minimum || tasks != want.tasks || cpu.Value() != 3 || phase != want.phase {
			t.Errorf("%d pods, PodGroup %+v, %s: want %+v", len(w.pods()), g.Spec, phase, want)
		}
		w.act()
	}
}
