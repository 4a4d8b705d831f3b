package deploy

import (
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/wire"
)

// templateOf has the path of the pod template for each kind; nil for a pod.
var templateOf = map[schema.GroupVersionKind][]string{
	{Version: "v1", Kind: "Pod"}:                          nil,
	{Group: "apps", Version: "v1", Kind: "Deployment"}:    {"spec", "template"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"}:   {"spec", "template"},
	{Group: "apps", Version: "v1", Kind: "DaemonSet"}:     {"spec", "template"},
	{Group: "batch", Version: "v1", Kind: "Job"}:          {"spec", "template"},
	{Group: "batch", Version: "v1", Kind: "CronJob"}:      {"spec", "jobTemplate", "spec", "template"},
	{Group: "batch", Version: "v1beta1", Kind: "CronJob"}: {"spec", "jobTemplate", "spec", "template"},

	{Group: "apps", Version: "v1", Kind: "ReplicaSet"}:                             {"spec", "template"},
	{Version: "v1", Kind: "ReplicationController"}:                                 {"spec", "template"},
	{Group: "scheduling.koordinator.sh", Version: "v1alpha1", Kind: "Reservation"}: {"spec", "template"},
	{Group: "batch.volcano.sh", Version: "v1alpha1", Kind: "Job"}:                  {"spec", "tasks"},
	{Group: "batch.volcano.sh", Version: "v1alpha1", Kind: "CronJob"}:              {"spec", "jobTemplate", "spec", "tasks"},
	{Group: "flow.volcano.sh", Version: "v1alpha1", Kind: "JobTemplate"}:           {"spec", "tasks"},
	{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"}:                {"spec", "replicatedJobs"},
	{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"}:    {"spec", "leaderWorkerTemplate", "workerTemplate"},
	{Group: "kubeflow.org", Version: "v1", Kind: "PyTorchJob"}:                     {"spec", "pytorchReplicaSpecs", "Worker", "template"},
	{Group: "kubeflow.org", Version: "v2beta1", Kind: "MPIJob"}:                    {"spec", "mpiReplicaSpecs", "Launcher", "template"},
	{Group: "ray.io", Version: "v1", Kind: "RayCluster"}:                           {"spec", "workerGroupSpecs"},
	{Group: "ray.io", Version: "v1", Kind: "RayJob"}:                               {"spec", "rayClusterSpec", "headGroupSpec", "template"},
	{Group: "argoproj.io", Version: "v1alpha1", Kind: "Rollout"}:                   {"spec", "template"},

	{Group: "kubeflow.org", Version: "v1", Kind: "PaddleJob"}:                              {"spec", "paddleReplicaSpecs", "Worker", "template"},
	{Group: "kubeflow.org", Version: "v1", Kind: "XGBoostJob"}:                             {"spec", "xgbReplicaSpecs", "Master", "template"},
	{Group: "batch.paddlepaddle.org", Version: "v1", Kind: "PaddleJob"}:                    {"spec", "worker", "template"},
	{Group: "sparkoperator.k8s.io", Version: "v1beta2", Kind: "SparkApplication"}:          {"spec", "executor", "template"},
	{Group: "sparkoperator.k8s.io", Version: "v1beta2", Kind: "ScheduledSparkApplication"}: {"spec", "template", "driver", "template"},
	{Group: "trainer.kubeflow.org", Version: "v1alpha1", Kind: "TrainingRuntime"}:          {"spec", "template", "spec", "replicatedJobs"},
	{Group: "trainer.kubeflow.org", Version: "v1alpha1", Kind: "ClusterTrainingRuntime"}:   {"spec", "template", "spec", "replicatedJobs"},
	{Group: "trainer.kubeflow.org", Version: "v1alpha1", Kind: "TrainJob"}:                 {"spec", "podTemplateOverrides"},
	{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"}:                       {"spec", "template"},
	{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachine"}:                          {"spec", "template"},
}

// inside returns an object with a pod in the place of its kind's template. In a Job, it is in the
// second task, and the Job has its scheduler name.
func inside(pod map[string]any, path []string) (map[string]any, error) {
	outer, last := map[string]any{}, len(path)-1
	template := map[string]any{"template": pod}
	switch path[last] {
	case "podTemplateOverrides":
		return outer, unstructured.SetNestedSlice(outer, []any{pod}, path...)
	case "replicatedJobs":
		template = map[string]any{"template": map[string]any{"spec": template}}
		fallthrough
	case "workerGroupSpecs":
		return outer, unstructured.SetNestedSlice(outer, []any{template}, path...)
	case "tasks":
	default:
		return outer, unstructured.SetNestedMap(outer, pod, path...)
	}
	if name, told, _ := unstructured.NestedString(pod, "spec", "schedulerName"); told {
		if err := unstructured.SetNestedField(outer, name, append(slices.Clone(path[:last]), "schedulerName")...); err != nil {
			return nil, err
		}
		unstructured.RemoveNestedField(pod, "spec", "schedulerName")
	}
	tasks := []any{map[string]any{"name": "other", "template": map[string]any{"spec": map[string]any{}}}, map[string]any{"name": "one", "template": pod}}
	return outer, unstructured.SetNestedSlice(outer, tasks, path...)
}

// written returns a request to write pods with annotations; it is an update if before is not nil.
func written(t testing.TB, kind schema.GroupVersionKind, pod, before *corev1.Pod) admission.Attributes {
	t.Helper()
	object := func(pod *corev1.Pod) *unstructured.Unstructured {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
		if err != nil {
			t.Fatal(err)
		}
		if path := templateOf[kind]; path != nil {
			if content, err = inside(content, path); err != nil {
				t.Fatal(err)
			}
		}
		return &unstructured.Unstructured{Object: content}
	}
	var old runtime.Object
	operation, options := admission.Create, runtime.Object(&metav1.CreateOptions{})
	if before != nil {
		old, operation, options = object(before), admission.Update, &metav1.UpdateOptions{}
	}
	resource := kind.GroupVersion().WithResource(strings.ToLower(kind.Kind) + "s")
	return admission.NewAttributesRecord(object(pod), old, kind, "default", "x", resource, "", operation, options, false, &user.DefaultInfo{})
}

func podWith(scheduler string, keys ...string) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{SchedulerName: scheduler}}
	for _, key := range keys {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, "x")
	}
	return pod
}

// labelled does for labels what podWith does for annotations.
func labelled(scheduler string, keys ...string) *corev1.Pod {
	pod := podWith(scheduler)
	for _, key := range keys {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, key, "x")
	}
	return pod
}

// warningsOf returns the texts of the table's warnings about the pod.
func warningsOf(pod *corev1.Pod) (texts []string) {
	for _, w := range wire.IgnoredKeys(pod) {
		texts = append(texts, w.Text)
	}
	return texts
}

// TestIgnoredAnnotationsWarn compares the admission policy with the table from which it is
// generated, using the API server's compiler. Both give the same warnings for every pod, in every
// kind of object.
func TestIgnoredAnnotationsWarn(t *testing.T) {
	keys := [][]string{nil, {"berth.dev/policy", "example.com/x"}, {"berth.dev/polcy"}, {"berth.dev/policy", "berth.dev/"},
		{wire.GangMinimumAnnotation}, {wire.GangMinimumAnnotation, wire.GangAnnotation}, {"gang.scheduling.koordinator.sh/mode"}}
	schedulers := []string{"", "berth"}
	for _, d := range wire.Dialects() {
		schedulers = append(schedulers, d.Scheduler)
		for _, domain := range d.Domains {
			keys = append(keys, []string{"x" + domain + "/x"}, []string{domain + ".x/x"}, []string{domain + "/y", "berth.dev/y"}, []string{"x." + domain + "/x"})
		}
	}
	warned := 0
	for kind := range templateOf {
		for _, scheduler := range schedulers {
			for i, k := range keys {
				if kind.Kind != "Pod" && i%4 != 2 && i > 6 {
					continue // compilation is slow, and only the place of the annotations differs
				}
				pod := podWith(scheduler, k...)
				got, want := denied(t, ignored, written(t, kind, pod, nil)), warningsOf(pod)
				if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
					t.Errorf("%s of scheduler %q with %q: got %q, want %q", kind.Kind, scheduler, k, got, want)
				}
				warned += len(want)
			}
		}
	}
	if warned == 0 {
		t.Error("nothing was warned of")
	}
}

const ignored = "ignored-annotations.yaml"

// TestIgnoredAnnotationsWarnOfServedNames: if Berth serves the name of a dialect's own scheduler,
// the admission policy also warns about pods with this name.
func TestIgnoredAnnotationsWarnOfServedNames(t *testing.T) {
	data, err := fs.ReadFile(Folder("policies"), ignored)
	if err != nil {
		t.Fatal(err)
	}
	served := []string{"berth", "volcano"}
	serving := fstest.MapFS{ignored: {Data: ServingNames([][]byte{data}, served...)[0]}}
	deployment := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	for _, scheduler := range []string{"", "berth", "volcano", "koord-scheduler"} {
		pod := podWith(scheduler, "scheduling.volcano.sh/group-min-member", "node.koordinator.sh/x")
		var want []string
		for _, w := range wire.IgnoredKeys(pod, served...) {
			want = append(want, w.Text)
		}
		if got := deniedIn(t, serving, ignored, written(t, deployment, pod, nil)); len(got) == 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("scheduler %q: got %q, want %q", scheduler, got, want)
		}
	}
}

// TestUnservedKindsWarn: the admission policies warn about each kind in the table with the table's
// text, and about no other kind. The policy of berth-controller warns about kinds that users may
// expect it to serve.
func TestUnservedKindsWarn(t *testing.T) {
	request := func(group, resource, kind string) admission.Attributes {
		v := schema.GroupVersion{Group: group, Version: "v1"}
		return admission.NewAttributesRecord(&unstructured.Unstructured{Object: map[string]any{}}, nil, v.WithKind(kind), "d", "x", v.WithResource(resource), "",
			admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{})
	}
	const file = "unserved-kinds.yaml"
	for _, k := range wire.UnservedKinds() {
		in, other := Folder("policies"), Folder("jobs")
		if k.Jobs {
			in, other = other, in
		}
		a := request(k.Group, k.Resource, k.Kind)
		if got, want := deniedIn(t, in, file, a), []string{k.Warning()}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %q, want %q", k.Resource, got, want)
		}
		if got := deniedIn(t, other, file, a); got != nil {
			t.Errorf("%s: twice, also %q", k.Resource, got)
		}
		matched := func(in fs.FS) bool {
			data, err := fs.ReadFile(in, file)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Contains(string(data), "apiGroups: ["+k.Group+"]\n      apiVersions: [\"*\"]\n      resources: ["+k.Resource+"]\n")
		}
		if !matched(in) || matched(other) {
			t.Errorf("%s: the API server does not ask the policy of it", k.Resource)
		}
	}
	if got := denied(t, file, request("scheduling.volcano.sh", "podgroups", "PodGroup")); got != nil {
		t.Errorf("PodGroup: %q", got)
	}
}

// TestIgnoredLabelsWarn is TestIgnoredAnnotationsWarn for labels.
func TestIgnoredLabelsWarn(t *testing.T) {
	keys := [][]string{{"app", "xberth.dev/policy"}, {"berth.dev/policy", "app"}, {"berth.dev/polcy"}}
	schedulers := []string{"berth"}
	for _, d := range wire.Dialects() {
		schedulers = append(schedulers, d.Scheduler)
		for _, domain := range d.Domains {
			keys = append(keys, []string{domain + "/x", "x" + domain + "/x"})
		}
	}
	deployment := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	warned := 0
	for _, scheduler := range schedulers {
		for _, k := range keys {
			pod := labelled(scheduler, k...)
			got, want := denied(t, ignored, written(t, deployment, pod, nil)), warningsOf(pod)
			if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
				t.Errorf("labels %q for scheduler %q: got %q, want %q", k, scheduler, got, want)
			}
			warned += len(want)
		}
	}
	if warned == 0 {
		t.Error("nothing was warned of")
	}
	before := labelled("berth", "berth.dev/polcy")
	if got := denied(t, ignored, written(t, deployment, labelled("berth", "berth.dev/polcy", "app"), before)); len(got) != 0 {
		t.Errorf("a label that was there: %q", got)
	}
}

// TestIgnoredAnnotationsWarnOnce: a Deployment is updated repeatedly by its controller.
func TestIgnoredAnnotationsWarnOnce(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	before := podWith("berth", "berth.dev/polcy")
	if got := denied(t, ignored, written(t, kind, podWith("berth", "berth.dev/polcy", "example.com/x"), before)); len(got) != 0 {
		t.Errorf("an annotation that was there: %q", got)
	}
	got := denied(t, ignored, written(t, kind, podWith("berth", "berth.dev/polcy", "berth.dev/scop"), before))
	if want := []string{wire.UnknownWarning("berth.dev/scop")}; !reflect.DeepEqual(got, want) {
		t.Errorf("one that is new: got %q, want %q", got, want)
	}
	if got := denied(t, ignored, written(t, kind, before, podWith("berth"))); len(got) != 1 {
		t.Errorf("the first of all: %q", got)
	}
}

// TestEveryWordWarns: for each key in the table, and each key that is read, the admission policy
// and the scheduler give the same warnings.
func TestEveryWordWarns(t *testing.T) {
	deployment := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	said := 0
	hold := func(pod *corev1.Pod, key string, want int) {
		t.Helper()
		got := denied(t, ignored, written(t, deployment, pod, nil))
		if all := warningsOf(pod); len(got)+len(all) > 0 && !reflect.DeepEqual(got, all) || len(got) != want {
			t.Errorf("%s: the API server says %q, the scheduler %q, want %d", key, got, all, want)
		}
		said += len(got)
	}
	for _, d := range wire.Dialects() {
		for _, w := range d.Words {
			for _, key := range w.Keys {
				hold(podWith("berth", key), key, 1)
				hold(labelled("berth", key), key, 1)
			}
		}
		for _, key := range d.Records {
			hold(podWith("berth", key), key, 0)
			hold(labelled("berth", key), key, 0)
		}
	}
	hold(podWith("berth", "scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io"), "labels as annotations", 2)
	hold(labelled("berth", "scheduling.k8s.io/group-name"), "an annotation as a label", 1)
	annotations, labels := wire.KeysRead()
	for _, key := range annotations {
		pod := podWith("berth", key)
		for _, c := range wire.Companions() {
			switch {
			case !slices.Contains(c.Keys, key):
				continue
			case c.Labels != nil:
				metav1.SetMetaDataLabel(&pod.ObjectMeta, c.Of, "LS")
				hold(pod, key, 1)
				metav1.SetMetaDataLabel(&pod.ObjectMeta, c.Of, c.Labels[0])
			default:
				hold(pod, key, 1)
				metav1.SetMetaDataAnnotation(&pod.ObjectMeta, c.Of, "x")
			}
		}
		if len(warningsOf(pod)) > 0 {
			t.Errorf("annotation %s is read, and said to be ignored", key)
		} else if got := denied(t, ignored, written(t, deployment, pod, nil)); len(got) > 0 && !strings.Contains(got[0], "no container") {
			t.Errorf("annotation %s is read: %q", key, got)
		}
	}
	for _, key := range labels {
		hold(labelled("berth", key), key, 0)
	}
	if said < 200 {
		t.Errorf("%d words warned of: want more", said)
	}
}

// TestWordsOutsideOfTemplatesWarn: some kinds have the pods' annotations next to the template, or
// as patches of it.
func TestWordsOutsideOfTemplatesWarn(t *testing.T) {
	annotations := map[string]any{"berth.dev/polcy": "restricted", "koordinator.sh/x": "1"}
	for name, c := range map[string]struct {
		group, resource, kind string
		spec                  map[string]any
	}{
		"a driver": {"sparkoperator.k8s.io", "sparkapplications", "SparkApplication", map[string]any{"driver": map[string]any{"annotations": annotations}}},
		"an executor": {"sparkoperator.k8s.io", "scheduledsparkapplications", "ScheduledSparkApplication",
			map[string]any{"template": map[string]any{"executor": map[string]any{"annotations": annotations}}}},
		"the submitter of a Ray job": {"ray.io", "rayjobs", "RayJob", map[string]any{"submitterPodTemplate": map[string]any{"metadata": map[string]any{"annotations": annotations}}}},
		"all pods of a workflow":     {"argoproj.io", "workflows", "Workflow", map[string]any{"podMetadata": map[string]any{"annotations": annotations}}},
		"a step of a workflow": {"argoproj.io", "cronworkflows", "CronWorkflow", map[string]any{"workflowSpec": map[string]any{"schedulerName": "volcano", "templates": []any{
			map[string]any{"name": "a", "schedulerName": "berth"}, map[string]any{"name": "b", "metadata": map[string]any{"annotations": annotations}}}}}},
		"a patch of a runtime": {"trainer.kubeflow.org", "trainjobs", "TrainJob", map[string]any{"runtimePatches": []any{map[string]any{"manager": "x"},
			map[string]any{"trainingRuntimeSpec": map[string]any{"template": map[string]any{"spec": map[string]any{"replicatedJobs": []any{map[string]any{
				"template": map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": annotations}}}}}}}}}}}}},
	} {
		r := schema.GroupVersionResource{Group: c.group, Version: "v1", Resource: c.resource}
		got := denied(t, ignored, writes(r, c.kind, map[string]any{"metadata": map[string]any{"name": "x"}, "spec": c.spec}, nil, &user.DefaultInfo{}))
		if len(got) != 2 || got[0] != wire.UnknownWarning("berth.dev/polcy") || !strings.Contains(got[1], "koordinator.sh/x") {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// TestOuterWordsWarn: annotations of an object that has a pod template, and of a PodGroup.
func TestOuterWordsWarn(t *testing.T) {
	write := func(group, version, resource, kind string, annotations map[string]any) []string {
		r := schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
		return denied(t, ignored, writes(r, kind, map[string]any{"metadata": map[string]any{"name": "x", "annotations": annotations}, "spec": map[string]any{}}, nil, &user.DefaultInfo{}))
	}
	volcano := map[string]any{"volcano.sh/preemptable": "true", "volcano.sh/revocable-zone": "*"}
	for _, c := range [][3]string{{"batch.volcano.sh", "jobs", "Job"}, {"scheduling.volcano.sh", "podgroups", "PodGroup"}} {
		if got := write(c[0], "v1", c[1], c[2], volcano); len(got) != 1 || got[0] != "Berth ignores annotations of Volcano: volcano.sh/revocable-zone (Berth does not support nodes that are lent for a time)" {
			t.Errorf("%s: %q", c, got)
		}
	}
	if got := write("apps", "v1", "deployments", "Deployment", map[string]any{"scheduling.volcano.sh/group-min-member": "2"}); len(got) != 0 {
		t.Errorf("a word that Volcano's controller reads there: %q", got)
	}
	for _, c := range [][3]string{{"apps", "deployments", "Deployment"}, {"", "replicationcontrollers", "ReplicationController"}, {"batch", "jobs", "Job"}} {
		kept := map[string]any{"volcano.sh/preemptable": "false"}
		if got, want := write(c[0], "v1", c[1], c[2], kept), wire.MisplacedWarning("volcano.sh/preemptable"); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", c, got, want)
		}
		object := map[string]any{"metadata": map[string]any{"name": "x", "labels": kept}, "spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": kept}}}}
		r := schema.GroupVersionResource{Group: c[0], Version: "v1", Resource: c[1]}
		if got := denied(t, ignored, writes(r, c[2], object, nil, &user.DefaultInfo{})); len(got) != 0 {
			t.Errorf("%s: the template has it too: %q", c, got)
		}
	}
	for _, key := range []string{"volcano.sh/numa-topology-policy", "scheduling.koordinator.sh/resource-spec", "scheduling.k8s.io/group-name"} {
		for _, c := range [][3]string{{"apps", "deployments", "Deployment"}, {"batch.volcano.sh", "jobs", "Job"}, {"ray.io", "rayclusters", "RayCluster"}} {
			if got, want := write(c[0], "v1", c[1], c[2], map[string]any{key: "x"}), wire.MisplacedWarning(key); len(got) != 1 || got[0] != want {
				t.Errorf("%s: %q, want %q", c, got, want)
			}
		}
		if got := write("scheduling.sigs.k8s.io", "v1alpha1", "podgroups", "PodGroup", map[string]any{key: "x"}); len(got) != 0 {
			t.Errorf("%s on a PodGroup: %q", key, got)
		}
	}
	labelled := map[string]any{"metadata": map[string]any{"name": "x", "labels": map[string]any{"koordinator.sh/qosClass": "LSR"}}, "spec": map[string]any{}}
	r := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	if got, want := denied(t, ignored, writes(r, "StatefulSet", labelled, nil, &user.DefaultInfo{})), wire.MisplacedWarning("koordinator.sh/qosClass"); len(got) != 1 || got[0] != want {
		t.Errorf("a label beside the template: %q, want %q", got, want)
	}
	cron := map[string]any{"metadata": map[string]any{"name": "x"}, "spec": map[string]any{"jobTemplate": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"berth.dev/policy": "none"}}}}}
	r = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"}
	if got, want := denied(t, ignored, writes(r, "CronJob", cron, nil, &user.DefaultInfo{})), wire.MisplacedWarning("berth.dev/policy"); len(got) != 1 || got[0] != want {
		t.Errorf("a word on the Job of a CronJob: %q, want %q", got, want)
	}
	for _, c := range []struct{ group, resource, kind, spec string }{
		{"batch", "cronjobs", "CronJob", "{jobTemplate: {HERE}}"},
		{"batch.volcano.sh", "cronjobs", "CronJob", "{jobTemplate: {HERE}}"},
		{"jobset.x-k8s.io", "jobsets", "JobSet", "{replicatedJobs: [{name: a}, {template: {HERE}}]}"},
		{"trainer.kubeflow.org", "trainingruntimes", "TrainingRuntime", "{template: {HERE}}"},
		{"trainer.kubeflow.org", "clustertrainingruntimes", "ClusterTrainingRuntime", "{template: {spec: {replicatedJobs: [{template: {HERE}}]}}}"},
		{"trainer.kubeflow.org", "trainjobs", "TrainJob", "{runtimePatches: [{}, {trainingRuntimeSpec: {template: {HERE}}}]}"},
		{"trainer.kubeflow.org", "trainjobs", "TrainJob", "{runtimePatches: [{trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{template: {HERE}}]}}}}]}"},
		{"trainer.kubeflow.org", "trainjobs", "TrainJob", "METADATA"},
		{"argoproj.io", "cronworkflows", "CronWorkflow", "{workflowMetadata: METADATA}"},
	} {
		const metadata = "{annotations: {volcano.sh/numa-topology-policy: restricted}, labels: {kai.scheduler/queue: a}}"
		var spec map[string]any
		if err := yaml.Unmarshal([]byte(strings.NewReplacer("HERE", "metadata: "+metadata, "METADATA", metadata).Replace(c.spec)), &spec); err != nil {
			t.Fatal(err)
		}
		r, object := schema.GroupVersionResource{Group: c.group, Version: "v1", Resource: c.resource}, map[string]any{"metadata": map[string]any{"name": "x"}, "spec": spec}
		got := denied(t, ignored, writes(r, c.kind, object, nil, &user.DefaultInfo{}))
		if len(got) != 2 || got[0] != wire.MisplacedWarning("volcano.sh/numa-topology-policy") || !strings.HasPrefix(got[1], "Berth ignores labels of KAI: kai.scheduler/queue ") {
			t.Errorf("%s with %s: %q", c.kind, c.spec, got)
		}
		if got := denied(t, ignored, writes(r, c.kind, object, object, &user.DefaultInfo{})); len(got) != 0 {
			t.Errorf("%s with %s stays as it was: %q", c.kind, c.spec, got)
		}
	}
	if got := write("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob", map[string]any{"volcano.sh/preemptable": "false"}); len(got) != 0 {
		t.Errorf("the operator writes it into the PodGroup: %q", got)
	}
	clique := map[string]any{"metadata": map[string]any{"name": "x", "annotations": map[string]any{"berth.dev/cpus": "spread"}}, "spec": map[string]any{"template": map[string]any{"cliques": []any{
		map[string]any{"name": "a", "annotations": map[string]any{"berth.dev/polcy": "none"}, "labels": map[string]any{"kai.scheduler/queue": "a"}, "spec": map[string]any{"podSpec": map[string]any{"schedulerName": "berth"}}}}}}}
	r = schema.GroupVersionResource{Group: "grove.io", Version: "v1alpha1", Resource: "podcliquesets"}
	if got := denied(t, ignored, writes(r, "PodCliqueSet", clique, nil, &user.DefaultInfo{})); len(got) != 3 || got[0] != wire.UnknownWarning("berth.dev/polcy") ||
		got[1] != wire.MisplacedWarning("berth.dev/cpus") || !strings.HasPrefix(got[2], "Berth ignores labels of KAI: kai.scheduler/queue ") {
		t.Errorf("a clique of Grove: %q", got)
	}
	if got, want := write("apps", "v1", "deployments", "Deployment", map[string]any{"berth.dev/policy": "restricted"}), wire.MisplacedWarning("berth.dev/policy"); len(got) != 1 || got[0] != want {
		t.Errorf("Berth's word beside the template: %q, want %q", got, want)
	}
}

// TestSharedWarns: for pods without exclusive resources, the admission policy gives the same
// warnings as the scheduler.
func TestSharedWarns(t *testing.T) {
	resources := func(text string) corev1.ResourceRequirements {
		var out corev1.ResourceRequirements
		if err := yaml.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	pod := func(annotations map[string]string, all ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: corev1.PodSpec{SchedulerName: "berth"}}
		for _, text := range all {
			c := corev1.Container{Name: "c" + string(rune('a'+len(p.Spec.Containers)))}
			if strings.HasPrefix(text, "init") {
				c = corev1.Container{Name: "i", Resources: resources(strings.TrimPrefix(text, "init"))}
				p.Spec.InitContainers = append(p.Spec.InitContainers, c)
				continue
			}
			c.Resources = resources(text)
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
		return p
	}
	level := func(p *corev1.Pod, text string) *corev1.Pod {
		r := resources(text)
		p.Spec.Resources = &r
		return p
	}
	const good, gpu = "{limits: {cpu: 2, memory: 1Gi}}", "{limits: {cpu: 2, nvidia.com/gpu: 1}}"
	said := func(key, value string) map[string]string { return map[string]string{key: value} }
	policy, memory := said("berth.dev/policy", "single-numa-node"), said("berth.dev/memory", "pinned")
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"no memory":            {pod(policy, "{limits: {cpu: 4}}"), "berth.dev/policy, because it is not Guaranteed: container ca has no limit of memory"},
		"requests below":       {pod(said("berth.dev/policy", "restricted"), "{requests: {cpu: 2}, limits: {cpu: 4, memory: 1Gi}}"), "container ca requests less than its limits"},
		"a sidecar":            {pod(policy, good, "{}"), "container cb has no limits of cpu and memory"},
		"an init container":    {pod(policy, "init{requests: {cpu: 1}}", good), "init container i has no limits of cpu and memory"},
		"memory pinned":        {pod(memory, "{requests: {cpu: 2, memory: 1Gi}}"), "berth.dev/memory, because"},
		"four containers":      {pod(memory, "{}", "{}", "{}", "{}"), " and 1 more"},
		"whole cores":          {pod(said("berth.dev/cpus", "full-cores"), "{limits: {cpu: 4}}"), "berth.dev/cpus, because"},
		"a part of a CPU":      {pod(said("berth.dev/cpus", "full-cores"), "{limits: {cpu: 1500m, memory: 1Gi}}"), "whole number of CPUs"},
		"thousandths":          {pod(said("berth.dev/cpus", "full-cores"), "{requests: {cpu: '2', memory: 1024Mi}, limits: {cpu: 2000m, memory: 1Gi}}"), ""},
		"a pod as a whole":     {level(pod(said("berth.dev/cpus", "full-cores"), good), "{requests: {cpu: 4, memory: 2Gi}, limits: {cpu: 4, memory: 2Gi}}"), "only a kubelet with the feature gate PodLevelResourceManagers"},
		"Volcano's policy":     {pod(said("volcano.sh/numa-topology-policy", "restricted"), "{limits: {cpu: 4}}"), "volcano.sh/numa-topology-policy, because"},
		"Volcano's, a part":    {pod(said("volcano.sh/numa-topology-policy", "restricted"), "{limits: {cpu: 1500m, memory: 1Gi}}"), "whole number of CPUs"},
		"Volcano's, a sidecar": {pod(said("volcano.sh/numa-topology-policy", "restricted"), good, "{limits: {cpu: 100m, memory: 1Gi}}"), ""},
		"Volcano's none":       {pod(said("volcano.sh/numa-topology-policy", "none"), "{}"), ""},
		"preferred":            {pod(said("berth.dev/exclusive", "core,preferred"), "{}"), ""},
		"Guaranteed":           {pod(policy, good), ""},
		"policy none":          {pod(said("berth.dev/policy", "none"), "{}"), ""},
		"a policy for devices": {pod(policy, gpu), ""},
		"memory with devices":  {pod(memory, gpu), "berth.dev/memory, because"},
		"no devices":           {pod(said("berth.dev/devices", "same-switch"), good), "Berth ignores berth.dev/devices: no container"},
		"devices":              {pod(said("berth.dev/devices", "same-switch"), gpu), ""},
		"claims, no devices":   {pod(said("berth.dev/claims", "near"), good), "Berth ignores berth.dev/claims: no container"},
		"a device class":       {pod(said("berth.dev/claims", "near"), "{requests: {deviceclass.resource.kubernetes.io/gpu: 1}}"), ""},
		"two keys": {pod(map[string]string{"berth.dev/policy": "restricted", "berth.dev/memory": "pinned", "berth.dev/l3": "required"}, "{}"),
			"berth.dev/l3, berth.dev/policy, berth.dev/memory, because"},
	} {
		var want []string
		if w, shares := wire.CPUsShared(c.pod); shares {
			want = append(want, w.Text)
		}
		if w, none := wire.NoDevices(c.pod); none {
			want = append(want, w.Text)
		}
		for _, kind := range []schema.GroupVersionKind{{Version: "v1", Kind: "Pod"}, {Group: "apps", Version: "v1", Kind: "StatefulSet"}, {Group: "batch.volcano.sh", Version: "v1alpha1", Kind: "Job"}} {
			got := denied(t, ignored, written(t, kind, c.pod, nil))
			if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) || !strings.Contains(strings.Join(got, "; "), c.want) || (c.want == "") != (len(got) == 0) {
				t.Errorf("%s in a %s: the API server says %q, the scheduler %q, want ...%s...", name, kind.Kind, got, want, c.want)
			}
		}
	}
	sts := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}
	if p := pod(policy, "{limits: {cpu: 4}}"); len(denied(t, ignored, written(t, sts, p, p))) > 0 {
		t.Error("a template that stays as it was is warned of again")
	}
}
