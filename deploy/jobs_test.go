package deploy

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
)

// jobRequest returns a request to write a Job; it is an update if before is not nil.
func jobRequest(object, before map[string]any) admission.Attributes {
	var old runtime.Object
	operation, options := admission.Create, runtime.Object(&metav1.CreateOptions{})
	if before != nil {
		old, operation, options = &unstructured.Unstructured{Object: before}, admission.Update, &metav1.UpdateOptions{}
	}
	return admission.NewAttributesRecord(&unstructured.Unstructured{Object: object}, old, batch.GroupVersion.WithKind("Job"), "d", "j",
		batch.Jobs, "", operation, options, false, &user.DefaultInfo{})
}

func specOf(job map[string]any) map[string]any { return job["spec"].(map[string]any) }

// policies sets a Job's lifecycle policies, which event and code return.
func policies(list ...any) func(map[string]any) {
	return func(job map[string]any) { specOf(job)["policies"] = list }
}

func event(name, action string) map[string]any {
	return map[string]any{"event": name, "action": action}
}

func code(exit int64, action string) map[string]any {
	return map[string]any{"exitCode": exit, "action": action}
}

func taskOf(job map[string]any) map[string]any {
	return job["spec"].(map[string]any)["tasks"].([]any)[0].(map[string]any)
}

func containerOf(job map[string]any) map[string]any {
	pod := taskOf(job)["template"].(map[string]any)["spec"].(map[string]any)
	return pod["containers"].([]any)[0].(map[string]any)
}

// TestJobPolicy evaluates the policy for Jobs with the API server's compiler. Jobs of Volcano's
// documents pass, and the error for a Job that its webhook refuses has the path and the name.
func TestJobPolicy(t *testing.T) {
	resources := func(requests, limits map[string]any) func(map[string]any) {
		return func(job map[string]any) {
			containerOf(job)["resources"] = map[string]any{"requests": requests, "limits": limits}
		}
	}
	amounts := func(cpu, memory any) map[string]any { return map[string]any{"cpu": cpu, "memory": memory} }
	for name, c := range map[string]struct {
		spoil func(job map[string]any)
		want  string // "" if the Job passes
	}{
		"as documented":         {func(map[string]any) {}, ""},
		"whole in thousandths":  {resources(amounts("2000m", "1Gi"), amounts(int64(2), "1024Mi")), ""},
		"a part of a CPU":       {resources(amounts("1500m", "1Gi"), amounts("1500m", "1Gi")), "limits.cpu of test/running"},
		"no CPUs":               {resources(map[string]any{}, map[string]any{"memory": "1Gi"}), "limits.cpu of test/running"},
		"no memory":             {resources(map[string]any{}, map[string]any{"cpu": "2"}), "resources of test/running: want limits"},
		"requests below limits": {resources(amounts("1", "1Gi"), amounts("2", "1Gi")), "requests that are equal"},
		"a part without a policy": {func(job map[string]any) {
			delete(taskOf(job), "topologyPolicy")
			resources(amounts("1500m", "1Gi"), amounts("2", "1Gi"))(job)
		}, ""},
		"a part with policy none": {func(job map[string]any) {
			taskOf(job)["topologyPolicy"] = "none"
			containerOf(job)["resources"] = map[string]any{}
		}, ""},
		"an init container": {func(job map[string]any) {
			taskOf(job)["template"].(map[string]any)["spec"].(map[string]any)["initContainers"] = []any{map[string]any{"name": "i"}}
		}, "test/i"},
		"another annotation": {func(job map[string]any) {
			taskOf(job)["template"].(map[string]any)["metadata"] = map[string]any{"annotations": map[string]any{"volcano.sh/numa-topology-policy": "restricted"}}
		}, "spec.tasks[].topologyPolicy of test"},
		"no tasks": {func(job map[string]any) { specOf(job)["tasks"] = []any{} }, "spec.tasks: want at least one"},
		"a name twice": {func(job map[string]any) {
			specOf(job)["tasks"] = []any{taskOf(job), taskOf(job)}
		}, "spec.tasks[].name: test, test"},
		"more than there are":           {func(job map[string]any) { specOf(job)["minAvailable"] = int64(2) }, "spec.minAvailable: 2: want 0 to 1"},
		"more of a task than there are": {func(job map[string]any) { taskOf(job)["minAvailable"] = int64(2) }, "spec.tasks[].minAvailable of test (2, with replicas 1)"},
		"less than no retries":          {func(job map[string]any) { specOf(job)["maxRetry"] = int64(-1) }, "spec.maxRetry: -1"},
		"policies":                      {policies(event("PodFailed", "RestartJob"), code(3, "AbortJob")), ""},
		"an event twice in one policy":  {policies(map[string]any{"events": []any{"PodEvicted", "PodFailed", "PodEvicted"}, "action": "RestartJob"}), ""},
		"an event and a code":           {policies(map[string]any{"event": "PodFailed", "exitCode": int64(3), "action": "AbortJob"}), "spec.policies: want an exit code or events"},
		"neither event nor code":        {policies(map[string]any{"action": "AbortJob"}), "spec.policies: want an exit code or events"},
		"success as an error":           {policies(code(0, "AbortJob")), "exitCode: 0"},
		"an event twice":                {policies(event("PodFailed", "RestartJob"), event("PodFailed", "AbortJob")), "spec.policies: want each event"},
		"any event and another":         {policies(event("*", "RestartJob"), event("PodFailed", "AbortJob")), "spec.policies: want each event"},
		"a code twice":                  {policies(code(3, "RestartJob"), code(3, "AbortJob")), "spec.policies: want each event"},
		"a code twice in a task":        {func(job map[string]any) { taskOf(job)["policies"] = []any{code(3, "RestartJob"), code(3, "AbortJob")} }, "spec.tasks[test].policies"},
		"a volume of nothing":           {func(job map[string]any) { specOf(job)["volumes"] = []any{map[string]any{"mountPath": "/x"}} }, "spec.volumes[] at /x"},
		"a volume that is there": {func(job map[string]any) {
			specOf(job)["volumes"] = []any{map[string]any{"mountPath": "/x", "volumeClaimName": "c"}}
		}, ""},
		"a plugin of Volcano's": {func(job map[string]any) { specOf(job)["plugins"] = map[string]any{"hcclrank": []any{}} }, ""},
		"a plugin that Berth lacks": {func(job map[string]any) {
			specOf(job)["schedulerName"], specOf(job)["plugins"] = "berth", map[string]any{"hcclrank": []any{}}
		}, "spec.plugins: hcclrank: want env"},
		"a plugin that nobody has": {func(job map[string]any) {
			specOf(job)["plugins"] = map[string]any{"svc": []any{}, "nosuch": []any{}}
		}, "spec.plugins: nosuch: want env"},
		"a name in capitals":   {func(job map[string]any) { taskOf(job)["name"] = "Test_1" }, "spec.tasks[].name: vj-test-Test_1-1: want names"},
		"a long name":          {func(job map[string]any) { taskOf(job)["name"] = strings.Repeat("t", 63) }, "spec.tasks[].name: vj-test-ttt"},
		"the longest name":     {func(job map[string]any) { taskOf(job)["name"] = strings.Repeat("t", 63-len("vj-test--1")) }, ""},
		"no name":              {func(job map[string]any) { delete(taskOf(job), "name") }, ""},
		"a dot of Volcano's":   {func(job map[string]any) { job["metadata"].(map[string]any)["name"] = "vj.test" }, ""},
		"two dots of nobody's": {func(job map[string]any) { taskOf(job)["name"] = "a..b" }, "spec.tasks[].name: vj-test-a..b-1"},
		"a long name of a Job": {func(job map[string]any) {
			delete(taskOf(job), "name")
			job["metadata"].(map[string]any)["name"] = strings.Repeat("j", 63)
		}, "-default0-1: want names"},
		"a dot": {func(job map[string]any) {
			specOf(job)["schedulerName"], job["metadata"].(map[string]any)["name"] = "berth", "vj.test"
		}, ""},
		"a dot in a host name": {func(job map[string]any) {
			specOf(job)["schedulerName"], job["metadata"].(map[string]any)["name"] = "berth", "vj.test"
			specOf(job)["plugins"] = map[string]any{"mpi": []any{"--master=test", "--worker=test"}}
		}, "spec.tasks[].name: vj.test-test-1: want names of pods (JOB-TASK-NUMBER) with at most 63 of the characters a-z, 0-9 and -, because the plugin svc"},
		"near nodes": {func(job map[string]any) {
			specOf(job)["schedulerName"], specOf(job)["networkTopology"] = "berth", map[string]any{"mode": "hard"}
		}, "spec.networkTopology.mode: hard"},
		"a large gang of Volcano's": {func(job map[string]any) { taskOf(job)["replicas"] = int64(5000) }, ""},
		"a large gang": {func(job map[string]any) {
			specOf(job)["schedulerName"], specOf(job)["minAvailable"], taskOf(job)["replicas"] = "berth", int64(4097), int64(5000)
		}, "spec.minAvailable: 4097 pods start together: want at most 4096"},
		"a large gang by default": {func(job map[string]any) {
			delete(specOf(job), "minAvailable")
			specOf(job)["schedulerName"], taskOf(job)["replicas"] = "berth", int64(5000)
		}, "spec.minAvailable: 5000 pods start together"},
		"a large Job that begins with few": {func(job map[string]any) {
			specOf(job)["schedulerName"], specOf(job)["minAvailable"], taskOf(job)["replicas"] = "berth", int64(1), int64(5000)
		}, ""},
		"a hundred thousand pods": {func(job map[string]any) { taskOf(job)["replicas"] = int64(100_000) }, "100000 pods in all"},
	} {
		job := documented(t, "job-best-effort.yaml")
		c.spoil(job)
		got := strings.Join(deniedIn(t, Folder("jobs"), "policies.yaml", jobRequest(job, nil)), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: denied %q, want ...%s...", name, got, c.want)
		}
	}
	if got := deniedIn(t, Folder("jobs"), "policies.yaml", jobRequest(documented(t, "job-reference.yaml"), nil)); len(got) > 0 {
		t.Errorf("the reference's Job: %q", got)
	}
}

// TestJobsStayWhatTheyAre: only replicas and a few other fields may change.
func TestJobsStayWhatTheyAre(t *testing.T) {
	for name, c := range map[string]struct {
		change func(job map[string]any)
		want   string
	}{
		"nothing":       {func(map[string]any) {}, ""},
		"replicas":      {func(job map[string]any) { taskOf(job)["replicas"] = int64(3) }, ""},
		"minAvailable":  {func(job map[string]any) { job["spec"].(map[string]any)["minAvailable"] = int64(0) }, ""},
		"the policy":    {func(job map[string]any) { taskOf(job)["topologyPolicy"] = "restricted" }, "spec.tasks:"},
		"no policy":     {func(job map[string]any) { delete(taskOf(job), "topologyPolicy") }, "spec.tasks:"},
		"the image":     {func(job map[string]any) { containerOf(job)["image"] = "other" }, "spec.tasks:"},
		"the scheduler": {func(job map[string]any) { job["spec"].(map[string]any)["schedulerName"] = "berth" }, "spec: only"},
		"plugins":       {func(job map[string]any) { job["spec"].(map[string]any)["plugins"] = map[string]any{"svc": []any{}} }, "spec: only"},
		"volumes": {func(job map[string]any) {
			specOf(job)["volumes"] = []any{map[string]any{"mountPath": "/x", "volumeClaimName": "c"}}
		}, "spec: only"},
		"tasks that go": {func(job map[string]any) { job["spec"].(map[string]any)["tasks"] = []any{} }, "spec.tasks:"},
	} {
		job := documented(t, "job-best-effort.yaml")
		c.change(job)
		got := strings.Join(deniedIn(t, Folder("jobs"), "policies.yaml", jobRequest(job, documented(t, "job-best-effort.yaml"))), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: denied %q, want ...%s...", name, got, c.want)
		}
	}
	// Volcano's controller adds the name of a claim that it creates. The Job can still grow then.
	volumes := func(job map[string]any, scheduler, claim string) map[string]any {
		volume := map[string]any{"mountPath": "/x", "volumeClaim": map[string]any{"accessModes": []any{"ReadWriteOnce"}}}
		if claim != "" {
			volume["volumeClaimName"] = claim
		}
		specOf(job)["schedulerName"], specOf(job)["volumes"] = scheduler, []any{volume}
		return job
	}
	for _, c := range []struct {
		scheduler, before, after string
		denied                   bool
	}{{"volcano", "", "vj-pvc-3f2a", false}, {"volcano", "vj-pvc-3f2a", "vj-pvc-3f2a", false}, {"berth", "", "vj-pvc-3f2a", true}} {
		grown := volumes(documented(t, "job-best-effort.yaml"), c.scheduler, c.after)
		taskOf(grown)["replicas"] = int64(3)
		if got := deniedIn(t, Folder("jobs"), "policies.yaml", jobRequest(grown, volumes(documented(t, "job-best-effort.yaml"), c.scheduler, c.before))); (len(got) > 0) != c.denied {
			t.Errorf("%+v: denied %q", c, got)
		}
	}
	// A Job that is older than the policy would be refused by it. Its labels can still be changed.
	before := documented(t, "job-best-effort.yaml")
	before["spec"].(map[string]any)["minAvailable"] = int64(99)
	labelled := runtime.DeepCopyJSON(before)
	labelled["metadata"].(map[string]any)["labels"] = map[string]any{"a": "b"}
	if got := deniedIn(t, Folder("jobs"), "policies.yaml", jobRequest(labelled, before)); len(got) > 0 {
		t.Errorf("a label of a Job from before the policy: denied %q", got)
	}
	if got := deniedIn(t, Folder("jobs"), "policies.yaml", jobRequest(before, nil)); len(got) == 0 {
		t.Error("such a Job can be created")
	}
}
