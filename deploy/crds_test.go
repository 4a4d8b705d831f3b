package deploy

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	nodeinfo "github.com/berth-dev/berth/api/nodeinfo/v1alpha1"
)

// customKind is a custom resource definition that validates objects as the API server does.
type customKind struct {
	structural *schema.Structural
	validator  validation.SchemaValidator
}

// readCRD reads a file of crds.
func readCRD(t *testing.T, file string) customKind {
	t.Helper()
	data, err := fs.ReadFile(Folder("crds"), file)
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		t.Fatal(err)
	}
	var internal apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(crd.Spec.Versions[0].Schema, &internal, nil); err != nil {
		t.Fatal(err)
	}
	s, err := schema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	v, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	return customKind{s, v}
}

// admit returns the object as it would be stored, its errors, and its unknown fields.
func (k *customKind) admit(object map[string]any) (stored map[string]any, wrong, unknown []string) {
	stored = runtime.DeepCopyJSON(object)
	unknown = pruning.PruneWithOptions(stored, k.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.Default(stored, k.structural)
	for _, e := range validation.ValidateCustomResource(nil, stored, k.validator) {
		wrong = append(wrong, e.Error())
	}
	return stored, wrong, unknown
}

// documented reads an example from Volcano's documents.
func documented(t *testing.T, name string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "test", "volcano", "documents", name))
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := yaml.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestDocumentedJobsAreTaken(t *testing.T) {
	jobs := readCRD(t, "batch.volcano.sh_jobs.yaml")
	for _, name := range []string{"job-best-effort.yaml", "job-reference.yaml"} {
		stored, wrong, unknown := jobs.admit(documented(t, name))
		if len(wrong)+len(unknown) > 0 {
			t.Errorf("%s: wrong %q, unknown %q", name, wrong, unknown)
		}
		var job batch.Job
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(stored, &job, true); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if task := job.Spec.Tasks[0]; task.TopologyPolicy != "best-effort" || job.Spec.MaxRetry != 3 {
			t.Errorf("%s: read %+v", name, job.Spec)
		}
	}
}

// TestSpoiltJobsAreRefused makes one field of an example invalid in each case.
func TestSpoiltJobsAreRefused(t *testing.T) {
	jobs := readCRD(t, "batch.volcano.sh_jobs.yaml")
	for _, c := range []struct {
		name, want string
		spoil      func(spec, task map[string]any)
	}{
		{"a policy that nobody knows", "spec.tasks[0].topologyPolicy", func(_, task map[string]any) { task["topologyPolicy"] = "restrictd" }},
		{"too many replicas", "spec.tasks[0].replicas", func(_, task map[string]any) { task["replicas"] = int64(100_000) }},
		{"replicas below zero", "spec.tasks[0].replicas", func(_, task map[string]any) { task["replicas"] = int64(-1) }},
		{"minAvailable below zero", "spec.minAvailable", func(spec, _ map[string]any) { spec["minAvailable"] = int64(-1) }},
		{"a field that is misspelt", "spec.tasks[0].topologyPolcy", func(_, task map[string]any) { task["topologyPolcy"] = "none" }},
		{"an action that nobody knows", "spec.policies[0].action", func(spec, _ map[string]any) {
			spec["policies"] = []any{map[string]any{"event": "PodFailed", "action": "Restart"}}
		}},
		{"an event that nobody knows", "spec.policies[0].event", func(spec, _ map[string]any) {
			spec["policies"] = []any{map[string]any{"event": "PodFailled", "action": "RestartJob"}}
		}},
	} {
		object := documented(t, "job-best-effort.yaml")
		spec := object["spec"].(map[string]any)
		c.spoil(spec, spec["tasks"].([]any)[0].(map[string]any))
		_, wrong, unknown := jobs.admit(object)
		if all := strings.Join(append(wrong, unknown...), "\n"); !strings.Contains(all, c.want) {
			t.Errorf("%s: %q, want a word about %s", c.name, all, c.want)
		}
	}
}

// TestNumatopologiesAreTaken: the definition accepts objects of the exporters of both releases.
func TestNumatopologiesAreTaken(t *testing.T) {
	kind := readCRD(t, "nodeinfo.volcano.sh_numatopologies.yaml")
	const text = `
apiVersion: nodeinfo.volcano.sh/v1alpha1
kind: Numatopology
metadata: {name: n1, annotations: {timestamp: "1760000000"}}
spec:
  policies: {CPUManagerPolicy: static, TopologyManagerPolicy: single-numa-node}
  resReserved: {cpu: "1"}
  numares: {cpu: {allocatable: "0-3,6-7", capacity: 8}}
  cpuDetail: {"0": {}, "1": {core: 1}, "2": {core: 2}, "3": {core: 3}, "4": {numa: 1, socket: 1},
    "5": {numa: 1, socket: 1, core: 1}, "6": {numa: 1, socket: 1, core: 2}, "7": {numa: 1, socket: 1, core: 3}}
  podAllocations:
  - {uid: u, name: p, namespace: d, containerAllocations: [{name: c, allocations: {cpu: "4-5"}}]}
`
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	stored, wrong, unknown := kind.admit(object)
	if len(wrong)+len(unknown) > 0 {
		t.Errorf("wrong %q, unknown %q", wrong, unknown)
	}
	var read nodeinfo.Numatopology
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(stored, &read, true); err != nil {
		t.Fatal(err)
	}
	if got := read.Spec.PodAllocations[0].ContainerAllocations[0].Allocations["cpu"]; got != "4-5" || read.Spec.CPUDetail["5"].CoreID != 1 {
		t.Errorf("read %+v", read.Spec)
	}
}

// TestSchemesKnowTheirKinds checks the registrations.
func TestSchemesKnowTheirKinds(t *testing.T) {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{batch.AddToScheme, nodeinfo.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []runtimeschema.GroupVersionKind{batch.GroupVersion.WithKind("Job"), nodeinfo.GroupVersion.WithKind("NumatopologyList")} {
		if !known.Recognizes(kind) {
			t.Errorf("%s is not registered", kind)
		}
	}
}

// TestNumbersDoNotRunOut: an agent continues from the number of the last report, and a number never
// goes back. Large steps are refused, so that a user who had an agent's rights for a moment cannot
// use up all numbers.
func TestNumbersDoNotRunOut(t *testing.T) {
	k := readCRD(t, "berth.dev_nodetopologies.yaml")
	rules := cel.NewValidator(k.structural, true, celconfig.PerCallLimit)
	report := func(n int64) map[string]any {
		o := map[string]any{"apiVersion": "berth.dev/v1alpha1", "kind": "NodeTopology", "metadata": map[string]any{"name": "n"}, "spec": map[string]any{"machine": "numa:1"}}
		if n > 0 {
			o["status"] = map[string]any{"sequence": n}
		}
		return o
	}
	for _, c := range []struct {
		old, now int64
		want     string
	}{
		{0, 1, ""}, {0, 1 << 40, ""}, {0, 1<<40 + 1, "must not run out"}, {0, math.MaxInt64, "must not run out"},
		{5, 5, ""}, {5, 6, ""}, {5, 5 + 1<<20, ""}, {5, 6 + 1<<20, "must not run out"}, {5, math.MaxInt64, "must not run out"},
		{5, 4, "never goes back"}, {1 << 40, 1<<40 + 1, ""}, {math.MaxInt64 - 1, math.MaxInt64, ""},
	} {
		wrong, _ := rules.Validate(t.Context(), field.NewPath(""), k.structural, report(c.now), report(c.old), celconfig.RuntimeCELCostBudget)
		if text := fmt.Sprint(wrong); (c.want == "") != (len(wrong) == 0) || !strings.Contains(text, c.want) {
			t.Errorf("%d after %d: %v, want %q", c.now, c.old, wrong, c.want)
		}
	}
}
