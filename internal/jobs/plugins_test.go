package jobs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	group "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
)

// podWith returns the pod with this index of a Job's task.
func podWith(t *testing.T, job *batch.Job, task string, index int) *corev1.Pod {
	t.Helper()
	if wrong := Refused(job); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	s := specOf(job)
	return podOf(job, &s, member{s.task(task), index}, "berth")
}

// variable returns a variable of a pod's first container.
func variable(pod *corev1.Pod, name string) string {
	for _, e := range pod.Spec.Containers[0].Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

const twoRoles = `
tasks:
- {name: master, replicas: 1, template: {spec: {containers: [{name: c}]}}}
- {name: worker, replicas: 2, template: {spec: {containers: [{name: c}]}}}
`

// TestFrameworks: each pod gets the addresses of the others in the form of its framework, and they
// can reach it.
func TestFrameworks(t *testing.T) {
	for _, c := range []struct {
		plugin, task string
		index        int
		want         map[string]string
		port         int32
	}{
		{"mpi: []", "master", 0, map[string]string{"MPI_HOST": "j-worker-0.j,j-worker-1.j"}, 22},
		{"mpi: [--port=2022]", "worker", 1, map[string]string{"MPI_HOST": ""}, 2022},
		{"pytorch: []", "master", 0, map[string]string{"MASTER_ADDR": "j-master-0.j", "MASTER_PORT": "23456", "WORLD_SIZE": "3", "RANK": "0"}, 23456},
		{"pytorch: [-port, '7']", "worker", 1, map[string]string{"MASTER_PORT": "7", "RANK": "2"}, 7},
		{"tensorflow: [--ps=master]", "worker", 1, map[string]string{
			"TF_CONFIG": `{"cluster":{"ps":["j-master-0.j:2222"],"worker":["j-worker-0.j:2222","j-worker-1.j:2222"]},"task":{"index":1,"type":"worker"}}`}, 0},
	} {
		pod := podWith(t, jobOf(t, "plugins: {"+c.plugin+"}"+twoRoles), c.task, c.index)
		for name, want := range c.want {
			if got := variable(pod, name); got != want {
				t.Errorf("%s of %s: %s is %q, want %q", c.plugin, c.task, name, got, want)
			}
		}
		if ports := pod.Spec.Containers[0].Ports; c.port != 0 && (len(ports) != 1 || ports[0].ContainerPort != c.port) {
			t.Errorf("%s of %s: ports %v, want %d", c.plugin, c.task, ports, c.port)
		}
		if pod.Spec.Subdomain != "j" || pod.Spec.Hostname != pod.Name {
			t.Errorf("%s: nobody finds %s.%s", c.plugin, pod.Spec.Hostname, pod.Spec.Subdomain)
		}
	}
}

// TestWorkersAwaitTheirMaster: an init container waits for the master's port. A Guaranteed pod
// stays Guaranteed.
func TestWorkersAwaitTheirMaster(t *testing.T) {
	const tasks = `
tasks:
- {name: master, replicas: 1, template: {spec: {containers: [{name: c}]}}}
- {name: worker, replicas: 1, template: {spec: {containers: [{name: c, resources: {limits: {cpu: 2, memory: 1Gi, example.com/gpu: 1}}}]}}}
`
	for arguments, want := range map[string]string{
		"":                      "",
		"--wait-master-enabled": "busybox:1.36.1 + 300)); until nc -z j-master-0.j 23456;",
		"--wait-master-enabled=true, --wait-master-timeout=60, --wait-master-image=a/b, --port=7": "a/b + 60)); until nc -z j-master-0.j 7;",
	} {
		job := jobOf(t, "plugins: {pytorch: ["+arguments+"]}"+tasks)
		worker := podWith(t, job, "worker", 0)
		if n := len(podWith(t, job, "master", 0).Spec.InitContainers); n > 0 || len(worker.Spec.InitContainers) != min(1, len(want)) {
			t.Fatalf("%q: %d init containers of the master, %d of the worker", arguments, n, len(worker.Spec.InitContainers))
		}
		if want == "" {
			continue
		}
		c := worker.Spec.InitContainers[0]
		image, script, _ := strings.Cut(want, " ")
		if c.Image != image || !strings.Contains(strings.Join(c.Command, " "), script) || len(c.Resources.Limits) != 2 || c.Resources.Limits.Cpu().Value() != 2 {
			t.Errorf("%q: the container is %+v", arguments, c)
		}
	}
	again := podWith(t, jobOf(t, "plugins: {pytorch: [--wait-master-enabled]}"+strings.Replace(tasks, "spec: {containers: [{name: c, r", "spec: {initContainers: [{name: wait-for-master}], containers: [{name: c, r", 1)), "worker", 0)
	if len(again.Spec.InitContainers) != 1 {
		t.Errorf("a container that the template has comes twice: %+v", again.Spec.InitContainers)
	}
}

// TestRay: head and workers get their commands, and the Job's Service the head's ports.
func TestRay(t *testing.T) {
	job := jobOf(t, `
plugins: {ray: [--port=7000]}
tasks:
- {name: head, replicas: 1, template: {spec: {containers: [{name: head}, {name: beside}]}}}
- {name: worker, replicas: 2, template: {spec: {containers: [{name: worker}]}}}
`)
	head, worker := podWith(t, job, "head", 0), podWith(t, job, "worker", 1)
	if c := head.Spec.Containers; !strings.Contains(strings.Join(c[0].Command, " "), "ray start --head --block --dashboard-host=0.0.0.0 --port=7000") || len(c[0].Ports) != 3 || c[1].Command != nil {
		t.Errorf("the head's containers are %+v", c)
	}
	if c := worker.Spec.Containers[0]; !slices.Equal(c.Command, []string{"sh", "-c", "ray start --block --address=j-head-0.j:7000"}) {
		t.Errorf("a worker runs %q", c.Command)
	}
	p, _ := pluginsOf(job)
	s := serviceOf(job, &p, metav1.ObjectMeta{Name: "j"})
	if s.Spec.ClusterIP != corev1.ClusterIPNone || len(s.Spec.Ports) != 3 || s.Spec.Selector[batch.TaskSpecKey] != "head" {
		t.Errorf("the Service is %+v", s.Spec)
	}
}

// TestArgumentsOfSvc: arguments are flags, with or without a value, with one hyphen or two.
func TestArgumentsOfSvc(t *testing.T) {
	for arguments, want := range map[string]svcPlugin{
		"":                             {injectHosts: true},
		"--disable-network-policy":     {noNetworkPolicy: true, injectHosts: true},
		"-publish-not-ready-addresses": {publishNotReady: true, injectHosts: true},
		"--inject-hosts-env=false":     {},
		"--disable-network-policy=true, --inject-hosts-env=0": {noNetworkPolicy: true},
	} {
		job := jobOf(t, "plugins: {svc: ["+arguments+"]}"+twoRoles)
		p, wrong := pluginsOf(job)
		if len(wrong) > 0 || *p.svc != want {
			t.Errorf("%q: %+v, %v, want %+v", arguments, p.svc, wrong, want)
		}
		if has := slices.ContainsFunc(podWith(t, job, "worker", 0).Spec.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == "VC_WORKER_HOSTS" }); has != want.injectHosts {
			t.Errorf("%q: hosts as variables: %v", arguments, has)
		}
	}
}

// TestKeys: a Job's Secret has a key pair that ssh can read, and a configuration with all hosts.
// Every container gets it.
func TestKeys(t *testing.T) {
	w := newWorld(t, "plugins: {ssh: []}"+twoRoles, onceAll(never("j-master-0", "j-worker-0", "j-worker-1")))
	w.settle()
	secret := new(corev1.Secret)
	if err := w.client.Get(t.Context(), types.NamespacedName{Namespace: "d", Name: "j-ssh-job-uid"}, secret); err != nil {
		t.Fatal(err)
	}
	private, err := ssh.ParsePrivateKey(secret.Data["id_rsa"])
	if err != nil {
		t.Fatal(err)
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(secret.Data["authorized_keys"])
	if err != nil || string(public.Marshal()) != string(private.PublicKey().Marshal()) {
		t.Errorf("the keys are no pair: %v", err)
	}
	if config := string(secret.Data["config"]); !strings.Contains(config, "Host j-worker-1\n  HostName j-worker-1.j\n  Port 22\n") {
		t.Errorf("configuration %q", config)
	}
	pod := w.pods()[0]
	if m := pod.Spec.Containers[0].VolumeMounts; len(m) != 1 || m[0].MountPath != "/root/.ssh" || m[0].SubPath != ".ssh" || *pod.Spec.Volumes[0].Secret.DefaultMode != 0o600 {
		t.Errorf("mounts %+v, volumes %+v", m, pod.Spec.Volumes)
	}
	other := jobOf(t, "plugins: {ssh: [--ssh-port=2022]}"+twoRoles)
	p, _ := pluginsOf(other)
	if s := specOf(other); !strings.Contains(p.ssh.config(other, &s), "  HostName j-worker-1.j\n  Port 2022\n") {
		t.Errorf("configuration %q", p.ssh.config(other, &s))
	}
	folder := podWith(t, jobOf(t, "plugins: {ssh: [--ssh-key-file-path=/home/me/.ssh]}"+twoRoles), "worker", 0)
	if m := folder.Spec.Containers[0].VolumeMounts[0]; m.MountPath != "/home/me/.ssh" || *folder.Spec.Volumes[0].Secret.DefaultMode == 0o600 {
		t.Errorf("mount %+v of another user", m)
	}
}

// TestVolumesOfAJob: claims are created from its spec, and every container mounts them.
func TestVolumesOfAJob(t *testing.T) {
	w := newWorld(t, `
volumes:
- {mountPath: /made, volumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
- {mountPath: /there, volumeClaimName: mine}
tasks: [{name: a, replicas: 1, template: {spec: {containers: [{name: c}]}}}]
`, onceAll(never("j-a-0")))
	w.settle()
	claim := new(corev1.PersistentVolumeClaim)
	if err := w.client.Get(t.Context(), types.NamespacedName{Namespace: "d", Name: "j-volume-0-job-uid"}, claim); err != nil {
		t.Fatal(err)
	}
	if q := claim.Spec.Resources.Requests[corev1.ResourceStorage]; q.String() != "1Gi" || len(claim.OwnerReferences) != 1 {
		t.Errorf("claim %+v", claim)
	}
	pod := w.pods()[0]
	if v, m := pod.Spec.Volumes, pod.Spec.Containers[0].VolumeMounts; len(v) != 2 || v[1].PersistentVolumeClaim.ClaimName != "mine" || m[0].MountPath != "/made" || m[1].Name != v[1].Name {
		t.Errorf("volumes %+v, mounts %+v", v, m)
	}
}

// TestTasksInTheirOrder: a task that depends on another has pods when the other one runs.
func TestTasksInTheirOrder(t *testing.T) {
	for iteration, want := range map[string][]int{"": {2, 3, 5}, "all": {2, 3, 5}, "any": {2, 5, 5}} {
		w := newWorld(t, `
minAvailable: 1
tasks:
- {name: a, replicas: 1, template: {spec: {containers: [{name: c}]}}}
- {name: b, replicas: 1, template: {spec: {containers: [{name: c}]}}}
- {name: last, replicas: 2, dependsOn: {name: [a, b], iteration: "`+iteration+`"}, template: {spec: {containers: [{name: c}]}}}
- {name: z, replicas: 1, dependsOn: {name: [a]}, template: {spec: {containers: [{name: c}]}}}
`, nil)
		for i, runs := range []string{"", "j-a-0", "j-b-0"} {
			w.fate = func(w *world, pod *corev1.Pod) {
				if pod.Name == runs {
					w.set(pod, corev1.PodRunning, 0)
				}
			}
			w.act()
			w.settle()
			if got := len(w.pods()); got != want[i] {
				t.Errorf("iteration %q, after %q runs: %d pods, want %d", iteration, runs, got, want[i])
			}
		}
	}
}

// TestHostNetworkFindsNamesOfTheCluster: the DNS policy is set for pods with hostNetwork.
func TestHostNetworkFindsNamesOfTheCluster(t *testing.T) {
	pod := podWith(t, jobOf(t, "tasks: [{name: a, replicas: 1, template: {spec: {hostNetwork: true, containers: [{name: c}]}}}]"), "a", 0)
	if pod.Spec.DNSPolicy != corev1.DNSClusterFirstWithHostNet {
		t.Errorf("dnsPolicy %q", pod.Spec.DNSPolicy)
	}
}

// TestTasksThatSayNothingNeedAll: Volcano's webhook sets the same default.
func TestTasksThatSayNothingNeedAll(t *testing.T) {
	job := jobOf(t, "minAvailable: 4\ntasks: [{name: worker, replicas: 4, minAvailable: 2}, {name: ps, replicas: 2}]")
	s := specOf(job)
	var g *group.PodGroup = podGroupOf(job, &s, nil, nil)
	if m := g.Spec.MinTaskMember; m["worker"] != 2 || m["ps"] != 2 || g.Spec.MinMember != 4 {
		t.Errorf("minMember %d, minTaskMember %v", g.Spec.MinMember, m)
	}
}

// TestATaskWhoseContainersRestartTooOften has failed. The restarts of all its pods are added up.
func TestATaskWhoseContainersRestartTooOften(t *testing.T) {
	for restarts, want := range map[int32]batch.JobPhase{1: batch.Running, 2: batch.Aborting, 3: batch.Aborting} {
		job := jobOf(t, "policies: [{event: TaskFailed, action: AbortJob}]\ntasks: [{name: a, replicas: 2, maxRetry: 3, template: {spec: {containers: [{name: c}]}}}]")
		job.Status.State.Phase = batch.Running
		var pods []*corev1.Pod
		for i := range 2 {
			s := specOf(job)
			pod := podOf(job, &s, member{&s.tasks[0], i}, "berth")
			pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "c", RestartCount: restarts}}}
			pods = append(pods, pod)
		}
		if got := next(job, nil, pods, job.CreationTimestamp.Time).status.State.Phase; got != want {
			t.Errorf("%d restarts of each of two: %s, want %s", restarts, got, want)
		}
	}
}

// TestATaskThatFailedHasAPodRestarted: the pod with the most container restarts is restarted, once.
func TestATaskThatFailedHasAPodRestarted(t *testing.T) {
	job := jobOf(t, "policies: [{event: TaskFailed, action: RestartPod}]\ntasks: [{name: a, replicas: 2, maxRetry: 2, template: {spec: {containers: [{name: c}]}}}]")
	job.Status.State.Phase = batch.Running
	s := specOf(job)
	var pods []*corev1.Pod
	for i, restarts := range []int32{1, 3} {
		pod := podOf(job, &s, member{&s.tasks[0], i}, "berth")
		pod.UID = types.UID(pod.Name)
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "c", RestartCount: restarts}}}
		pods = append(pods, pod)
	}
	for range 2 { // the pod is slow to end
		out := next(job, nil, pods, job.CreationTimestamp.Time)
		if !slices.Equal(out.remove, pods[1:]) || out.status.RetryCount != 1 || out.status.State.Phase != batch.Restarting {
			t.Errorf("%d pods are deleted, %d retries, %s: want the second one, 1, Restarting", len(out.remove), out.status.RetryCount, out.status.State.Phase)
		}
		job.Status = out.status
	}
}

// TestAJobThatIsTorn: one pod runs, and the other one was replaced and finds no node.
func TestAJobThatIsTorn(t *testing.T) {
	job := jobOf(t, "policies: [{event: Unknown, action: RestartJob}]\ntasks: [{name: a, replicas: 2, template: {spec: {containers: [{name: c}]}}}]")
	job.Status.State.Phase, job.Status.Conditions = batch.Running, []batch.JobCondition{{Status: batch.Running}}
	s := specOf(job)
	runs, waits := podOf(job, &s, member{&s.tasks[0], 0}, "berth"), podOf(job, &s, member{&s.tasks[0], 1}, "berth")
	runs.Spec.NodeName, runs.Status.Phase = "n", corev1.PodRunning
	waits.Status.Phase = corev1.PodPending
	job.Status = next(job, nil, []*corev1.Pod{runs, waits}, job.CreationTimestamp.Time).status
	if got := job.Status.State.Phase; got != batch.Pending {
		t.Errorf("nobody has said yet that it does not fit, and the Job is %s", got)
	}
	waits.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	if got := next(job, nil, []*corev1.Pod{runs, waits}, job.CreationTimestamp.Time).status.State.Phase; got != batch.Restarting {
		t.Errorf("it is %s, want Restarting", got)
	}
}

// TestAPolicyThatTakesItsTime: the policy is applied when the pod has been pending for the timeout.
// The reconciler looks again at that time.
func TestAPolicyThatTakesItsTime(t *testing.T) {
	w := newWorld(t, "policies: [{event: PodPending, timeout: 5s, action: AbortJob}]\ntasks: [{name: a, replicas: 1, template: {spec: {containers: [{name: c}]}}}]", nil)
	w.settle()
	w.now = w.now.Add(4 * time.Second)
	q, err := w.reconciler().Reconcile(t.Context(), reconcile.Request{NamespacedName: w.job})
	if phase := w.read().Status.State.Phase; err != nil || phase != batch.Pending || q.RequeueAfter != time.Second {
		t.Errorf("after 4 of 5 seconds: %s, again in %v, %v", phase, q.RequeueAfter, err)
	}
	w.now = w.now.Add(time.Second)
	w.settle()
	if s := w.read().Status.State; s.Phase != batch.Aborted || !strings.HasPrefix(s.Message, "PodPending of pod j-a-0") {
		t.Errorf("after 5 seconds: %+v", s)
	}
}

// TestAQueuedJobIsNotLate: while the Job's PodGroup waits to be admitted, its pods may be pending,
// because Volcano's controller would not have created them yet.
func TestAQueuedJobIsNotLate(t *testing.T) {
	job := jobOf(t, "policies: [{event: PodPending, timeout: 10s, action: AbortJob}]\ntasks: [{name: a, replicas: 1, template: {spec: {containers: [{name: c}]}}}]")
	job.Status.State.Phase = batch.Pending
	pod, begun := podWith(t, job, "a", 0), time.Unix(1_760_000_000, 0)
	pod.CreationTimestamp = metav1.NewTime(begun)
	for _, c := range []struct {
		at    int // seconds
		phase group.PodGroupPhase
		want  batch.JobPhase
	}{{5, "", batch.Pending}, {60, group.PodGroupPending, batch.Pending}, {70, group.PodGroupInqueue, batch.Pending}, {79, group.PodGroupRunning, batch.Pending}, {80, group.PodGroupRunning, batch.Aborting}} {
		g := &group.PodGroup{Status: group.PodGroupStatus{Phase: c.phase}}
		out := next(job, g, []*corev1.Pod{pod}, begun.Add(time.Duration(c.at)*time.Second))
		if job.Status = out.status; job.Status.State.Phase != c.want {
			t.Errorf("%+v: %s", c, job.Status.State.Phase)
		}
	}
	job.Status = batch.JobStatus{State: batch.JobState{Phase: batch.Pending}}
	if got := next(job, new(group.PodGroup), []*corev1.Pod{pod}, begun.Add(10*time.Second)).status.State.Phase; got != batch.Aborting {
		t.Errorf("a Job that was never queued: %s", got)
	}
}

// TestATimeoutOfAPodThatNeverRan: the time of failure comes from the pod's conditions, or else from
// its creation, because no container has one. A Job whose pods have all ended waits for the policy,
// too.
func TestATimeoutOfAPodThatNeverRan(t *testing.T) {
	made := time.Unix(1_000_000, 0)
	for name, c := range map[string]struct {
		conditions []corev1.PodCondition
		failed     time.Time
	}{
		"its node has gone": {[]corev1.PodCondition{
			{Type: corev1.PodScheduled, LastTransitionTime: metav1.NewTime(made)},
			{Type: corev1.DisruptionTarget, LastTransitionTime: metav1.NewTime(made.Add(time.Hour))}}, made.Add(time.Hour)},
		"the kubelet refused it": {nil, made},
	} {
		job := jobOf(t, "policies: [{event: PodFailed, timeout: 1m, action: AbortJob}]\ntasks: [{name: a, replicas: 1, template: {spec: {containers: [{name: c}]}}}]")
		job.Status.State.Phase = batch.Running
		s := specOf(job)
		pod := podOf(job, &s, member{&s.tasks[0], 0}, "berth")
		pod.CreationTimestamp = metav1.NewTime(made)
		pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Conditions: c.conditions}
		if out := next(job, nil, []*corev1.Pod{pod}, c.failed.Add(59*time.Second)); out.status.State.Phase != batch.Running || !out.again.Equal(c.failed.Add(time.Minute)) {
			t.Errorf("%s: %s before its minute is over", name, out.status.State.Phase)
		}
		if out := next(job, nil, []*corev1.Pod{pod}, c.failed.Add(time.Minute)); out.status.State.Phase != batch.Aborting {
			t.Errorf("%s: %s after a minute", name, out.status.State.Phase)
		}
	}
}

// TestNothingOfTheJobBefore: a Job with the name of a deleted one gets its own claims, and waits
// until the Service of the deleted Job is gone.
func TestNothingOfTheJobBefore(t *testing.T) {
	w := newWorld(t, `
plugins: {svc: []}
volumes: [{mountPath: /made, volumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
tasks: [{name: a, replicas: 1, template: {spec: {containers: [{name: c}]}}}]
`, onceAll(never("j-a-0")))
	before := w.read()
	before.UID = "earlier"
	meta := metav1.ObjectMeta{Namespace: "d", Name: "j", OwnerReferences: ownerOf(before)}
	left := []client.Object{&corev1.Service{ObjectMeta: meta}, &corev1.PersistentVolumeClaim{ObjectMeta: *meta.DeepCopy()}}
	left[1].SetName(claimName(before, 0))
	w.byWorld = true
	for _, o := range left {
		if err := w.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.byWorld = false
	r := w.reconciler()
	told := events.NewFakeRecorder(16)
	r.Events = told
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: w.job}); err == nil || !strings.Contains(err.Error(), "Service d/j: it belongs to a deleted Job of the same name") {
		t.Fatalf("%v: want a word about the Service", err)
	}
	close(told.Events)
	var texts []string
	for text := range told.Events {
		texts = append(texts, text)
	}
	if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "Warning FailedCreate") }) || len(w.pods()) > 0 {
		t.Errorf("events %q, %d pods: want FailedCreate, and none", texts, len(w.pods()))
	}
	w.byWorld = true
	if err := w.client.Delete(t.Context(), left[0]); err != nil {
		t.Fatal(err)
	}
	w.byWorld = false
	w.settle()
	service := new(corev1.Service)
	if err := w.client.Get(t.Context(), w.job, service); err != nil || !metav1.IsControlledBy(service, w.read()) {
		t.Errorf("Service %+v, error %v: want this Job's", service, err)
	}
	claim := w.pods()[0].Spec.Volumes[0].PersistentVolumeClaim.ClaimName
	if claim == left[1].GetName() {
		t.Errorf("its pod mounts %s, the claim of the Job before", claim)
	}
	if err := w.client.Get(t.Context(), types.NamespacedName{Namespace: "d", Name: claim}, new(corev1.PersistentVolumeClaim)); err != nil {
		t.Error(err)
	}
}

// TestKeysAreMadeOnce: a Job whose pods are refused is reconciled repeatedly, and its Secret exists
// already.
func TestKeysAreMadeOnce(t *testing.T) {
	w := newWorld(t, "plugins: {ssh: []}"+twoRoles, onceAll(nil))
	r, made, there := w.reconciler(), 0, false
	r.Client = interceptor.NewClient(w.client, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		secret, is := o.(*corev1.Secret)
		if !is {
			return c.Create(ctx, o, opts...)
		}
		if there { // as the API server does, even for a dry run
			return apierrors.NewAlreadyExists(corev1.Resource("secrets"), o.GetName())
		}
		if len(secret.Data) > 0 {
			made++
			there = true
		}
		return nil
	}})
	job := w.read()
	s := specOf(job)
	for range 3 {
		if err := r.surroundings(t.Context(), job, &step{make: []member{{&s.tasks[0], 0}}}); err != nil {
			t.Fatal(err)
		}
	}
	if made != 1 {
		t.Errorf("keys were made and sent %d times, want once", made)
	}
	there = false
	r.Client = interceptor.NewClient(w.client, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if secret, is := o.(*corev1.Secret); is {
			if len(secret.Data) > 0 {
				t.Error("keys are made for a Secret that a quota refuses")
			}
			return apierrors.NewForbidden(corev1.Resource("secrets"), o.GetName(), errors.New("exceeded quota"))
		}
		return c.Create(ctx, o, opts...)
	}})
	if err := r.surroundings(t.Context(), job, &step{make: []member{{&s.tasks[0], 0}}}); !apierrors.IsForbidden(err) {
		t.Errorf("error %v", err)
	}
}
