package deploy

import (
	"io/fs"
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
)

const (
	numaPolicy    = "volcano.sh/numa-topology-policy"
	annotatedPods = "annotated-pods.yaml"
)

// annotated returns a pod, or a template, with the policy and the container's resources. Its
// amounts are strings, as in every object that the API server has decoded.
func annotated(t *testing.T, policy, resources string) map[string]any {
	t.Helper()
	var pod corev1.PodTemplateSpec
	text := `{metadata: {name: x, annotations: {"` + numaPolicy + `": "` + policy + `"}}, spec: {containers: [{name: c, resources: ` + resources + `}]}}`
	if err := yaml.UnmarshalStrict([]byte(text), &pod); err != nil {
		t.Fatal(err)
	}
	if policy == "" {
		pod.Annotations = nil
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// writes returns a request to write an object of a resource; it is an update if before is not nil.
func writes(resource schema.GroupVersionResource, kind string, object, before map[string]any, by user.Info) admission.Attributes {
	object = runtime.DeepCopyJSON(object)
	gvk := resource.GroupVersion().WithKind(kind)
	object["apiVersion"], object["kind"] = gvk.GroupVersion().String(), kind
	var old runtime.Object
	operation, options := admission.Create, runtime.Object(&metav1.CreateOptions{})
	if before != nil {
		old, operation, options = &unstructured.Unstructured{Object: before}, admission.Update, &metav1.UpdateOptions{}
	}
	name, _, _ := unstructured.NestedString(object, "metadata", "name")
	return admission.NewAttributesRecord(&unstructured.Unstructured{Object: object}, old, gvk, "d", name, resource, "", operation, options, false, by)
}

var (
	podKind        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	deploymentKind = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	cronJobKind    = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"}
)

// TestAnnotatedPods: Volcano's annotation for a policy must have a known value. The author of a pod
// without exclusive CPUs gets one warning about ignored annotations. Pods of other schedulers are
// not checked.
func TestAnnotatedPods(t *testing.T) {
	const whole = `{limits: {cpu: 2, memory: 1Gi}}`
	for name, c := range map[string]struct {
		policy, resources, want string
		warned                  bool
	}{
		"as documented":       {"single-numa-node", `{requests: {cpu: 2, memory: 2048Mi}, limits: {cpu: 2, memory: 2Gi}}`, "", false},
		"limits alone":        {"restricted", whole, "", false},
		"thousandths":         {"restricted", `{limits: {cpu: 2000m, memory: 1Gi}, requests: {cpu: "2"}}`, "", false},
		"no policy":           {"", `{}`, "", false},
		"policy none":         {"none", `{}`, "", false},
		"an unknown policy":   {"single-numa", whole, `metadata.annotations[volcano.sh/numa-topology-policy]: "single-numa": want none, best-effort,`, false},
		"a part of a CPU":     {"best-effort", `{limits: {cpu: 1500m, memory: 1Gi}}`, "", true},
		"no limits":           {"best-effort", `{}`, "", true},
		"no memory":           {"best-effort", `{limits: {cpu: 1}}`, "", true},
		"other requests":      {"best-effort", `{limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1}}`, "", true},
		"a request, no limit": {"best-effort", `{limits: {memory: 1Gi}, requests: {cpu: 1}}`, "", true},
	} {
		pod := annotated(t, c.policy, c.resources)
		for kind, one := range map[string]struct {
			resource schema.GroupVersionResource
			object   map[string]any
			path     string
		}{
			"Pod":        {podKind, pod, ""},
			"Deployment": {deploymentKind, map[string]any{"metadata": map[string]any{"name": "x"}, "spec": map[string]any{"template": pod}}, "spec.template."},
			"CronJob": {cronJobKind, map[string]any{"metadata": map[string]any{"name": "x"}, "spec": map[string]any{
				"jobTemplate": map[string]any{"spec": map[string]any{"template": pod}}}}, "spec.jobTemplate.spec.template."},
		} {
			write := writes(one.resource, kind, one.object, nil, &user.DefaultInfo{})
			got := strings.Join(deniedIn(t, Folder("jobs"), annotatedPods, write), "\n")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) || got != "" && !strings.Contains(got, one.path) {
				t.Errorf("%s, %s: denied %q, want ...%s...", kind, name, got, c.want)
			}
			warnings := denied(t, ignored, write)
			if len(warnings) > 0 != c.warned || c.warned && (len(warnings) > 1 || !strings.Contains(warnings[0], numaPolicy)) {
				t.Errorf("%s, %s: warned %q, want a warning: %t", kind, name, warnings, c.warned)
			}
		}
	}
	theirs := annotated(t, "somebody's own", `{}`)
	theirs["spec"].(map[string]any)["schedulerName"] = "other-scheduler"
	if got := deniedIn(t, Folder("jobs"), annotatedPods, writes(podKind, "Pod", theirs, nil, &user.DefaultInfo{})); len(got) > 0 {
		t.Errorf("another scheduler's pod is denied: %q", got)
	}
}

// TestAnnotatedPodsOfServedNames: pods of every scheduler name that Berth serves are checked.
func TestAnnotatedPodsOfServedNames(t *testing.T) {
	data, err := fs.ReadFile(Folder("jobs"), annotatedPods)
	if err != nil {
		t.Fatal(err)
	}
	serving := fstest.MapFS{annotatedPods: {Data: ServingNames([][]byte{data}, "numa", "volcano")[0]}}
	for scheduler, want := range map[string]bool{"": true, "volcano": true, "numa": true, "berth": false} {
		pod := annotated(t, "single-numa", `{}`)
		pod["spec"].(map[string]any)["schedulerName"] = scheduler
		if got := deniedIn(t, serving, annotatedPods, writes(podKind, "Pod", pod, nil, &user.DefaultInfo{})); len(got) > 0 != want {
			t.Errorf("scheduler %q: %q, want a word: %t", scheduler, got, want)
		}
	}
}

// TestAnnotatedPodsStayWhatTheyAre: a pod's policy must not change. A pod that was created before
// the admission policy may change in other fields.
func TestAnnotatedPodsStayWhatTheyAre(t *testing.T) {
	const whole = `{limits: {cpu: 2, memory: 1Gi}}`
	labelled := annotated(t, "restricted", `{}`)
	labelled["metadata"].(map[string]any)["labels"] = map[string]any{"a": "b"}
	for name, c := range map[string]struct {
		now, before map[string]any
		want        string
	}{
		"the same":         {annotated(t, "restricted", whole), annotated(t, "restricted", whole), ""},
		"another policy":   {annotated(t, "best-effort", whole), annotated(t, "restricted", whole), `"best-effort": want "restricted"`},
		"no policy now":    {annotated(t, "", whole), annotated(t, "restricted", whole), `"": want "restricted"`},
		"a label, as such": {labelled, annotated(t, "restricted", `{}`), ""},
	} {
		got := strings.Join(deniedIn(t, Folder("jobs"), annotatedPods, writes(podKind, "Pod", c.now, c.before, &user.DefaultInfo{})), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: denied %q, want ...%s...", name, got, c.want)
		}
	}
}

// TestWhatABindingSaysStays: only the scheduler, and only with the Binding, may write for what a
// pod was bound.
func TestWhatABindingSaysStays(t *testing.T) {
	for _, key := range []string{"berth.dev/placement", "berth.dev/bound-for"} {
		pod := func(text string) map[string]any {
			out := map[string]any{"metadata": map[string]any{"name": "x", "annotations": map[string]any{"a": "b"}}}
			if text != "" {
				out["metadata"].(map[string]any)["annotations"].(map[string]any)[key] = text
			}
			return out
		}
		anybody, scheduler := &user.DefaultInfo{Name: "somebody"}, &user.DefaultInfo{Name: "system:serviceaccount:berth-system:berth-scheduler"}
		bindings := schema.GroupVersionResource{Version: "v1", Resource: "bindings"}
		for what, c := range map[string]struct {
			request admission.Attributes
			want    string
		}{
			"created without":   {writes(podKind, "Pod", pod(""), nil, anybody), ""},
			"created with":      {writes(podKind, "Pod", pod("{}"), nil, anybody), "cannot be created with it"},
			"changed":           {writes(podKind, "Pod", pod("{}"), pod("{ }"), anybody), "cannot be added, changed or removed"},
			"added":             {writes(podKind, "Pod", pod("{}"), pod(""), scheduler), "cannot be added, changed or removed"},
			"removed":           {writes(podKind, "Pod", pod(""), pod("{}"), anybody), "cannot be added, changed or removed"},
			"left as it was":    {writes(podKind, "Pod", pod("{}"), pod("{}"), anybody), ""},
			"bound with":        {writes(bindings, "Binding", pod("{}"), nil, scheduler), ""},
			"bound by somebody": {writes(bindings, "Binding", pod("{}"), nil, anybody), "only the scheduler may write"},
			"bound without":     {writes(bindings, "Binding", pod(""), nil, anybody), ""},
		} {
			got := strings.Join(denied(t, "placement-by-binding.yaml", c.request), "\n")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%s, %s: denied %q, want ...%s...", key, what, got, c.want)
			}
		}
	}
}

// TestForgedAmounts: if the admission policy is installed, only the agent of a node, administrators
// and, for the owner references, the garbage collector may write the node's Numatopology and
// NodeResourceTopology.
func TestForgedAmounts(t *testing.T) {
	agent := func(node string) user.Info {
		return &user.DefaultInfo{Name: "system:serviceaccount:berth-system:berth-agent", Extra: map[string][]string{"authentication.kubernetes.io/node-name": {node}}}
	}
	collector := &user.DefaultInfo{Name: "system:serviceaccount:kube-system:generic-garbage-collector"}
	old := map[string]any{"metadata": map[string]any{"name": "n1"}, "spec": map[string]any{"a": "b"}}
	forged := map[string]any{"metadata": map[string]any{"name": "n1"}, "spec": map[string]any{"a": "c"}}
	for _, r := range []schema.GroupVersionResource{
		{Group: "nodeinfo.volcano.sh", Version: "v1alpha1", Resource: "numatopologies"}, {Group: "topology.node.k8s.io", Version: "v1alpha2", Resource: "noderesourcetopologies"},
	} {
		for _, c := range []struct {
			name   string
			by     user.Info
			before map[string]any
			denied bool
		}{
			{"the node's agent", agent("n1"), nil, false},
			{"another node's agent", agent("n2"), nil, true},
			{"an exporter", &user.DefaultInfo{Name: "system:serviceaccount:volcano-system:exporter"}, old, true},
			{"an administrator", &user.DefaultInfo{Name: "a", Groups: []string{"system:masters"}}, nil, false},
			{"the garbage collector that forges", collector, old, true},
		} {
			if got := deniedIn(t, Folder("exporters"), "agents-alone.yaml", writes(r, "X", forged, c.before, c.by)); len(got) > 0 != c.denied {
				t.Errorf("%s, %s: refused by %q, want refused %t", r.Resource, c.name, got, c.denied)
			}
		}
		if got := deniedIn(t, Folder("exporters"), "agents-alone.yaml", writes(r, "X", old, old, collector)); len(got) > 0 {
			t.Errorf("%s: the garbage collector takes the owner away: %q", r.Resource, got)
		}
	}
}
