package manifest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/wire"
)

// readText reads one text as standard input.
func readText(doc string) ([]Template, []string, error) {
	return Source{Paths: []string{"-"}, Stdin: strings.NewReader(doc)}.Read()
}

func TestRead(t *testing.T) {
	const doc = `# a comment
---
kind: Pod
apiVersion: v1
metadata: {name: a}
spec: {containers: [{name: c, resources: {limits: {cpu: "4", memory: 1Gi}}}]}
---
apiVersion: v1
kind: List
items:
- {kind: Deployment, apiVersion: apps/v1, metadata: {name: d}, spec: {replicas: 3, template: {spec: {containers: [{name: c}]}}}}
- {kind: CronJob, apiVersion: batch/v1, metadata: {name: d}, spec: {jobTemplate: {spec: {parallelism: 4, completions: 2, template: {spec: {containers: [{name: c}]}}}}}}
- {kind: Service, apiVersion: v1, metadata: {name: s}}
- {kind: Ingress, apiVersion: networking.k8s.io/v1, metadata: {name: s}}
---
kind: Pod
apiVersion: v1
metadata: {name: a}
spec: {containers: [{name: c}]}
---
apiVersion: v1
kind: Service
---
apiVersion: v1
kind: PodList
items: [{metadata: {name: z, namespace: ns}, spec: {containers: [{name: c}]}}]
`
	templates, notes, err := readText(doc)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range templates {
		for _, p := range templates[i].Pods() {
			got = append(got, p.Name+"="+string(p.UID))
		}
	}
	if want := "a=/a d-0=/d-0 d-1=/d-1 d-2=/d-2 d-0=/d#2-0 d-1=/d#2-1 a=/a#2 z=ns/z"; strings.Join(got, " ") != want {
		t.Errorf("pods %q, want %q", strings.Join(got, " "), want)
	}
	if want := "Deployment d: counted as 3 pods|CronJob d: counted as 2 pods|skipped what holds no pods: 1 Ingress, 2 Service"; strings.Join(notes, "|") != want {
		t.Errorf("notes %q, want %q", strings.Join(notes, "|"), want)
	}
	if cpu := templates[0].Pod.Spec.Containers[0].Resources.Limits.Cpu().Value(); cpu != 4 {
		t.Errorf("cpu limit %d, want 4", cpu)
	}
}

func TestReadFilesAndFolders(t *testing.T) {
	dir := t.TempDir()
	write := func(name, pod string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		text := "apiVersion: v1\nkind: Pod\nmetadata: {name: " + pod + "}\nspec: {containers: [{name: c}]}"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one := write("one.yaml", "one")
	write("folder/b.yml", "b")
	write("folder/a.json", "a")
	write("folder/readme.txt", "never")
	write("folder/deep/c.yaml", "c")
	folder := filepath.Join(dir, "folder")
	for _, c := range []struct {
		source Source
		want   string
	}{
		{Source{Paths: []string{one, folder}}, "one a b"},
		{Source{Paths: []string{folder, one}, Recursive: true}, "a b c one"},
		{Source{Paths: []string{one, one}}, "one one"},
	} {
		templates, _, err := c.source.Read()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range templates {
			names = append(names, p.Pod.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%v: %q, want %q", c.source.Paths, got, c.want)
		}
	}
	for path, want := range map[string]string{
		"https://example.com/a.yaml": "fetch it first", filepath.Join(dir, "none"): "no such file", filepath.Join(folder, "deep", "x"): "no such file",
	} {
		if _, _, err := (Source{Paths: []string{path}}).Read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	pod := func(spec string) string { return "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: " + spec }
	resources := func(r string) string { return pod("{containers: [{name: x, resources: " + r + "}]}") }
	for name, c := range map[string]struct{ doc, want string }{
		"nothing":          {"", "no pods in it"},
		"only others":      {"{kind: Service, apiVersion: v1}", "no pods in it; skipped what holds no pods: 1 Service"},
		"no kind":          {"metadata: {name: x}", `object x: kind: "": want Pod`},
		"no apiVersion":    {"{kind: Pod, metadata: {name: p}}", `Pod p: apiVersion: "": want v1`},
		"wrong apiVersion": {"{kind: Pod, apiVersion: berth.io/v9, metadata: {name: p}}", `Pod p: apiVersion: "berth.io/v9": want v1`},
		"Volcano's Job": {"{kind: Job, apiVersion: batch.volcano.sh/v1alpha1, metadata: {name: j}, spec: {tasks: []}}",
			`Job j: apiVersion: "batch.volcano.sh/v1alpha1": want batch/v1`},
		"misspelt kind":    {"{kind: Deploymnet, apiVersion: apps/v1, metadata: {name: d}}", `(did you mean "Deployment"?)`},
		"unknown field":    {pod("{container: []}"), `Pod p: spec.container: "[]": want a known field (did you mean "containers"?)`},
		"bad quantity":     {resources("{limits: {cpu: four}}"), `Pod p: spec.containers[0].resources.limits[cpu]: "four": want a quantity`},
		"second bad":       {pod("{containers: [{name: c}]}") + "\n---\nkind: {", "stdin: document 2"},
		"item bad":         {"{kind: List, apiVersion: v1, items: [{metadata: {name: q}}]}", `items[0]: object q: kind`},
		"no containers":    {pod("{}"), `Pod p: spec.containers: "": want at least one container`},
		"twice a name":     {pod("{containers: [{name: x}, {name: x}]}"), `spec.containers[1].name: "x": want a name that no other`},
		"init name":        {pod("{containers: [{name: x}], initContainers: [{name: x}]}"), `spec.containers[0].name: "x"`},
		"no name":          {pod("{containers: [{}]}"), `spec.containers[0].name: ""`},
		"over limit":       {resources(`{requests: {cpu: "4"}, limits: {cpu: "2"}}`), `requests[cpu]: "4": want at most the limit, 2`},
		"page size":        {resources("{limits: {cpu: 1, hugepages-3Mi: 3Mi}}"), `limits[hugepages-3Mi]: "3Mi": want huge pages of a size that is a power of two`},
		"no multiple":      {resources("{limits: {cpu: 1, hugepages-2Mi: 3Mi}}"), `limits[hugepages-2Mi]: "3Mi": want a multiple of the page size, 2Mi`},
		"only huge pages":  {resources("{limits: {hugepages-2Mi: 2Mi}}"), `want cpu or memory beside huge pages`},
		"huge no limit":    {resources("{requests: {cpu: 1, hugepages-2Mi: 2Mi}}"), `want a limit too`},
		"broken device":    {resources("{limits: {foo.com/x: 1500m}}"), `limits[foo.com/x]: "1500m": want a whole number`},
		"uneven device":    {resources("{requests: {foo.com/x: 1}, limits: {foo.com/x: 2}}"), `requests[foo.com/x]: "1": want as much as the limit, 2`},
		"misspelt memory":  {resources("{limits: {memroy: 1Gi}}"), `limits[memroy]: "1Gi": want cpu, memory, ephemeral-storage, hugepages-SIZE or a name with a domain, like nvidia.com/gpu (did you mean "memory"?)`},
		"negative":         {resources("{limits: {cpu: -1}}"), `limits[cpu]: "-1": want 0 or more`},
		"unclaimed":        {resources("{claims: [{name: gpu}]}"), `spec.containers[0].resources.claims[0].name: "gpu": want a name of spec.resourceClaims`},
		"unknown volume":   {pod("{volumes: [{name: data}], containers: [{name: x, volumeMounts: [{name: dta, mountPath: /d}]}]}"), `spec.containers[0].volumeMounts[0].name: "dta": want a name of spec.volumes (did you mean "data"?)`},
		"twice a volume":   {pod("{volumes: [{name: a}, {name: a}], containers: [{name: x}]}"), `spec.volumes[1].name: "a": want a name that no other`},
		"bad name":         {strings.Replace(pod("{containers: [{name: c}]}"), "name: p", "name: P_1", 1), `Pod P_1: metadata.name: "P_1"`},
		"misspelt policy":  {strings.Replace(pod("{containers: [{name: c}]}"), "name: p", "name: p, annotations: {berth.dev/policy: singel}", 1), `Pod p: metadata.annotations[berth.dev/policy]: "singel": want none, best-effort`},
		"misspelt key":     {strings.Replace(pod("{containers: [{name: c}]}"), "name: p", "name: p, annotations: {berth.dev/polcy: none}", 1), `Pod p: metadata.annotations[berth.dev/polcy]: "none": want a key that Berth reads: berth.dev/policy, gang, gang-minimum, gang-same-numa-node, gang-other-numa-node, cpus, exclusive, l3, memory, numa-nodes, devices or functions (did you mean "berth.dev/policy"?)`},
		"negative count":   {"{kind: Deployment, apiVersion: apps/v1, metadata: {name: d}, spec: {replicas: -1, template: {spec: {containers: [{name: c}]}}}}", `spec.replicas: "-1"`},
		"too many":         {"{kind: Deployment, apiVersion: apps/v1, metadata: {name: d}, spec: {replicas: 20000, template: {spec: {containers: [{name: c}]}}}}", `0 to 10000 pods`},
		"in a template":    {"{kind: Job, apiVersion: batch/v1, metadata: {name: j}, spec: {template: {spec: {containers: []}}}}", `Job j: spec.template.spec.containers`},
		"pod's own amount": {pod("{resources: {limits: {cpu: 1}, requests: {cpu: 2}}, containers: [{name: c}]}"), `spec.resources.requests[cpu]: "2"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := readText(c.doc)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that contains %q", err, c.want)
			}
		})
	}
}

func TestRefusalsAreFieldErrors(t *testing.T) {
	_, _, err := readText("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {}}")
	if wrong := new(wire.FieldError); !errors.As(err, &wrong) || wrong.Object != "Pod p" || wrong.Field != "spec.containers" {
		t.Errorf("got %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}]}}\n---\n{kind: List, apiVersion: v1, items: [{kind: Job}]}")
	f.Add("{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 2, template: {spec: {containers: [{name: c, resources: {limits: {cpu: 1}}}]}}}}")
	f.Fuzz(func(t *testing.T, doc string) {
		templates, _, err := readText(doc)
		if (err == nil) != (len(templates) > 0) {
			t.Errorf("%d templates with error %v", len(templates), err)
		}
		for i := range templates {
			if n := len(templates[i].Pods()); n != templates[i].Replicas || n > MaxPods {
				t.Errorf("%d pods, %d replicas", n, templates[i].Replicas)
			}
		}
	})
}
