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

	"github.com/berth-dev/berth/internal/wire"
)

// templateOf says where each kind has its pods' template; nowhere for a pod.
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
}

// inside returns an object that has a pod where its kind has templates: as the second of the tasks
// of a Job, whose scheduler is that of all.
func inside(pod map[string]any, path []string) (map[string]any, error) {
	outer, last := map[string]any{}, len(path)-1
	if path[last] != "tasks" {
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

// written makes a request to write pods with annotations, over others where before is not nil.
func written(t *testing.T, kind schema.GroupVersionKind, pod, before *corev1.Pod) admission.Attributes {
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

// labelled is podWith for labels.
func labelled(scheduler string, keys ...string) *corev1.Pod {
	pod := podWith(scheduler)
	for _, key := range keys {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, key, "x")
	}
	return pod
}

// warningsOf are the texts of what the table says about the pod.
func warningsOf(pod *corev1.Pod) (texts []string) {
	for _, w := range wire.IgnoredKeys(pod) {
		texts = append(texts, w.Text)
	}
	return texts
}

// TestIgnoredAnnotationsWarn holds the policy against the table that it is made from, by the API
// server's own compiler: both say the same of every pod, wherever it is written.
func TestIgnoredAnnotationsWarn(t *testing.T) {
	keys := [][]string{nil, {"berth.dev/policy", "example.com/x"}, {"berth.dev/polcy"}, {"berth.dev/policy", "berth.dev/"}}
	schedulers := []string{"", "berth"}
	for _, d := range wire.UnspokenDialects() {
		schedulers = append(schedulers, d.Scheduler)
		for _, key := range d.Keys {
			keys = append(keys, []string{key}, []string{key + "x"})
		}
		for _, p := range d.Prefixes {
			keys = append(keys, []string{p + "x"}, []string{"x" + p}, []string{p + "y", "berth.dev/y"})
		}
	}
	warned := 0
	for kind := range templateOf {
		for _, scheduler := range schedulers {
			for i, k := range keys {
				if kind.Kind != "Pod" && i%4 != 2 {
					continue // each takes the compiler's time, and only where annotations stand differs
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

// TestIgnoredAnnotationsWarnOfServedNames: where Berth serves the name of a dialect's own
// scheduler, the policy warns of its pods as of others.
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

// TestUnservedKindsWarn: of each kind of the table the policies warn, in its words, and of no
// other. The policy that comes with berth-controller warns of the kinds that users expect it to
// serve.
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
	for _, d := range wire.UnspokenDialects() {
		schedulers = append(schedulers, d.Scheduler)
		for _, p := range slices.Concat(d.Prefixes, d.LabelPrefixes) {
			keys = append(keys, []string{p + "x", "x" + p + "x"})
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

// TestIgnoredAnnotationsWarnOnce: a Deployment is written again and again by its controller.
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
