package manifest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/wire"
)

// readText reads a text as standard input. Errors of a document are among the notes.
func readText(doc string) ([]Template, []string, error) {
	pods, err := Source{Paths: []string{"-"}, Stdin: strings.NewReader(doc)}.Read()
	if err != nil {
		return nil, nil, err
	}
	return pods.Templates, pods.Notes, nil
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
	if want := "Deployment d: counted as 3 pods|CronJob d: counted as 2 pods|skipped, as they contain no pods: 1 Ingress, 2 Service"; strings.Join(notes, "|") != want {
		t.Errorf("notes %q, want %q", strings.Join(notes, "|"), want)
	}
	if cpu := templates[0].Pod.Spec.Containers[0].Resources.Limits.Cpu().Value(); cpu != 4 {
		t.Errorf("cpu limit %d, want 4", cpu)
	}
}

// owned returns the metadata of an object with an owner.
func owned(name, uid, apiVersion, kind, owner, ownerUID string) string {
	return fmt.Sprintf("{name: %s, uid: %q, ownerReferences: [{apiVersion: %s, kind: %s, name: %s, uid: %q, controller: true}]}", name, uid, apiVersion, kind, owner, ownerUID)
}

// TestExports: every form of an export gives the same pods. Pods and Jobs that have ended give
// none. An object gives none if the export also contains its pods, or an object that it owns.
func TestExports(t *testing.T) {
	const spec = "spec: {containers: [{name: c}]}"
	const template = "template: {" + spec + "}"
	pod := func(meta, status string) string {
		return "{apiVersion: v1, kind: Pod, metadata: " + meta + ", spec: {nodeName: n1, containers: [{name: c}]}, status: " + status + "}"
	}
	running := func(meta string) string { return pod(meta, "{phase: Running}") }
	deployment := "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, uid: d}, spec: {replicas: 3, " + template + "}}"
	replicas := "{apiVersion: apps/v1, kind: ReplicaSet, metadata: " + owned("web-1", "r", "apps/v1", "Deployment", "web", "d") + ", spec: {replicas: 2, " + template + "}}"
	const tasks = "spec: {minAvailable: 1, tasks: [{name: master, replicas: 1, " + template + "}, {replicas: 2, topologyPolicy: restricted, " + template + "}]}"
	const vcjob = "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: mpi}, " + tasks + "}"
	for name, c := range map[string]struct {
		docs        []string
		want, notes string
	}{
		"ended pods": {[]string{pod("{name: a}", "{phase: Succeeded}"), pod("{name: b}", "{phase: Failed, reason: Evicted}"), running("{name: c}"), pod("{name: d}", "{phase: Pending}"), pod("{name: e, deletionTimestamp: '2026-01-01T00:00:00Z'}", "{phase: Running}")},
			"c d e", "left out, as they have ended and hold nothing: 2 Pod"},
		"an ended Job and its CronJob": {[]string{"{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {" + template + "}, status: {conditions: [{type: Complete, status: 'True'}]}}", running("{name: c}")},
			"c", "left out, as they have ended and hold nothing: 1 Job"},
		"a Job at work":             {[]string{"{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {" + template + "}, status: {conditions: [{type: Complete, status: 'False'}]}}"}, "j", ""},
		"an ended Job of Volcano's": {[]string{strings.TrimSuffix(vcjob, "}") + ", status: {state: {phase: Completed}}}", running("{name: c}")}, "c", "left out, as they have ended and hold nothing: 1 Job"},
		"an owner of pods": {[]string{deployment, replicas, running(owned("web-1-a", "p", "apps/v1", "ReplicaSet", "web-1", "r"))},
			"web-1-a", "not counted again, as the input contains the objects that they own: Deployment web, ReplicaSet web-1"},
		"an owner of an owner":             {[]string{replicas, deployment}, "web-1-0 web-1-1", "ReplicaSet web-1: counted as 2 pods|not counted again, as the input contains the objects that they own: Deployment web"},
		"an owner of old ones":             {[]string{strings.Replace(replicas, "replicas: 2", "replicas: 0", 1), deployment}, "web-0 web-1 web-2", "ReplicaSet web-1: counted as 0 pods|Deployment web: counted as 3 pods"},
		"the owner's name, another object": {[]string{strings.Replace(replicas, `uid: "d"`, `uid: "x"`, 1), deployment}, "web-1-0 web-1-1 web-0 web-1 web-2", "ReplicaSet web-1: counted as 2 pods|Deployment web: counted as 3 pods"},
		"an owner in another group":        {[]string{running(owned("j-a", "p", "batch.volcano.sh/v1alpha1", "Job", "j", "x")), "{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {" + template + "}}"}, "j-a j", ""},
		"Volcano's Job and a pod of it":    {[]string{vcjob, running(owned("mpi-master-0", "p", "batch.volcano.sh/v1alpha1", "Job", "mpi", "x"))}, "mpi-master-0", "not counted again, as the input contains the objects that they own: Job mpi"},
		"owners in a circle": {[]string{"{apiVersion: apps/v1, kind: ReplicaSet, metadata: " + owned("a", "a", "apps/v1", "ReplicaSet", "a", "a") + ", spec: {" + template + "}}", running("{name: c}")},
			"c", "not counted again, as the input contains the objects that they own: ReplicaSet a"},
		"the same object twice": {[]string{running("{name: a, uid: u}"), running("{name: a, uid: u}")}, "a", "repeated in the input, and counted once: 1 object"},
		"networks of Multus": {[]string{"{apiVersion: v1, kind: Pod, metadata: {name: a, annotations: {k8s.v1.cni.cncf.io/networks: net1}}, spec: {containers: [{name: c}]}}",
			"{apiVersion: v1, kind: Pod, metadata: {name: b, uid: b, annotations: {k8s.v1.cni.cncf.io/networks: net1}}, spec: {containers: [{name: c}]}}"},
			"a b", "ignored: Pod a: metadata.annotations[k8s.v1.cni.cncf.io/networks]: devices that a webhook adds for networks do not count"},
		"keys without effect": {[]string{"{apiVersion: v1, kind: Pod, metadata: {name: a, annotations: {gpu-fraction: '0.5'}}, spec: {schedulerName: kai-scheduler, containers: [{name: c}]}}"}, "a", "ignored: Pod a: metadata: annotations of KAI: gpu-fraction (Berth hands out whole devices: ask for them in resources.limits)"},
		"a RuntimeClass": {[]string{"{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {runtimeClassName: kata, containers: [{name: c}]}}", "{apiVersion: v1, kind: Pod, metadata: {name: b, uid: b}, spec: {runtimeClassName: kata, containers: [{name: c}]}}",
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, uid: d}, spec: {template: {spec: {runtimeClassName: kata, containers: [{name: c}]}}}}"},
			"a b d", "ignored: Pod a: spec.runtimeClassName: an overhead or node selector of RuntimeClass kata does not count: want the RuntimeClass in the files too (kubectl get runtimeclass kata -o yaml)|ignored: Deployment d: spec.template.spec.runtimeClassName: an overhead or node selector of RuntimeClass kata does not count: want the RuntimeClass in the files too (kubectl get runtimeclass kata -o yaml)"},
		"a newer API server's":    {[]string{running("{name: a, uid: u, shard: 4}")}, "a", `ignored, as this release does not know the field: Pod a: metadata.shard: "4": want a known field`},
		"Volcano's Job":           {[]string{vcjob}, "mpi-master-0 mpi-default1-0:restricted mpi-default1-1:restricted", "Job mpi: counted as 3 pods"},
		"claims of a StatefulSet": {[]string{"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: kafka}, spec: {volumeClaimTemplates: [{metadata: {name: data}}], template: {spec: {containers: [{name: c, volumeMounts: [{name: data, mountPath: /d}]}]}}}}"}, "kafka-0", ""},
		"claims of custom workloads": {[]string{
			"{apiVersion: apps.kruise.io/v1beta1, kind: StatefulSet, metadata: {name: kafka}, spec: {volumeClaimTemplates: [{metadata: {name: data}}], template: {spec: {containers: [{name: c, volumeMounts: [{name: data, mountPath: /d}]}]}}}}",
			"{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: s}, spec: {volumeClaimPolicies: [{templates: [{metadata: {name: data}}]}], replicatedJobs: [{name: w, template: {spec: {template: {spec: {containers: [{name: c, volumeMounts: [{name: data, mountPath: /d}]}]}}}}}]}}",
		}, "kafka s-w", ""},
		"a Rollout of a Deployment": {[]string{"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: r}, spec: {replicas: 2, workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}", deployment},
			"web-0 web-1 web-2", "Rollout r: counted as 0 pods|Deployment web: counted as 3 pods|ignored: Rollout r: spec.workloadRef: the workload that it names counts, with its own replicas"},
		"generateName": {[]string{strings.Replace(vcjob, "name: mpi}", "generateName: mpi-}", 1), "{apiVersion: batch/v1, kind: Job, metadata: {generateName: j-}, spec: {" + template + "}}"}, "mpi-master-0 mpi-default1-0:restricted mpi-default1-1:restricted j", "Job mpi-: counted as 3 pods"},
		"networks": {[]string{"{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: a}, spec: {networkTopology: {mode: hard, highestTierAllowed: 2}, tasks: [{name: w, replicas: 1, partitionPolicy: {totalPartitions: 1, partitionSize: 1}, " + template + "}]}}"},
			"a-w-0", "ignored: Job a: spec.networkTopology: Berth does not look at the network|ignored: Job a: spec.tasks[0].partitionPolicy: Berth does not look at the network"},
		"custom workloads": {[]string{
			"{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, metadata: {name: k}, spec: {replicas: 2, " + template + "}}",
			"{apiVersion: apps.kruise.io/v1alpha1, kind: DaemonSet, metadata: {name: ds}, spec: {replicas: x, y: 1, " + template + "}}",
			"{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: p}, spec: {pytorchReplicaSpecs: {Worker: {replicas: 1, " + template + "}, Master: {" + template + "}}}}",
			"{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: s}, spec: {replicatedJobs: [{name: w, replicas: 2, template: {spec: {parallelism: 2, " + template + "}}}]}}",
		}, "k-0 k-1 ds p-master p-worker s-w-0 s-w-1 s-w-2 s-w-3", "CloneSet k: counted as 2 pods|PyTorchJob p: counted as 2 pods|JobSet s: counted as 4 pods"},
		"kinds that are not read": {[]string{"{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: s}, spec: {" + template + "}}", "{apiVersion: ray.io/v1, kind: RayCluster, spec: {a: [{" + spec + "}]}}", "{apiVersion: v1, kind: Service}", running("{name: c}")},
			"c", "skipped, as these kinds are not read: 1 RayCluster of ray.io, 1 Service of serving.knative.dev|skipped, as they contain no pods: 1 Service"},
	} {
		t.Run(name, func(t *testing.T) {
			for form, text := range map[string]string{
				"documents": strings.Join(c.docs, "\n---\n"), "a List": "{apiVersion: v1, kind: List, items: [" + strings.Join(c.docs, ", ") + "]}",
				"a sequence": "- " + strings.Join(c.docs, "\n- "), "JSON one by one": asJSON(t, c.docs, "\n"), "a JSON array": "[" + asJSON(t, c.docs, ",") + "]",
			} {
				templates, notes, err := readText(text)
				if err != nil {
					t.Fatalf("%s: %v", form, err)
				}
				var got []string
				for i := range templates {
					for _, p := range templates[i].Pods() {
						name := p.Name
						if policy := p.Annotations[wire.VolcanoPolicyAnnotation]; policy != "" {
							name += ":" + policy
						}
						got = append(got, name)
					}
				}
				if strings.Join(got, " ") != c.want || strings.Join(notes, "|") != c.notes {
					t.Errorf("%s: %q, notes %q\nwant %q, %q", form, strings.Join(got, " "), strings.Join(notes, "|"), c.want, c.notes)
				}
			}
		})
	}
}

// asJSON converts documents to JSON.
func asJSON(t *testing.T, docs []string, separator string) string {
	var out []string
	for _, doc := range docs {
		data, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatal(doc, err)
		}
		out = append(out, string(data))
	}
	return strings.Join(out, separator)
}

// TestTypedList: an answer of the API server has kind and version only once.
func TestTypedList(t *testing.T) {
	templates, _, err := readText(`{"kind": "JobList", "apiVersion": "batch.volcano.sh/v1alpha1", "items": [{"metadata": {"name": "a"}, "spec": {"tasks": [{"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}]}}]}`)
	if err != nil || len(templates) != 1 || templates[0].Pod.Name != "a-t-0" {
		t.Errorf("%+v, %v", templates, err)
	}
}

// TestBadNamesItsOwnForm: an error does not name the form of another document.
func TestBadNamesItsOwnForm(t *testing.T) {
	const text = "apiVersion: karpenter.sh/v1\nkind: NodePool\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {}\n"
	_, err := Source{Paths: []string{"-"}, Stdin: strings.NewReader(text)}.Read()
	if err == nil || !strings.Contains(err.Error(), "document 2: Pod a: spec.containers") || strings.Contains(err.Error(), "Karpenter") {
		t.Errorf("got %v, want an error only about the Pod", err)
	}
}

// TestBad: a wrong document does not affect the others, wherever it is. If there are many, only
// some are named.
func TestBad(t *testing.T) {
	const good = "{apiVersion: v1, kind: Pod, metadata: {name: good}, spec: {containers: [{name: c}]}}"
	for name, c := range map[string]struct {
		text, want string
		wrong      int
	}{
		"a pod":      {"{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {}}\n---\n" + good, "not read: stdin: document 1: Pod a: spec.containers", 1},
		"the last":   {good + "\n---\nkind: {", "not read: stdin: document 2: object: ", 1},
		"Markdown":   {"```yaml\nkind: Pod\n```\n---\n" + good, "; line 1 is a fence of Markdown: want only the text inside of the fences", 1},
		"lstopo":     {"Machine (63GB total)\n  Package L#0\n---\n" + good, "want an object; this is the output of lstopo", 1},
		"a template": {"kind: Pod\nx: {{ .Values.x }}\n---\n" + good, "; line 2 has {{ of a template: want the result", 1},
		"no YAML":    {"kind: {\n---\n" + good, "not read: stdin: document 1: object: ", 1},
		"an item":    {"{apiVersion: v1, kind: List, items: [{kind: Pod}, " + good + "]}", "not read: stdin: document 1: items[0]: Pod", 1},
		"many":       {strings.Repeat("kind: 1\n---\n", 50) + good, "or List|not read: 40 more documents", 50},
		"many items": {"{kind: List, items: [" + strings.Repeat("{kind: 1},", 50) + good + "]}", "and 40 more items", 1},
	} {
		t.Run(name, func(t *testing.T) {
			pods, err := Source{Paths: []string{"-"}, Stdin: strings.NewReader(c.text)}.Read()
			if err != nil || len(pods.Templates) != 1 || pods.Templates[0].Pod.Name != "good" || pods.Wrong != c.wrong {
				t.Fatalf("%+v, error %v: want one pod, and %d wrong documents", pods, err, c.wrong)
			}
			if all := strings.Join(pods.Notes, "|"); !strings.Contains(all, c.want) || len(pods.Notes) > 11 {
				t.Errorf("notes: %s, want %q", all, c.want)
			}
		})
	}
	if _, _, err := readText("{kind: Pod}"); err == nil || !strings.Contains(err.Error(), `document 1: Pod: apiVersion`) {
		t.Errorf("nothing is left: error %v, want that of the document", err)
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
		pods, err := c.source.Read()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range pods.Templates {
			names = append(names, p.Pod.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%v: %q, want %q", c.source.Paths, got, c.want)
		}
	}
	for path, want := range map[string]string{
		"https://example.com/a.yaml": "to read a URL, use curl URL", filepath.Join(dir, "none"): "no such file", filepath.Join(folder, "deep", "x"): "no such file",
	} {
		if _, err := (Source{Paths: []string{path}}).Read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
	}
}

// TestGangOfBoundPod: a running pod counts, whatever its gang.
func TestGangOfBoundPod(t *testing.T) {
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {berth.dev/gang: g}}\nspec: {nodeName: n1, containers: [{name: c}]}\n"
	pods, err := Source{Paths: []string{"-"}, Stdin: strings.NewReader(text)}.Read()
	if err != nil || len(pods.Templates) != 1 {
		t.Errorf("%+v, %v", pods, err)
	}
}

func TestReadRefuses(t *testing.T) {
	pod := func(spec string) string { return "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: " + spec }
	resources := func(r string) string { return pod("{containers: [{name: x, resources: " + r + "}]}") }
	for name, c := range map[string]struct{ doc, want string }{
		"nothing":          {"", "no pods in it"},
		"only others":      {"{kind: Service, apiVersion: v1}", "no pods in it; skipped, as they contain no pods: 1 Service"},
		"a node":           {"{kind: Node, apiVersion: v1, metadata: {name: n}}", "no pods in it; skipped, as they contain no pods: 1 Node"},
		"no kind":          {"metadata: {name: x}", `object x: kind: "": want Pod`},
		"a description":    {"Name:         a\nNamespace:    default\nPriority:     0\n", `this is the output of kubectl describe: want the output of kubectl get -o yaml`},
		"a table":          {"NAME   READY\na      1/1\n", `this is a table of kubectl: want the output of kubectl get -o yaml`},
		"no apiVersion":    {"{kind: Pod, metadata: {name: p}}", `Pod p: apiVersion: "": want v1`},
		"wrong apiVersion": {"{kind: Deployment, apiVersion: app/v1, metadata: {name: p}}", `Deployment p: apiVersion: "app/v1": want apps/v1`},
		"old apiVersion":   {"{kind: CronJob, apiVersion: batch/v1beta1, metadata: {name: p}}", `CronJob p: apiVersion: "batch/v1beta1": want batch/v1`},
		"another group":    {"{kind: Pod, apiVersion: berth.io/v9, metadata: {name: p}}", `no pods in it; skipped, as these kinds are not read: 1 Pod of berth.io`},
		"Volcano's Job": {"{kind: Job, apiVersion: batch.volcano.sh/v1alpha1, metadata: {name: j}, spec: {tasks: []}}",
			`Job j: spec.tasks: "": want at least one task`},
		"a task's name twice": {"{kind: Job, apiVersion: batch.volcano.sh/v1alpha1, metadata: {name: j}, spec: {tasks: [{name: default1, replicas: 1}, {replicas: 1}]}}",
			`Job j: spec.tasks[1].name: "default1": want a name that no other task has`},
		"a task's minimum": {"{kind: Job, apiVersion: batch.volcano.sh/v1alpha1, metadata: {name: j}, spec: {tasks: [{replicas: 2, minAvailable: 5}]}}",
			`Job j: spec.tasks[0].minAvailable: "5": want 0 to 2, the task's replicas`},
		"a Job's minimum": {"{kind: Job, apiVersion: batch.volcano.sh/v1alpha1, metadata: {name: j}, spec: {minAvailable: 4, tasks: [{replicas: 2}, {replicas: 1}]}}",
			`Job j: spec.minAvailable: "4": want 0 to 3, the number of pods of all tasks`},
		"a task's misspelt field": {"{kind: Job, apiVersion: batch.volcano.sh/v1alpha1, metadata: {name: j}, spec: {tasks: [{replica: 3, template: {spec: {containers: [{name: c}]}}}]}}",
			`Job j: spec.tasks[0].replica: "3": want a known field (did you mean "replicas"?)`},
		"a task's wrong type": {"{kind: Job, apiVersion: batch.volcano.sh/v1alpha1, metadata: {name: j}, spec: {tasks: [{replicas: 1, policies: [{events: PodFailed}], template: {spec: {containers: [{name: c}]}}}]}}",
			`Job j: spec.tasks[0].policies[0].events: "PodFailed": want a list`},
		"a task's replicas": {"{kind: Job, apiVersion: batch.volcano.sh/v1alpha1, metadata: {name: j}, spec: {tasks: [{replicas: -1, template: {spec: {containers: [{name: c}]}}}]}}",
			`Job j: spec.tasks[0].replicas: "-1": want 0 to 10000`},
		"a task's template": {"{kind: Job, apiVersion: batch.volcano.sh/v1alpha1, metadata: {name: j}, spec: {tasks: [{replicas: 1, template: {spec: {containers: [{name: C}]}}}]}}",
			`Job j: spec.tasks[0].template.spec.containers[0].name: "C"`},
		"no template":          {"{kind: Rollout, apiVersion: argoproj.io/v1alpha1, metadata: {name: r}, spec: {replicas: 2}}", `Rollout r: spec.template.spec.containers: ""`},
		"misspelt in a custom": {"{kind: CloneSet, apiVersion: apps.kruise.io/v1alpha1, metadata: {name: r}, spec: {template: {spec: {container: []}}}}", `CloneSet r: spec.template: spec.container: "[]": want a known field`},
		"misspelt replicas":    {"{kind: PyTorchJob, apiVersion: kubeflow.org/v1, metadata: {name: r}, spec: {pytorchReplicaSpecs: {Worker: {replica: 4, template: {spec: {containers: [{name: c}]}}}}}}", `PyTorchJob r: spec.pytorchReplicaSpecs[Worker].replica: "4": want a known field (did you mean "replicas"?)`},
		"misspelt parallelism": {"{kind: JobSet, apiVersion: jobset.x-k8s.io/v1alpha2, metadata: {name: r}, spec: {replicatedJobs: [{name: w, template: {spec: {paralelism: 3, template: {spec: {containers: [{name: c}]}}}}}]}}", `JobSet r: spec.replicatedJobs[0].template.spec.paralelism: "3": want a known field (did you mean "parallelism"?)`},
		"misspelt template":    {"{kind: CloneSet, apiVersion: apps.kruise.io/v1alpha1, metadata: {name: r}, spec: {Template: {spec: {containers: [{name: c}]}}}}", `CloneSet r: spec.Template: "{\"spec`},
		"misspelt tasks":       {"{kind: TFJob, apiVersion: kubeflow.org/v1, metadata: {name: r}, spec: {tfReplicaSpec: {}}}", `TFJob r: spec.tfReplicaSpec: "{}": want a known field (did you mean "tfReplicaSpecs"?)`},
		"half a replica":       {"{kind: TFJob, apiVersion: kubeflow.org/v1, metadata: {name: r}, spec: {tfReplicaSpecs: {Worker: {replicas: 0.5, template: {spec: {containers: [{name: c}]}}}}}}", `TFJob r: spec.tfReplicaSpecs[Worker].replicas: "0.5": want a whole number`},
		"no tasks":             {"{kind: TFJob, apiVersion: kubeflow.org/v1, metadata: {name: r}, spec: {}}", `TFJob r: spec.tfReplicaSpecs: "": want pod templates`},
		"misspelt kind":        {"{kind: Deploymnet, apiVersion: apps/v1, metadata: {name: d}}", `(did you mean "Deployment"?)`},
		"unknown field":        {pod("{container: []}"), `Pod p: spec.container: "[]": want a known field (did you mean "containers"?)`},
		"bad quantity":         {resources("{limits: {cpu: four}}"), `Pod p: spec.containers[0].resources.limits[cpu]: "four": want a quantity`},
		"item bad":             {"{kind: List, apiVersion: v1, items: [{metadata: {name: q}}]}", `items[0]: object q: kind`},
		"no containers":        {pod("{}"), `Pod p: spec.containers: "": want at least one container`},
		"twice a name":         {pod("{containers: [{name: x}, {name: x}]}"), `spec.containers[1].name: "x": want a name that no other`},
		"init name":            {pod("{containers: [{name: x}], initContainers: [{name: x}]}"), `spec.containers[0].name: "x"`},
		"no name":              {pod("{containers: [{}]}"), `spec.containers[0].name: ""`},
		"over limit":           {resources(`{requests: {cpu: "4"}, limits: {cpu: "2"}}`), `requests[cpu]: "4": want at most the limit, 2`},
		"page size":            {resources("{limits: {cpu: 1, hugepages-3Mi: 3Mi}}"), `limits[hugepages-3Mi]: "3Mi": want huge pages of a size that is a power of two`},
		"no multiple":          {resources("{limits: {cpu: 1, hugepages-2Mi: 3Mi}}"), `limits[hugepages-2Mi]: "3Mi": want a multiple of the page size, 2Mi`},
		"only huge pages":      {resources("{limits: {hugepages-2Mi: 2Mi}}"), `want cpu or memory in addition to huge pages`},
		"huge no limit":        {resources("{requests: {cpu: 1, hugepages-2Mi: 2Mi}}"), `want a limit too`},
		"broken device":        {resources("{limits: {foo.com/x: 1500m}}"), `limits[foo.com/x]: "1500m": want a whole number`},
		"uneven device":        {resources("{requests: {foo.com/x: 1}, limits: {foo.com/x: 2}}"), `requests[foo.com/x]: "1": want as much as the limit, 2`},
		"misspelt memory":      {resources("{limits: {memroy: 1Gi}}"), `limits[memroy]: "1Gi": want a resource named cpu, memory, ephemeral-storage, hugepages-SIZE or a name with a domain, like nvidia.com/gpu (did you mean "memory"?)`},
		"more than is read":    {resources("{limits: {cpu: 2M}}"), `Pod p: spec.containers[0].resources.limits[cpu]: "2M": want 0 to 1`},
		"reservation":          {strings.Replace(pod("{containers: [{name: c}]}"), "name: p", "name: p, annotations: {scheduling.koordinator.sh/reservation-affinity: x}", 1), `Pod p: metadata.annotations[scheduling.koordinator.sh/reservation-affinity]: "x": want JSON`},
		"negative":             {resources("{limits: {cpu: -1}}"), `limits[cpu]: "-1": want 0 or more`},
		"unclaimed":            {resources("{claims: [{name: gpu}]}"), `spec.containers[0].resources.claims[0].name: "gpu": want a name of spec.resourceClaims`},
		"unknown claim volume": {"{kind: StatefulSet, apiVersion: apps/v1, metadata: {name: s}, spec: {volumeClaimTemplates: [{metadata: {name: data}}], template: {spec: {containers: [{name: x, volumeMounts: [{name: dat, mountPath: /d}]}]}}}}",
			`spec.template.spec.containers[0].volumeMounts[0].name: "dat": want a name of spec.volumes (did you mean "data"?)`},
		"unknown volume":  {pod("{volumes: [{name: data}], containers: [{name: x, volumeMounts: [{name: dta, mountPath: /d}]}]}"), `spec.containers[0].volumeMounts[0].name: "dta": want a name of spec.volumes (did you mean "data"?)`},
		"twice a volume":  {pod("{volumes: [{name: a}, {name: a}], containers: [{name: x}]}"), `spec.volumes[1].name: "a": want a name that no other`},
		"bad name":        {strings.Replace(pod("{containers: [{name: c}]}"), "name: p", "name: P_1", 1), `Pod P_1: metadata.name: "P_1"`},
		"label":           {strings.Replace(pod("{containers: [{name: c}]}"), "name: p", "name: p, labels: {koordinator.sh/qosClass: ' LSR'}", 1), `Pod p: metadata.labels[koordinator.sh/qosClass]: " LSR": want a valid label: it must be an empty string or`},
		"misspelt policy": {strings.Replace(pod("{containers: [{name: c}]}"), "name: p", "name: p, annotations: {berth.dev/policy: singel}", 1), `Pod p: metadata.annotations[berth.dev/policy]: "singel": want none, best-effort`},
		"gang of no size": {strings.Replace(pod("{containers: [{name: c}]}"), "name: p", "name: p, annotations: {berth.dev/gang: g}", 1), `Pod p: metadata.annotations[berth.dev/gang-minimum]: "": want this annotation next to berth.dev/gang`},
		"gang of Koordinator": {strings.Replace(pod("{containers: [{name: c}]}"), "name: p", "name: p, annotations: {gang.scheduling.koordinator.sh/name: g, gang.scheduling.koordinator.sh/min-available: '2', gang.scheduling.koordinator.sh/mode: Strct}", 1),
			`Pod p: metadata.annotations[gang.scheduling.koordinator.sh/mode]: "Strct": want Strict or NonStrict`},
		"mate without a gang": {strings.Replace(pod("{containers: [{name: c}]}"), "name: p", "name: p, annotations: {berth.dev/gang-same-numa-node: q}", 1), `Pod p: metadata.annotations[berth.dev/gang-same-numa-node]: "q": want this annotation only on a pod of a gang`},
		"misspelt key":        {strings.Replace(pod("{containers: [{name: c}]}"), "name: p", "name: p, annotations: {berth.dev/polcy: none}", 1), `Pod p: metadata.annotations[berth.dev/polcy]: "none": want a key that Berth reads: berth.dev/policy, gang, gang-minimum, gang-same-numa-node, gang-other-numa-node, cpus, exclusive, l3, memory, numa-nodes, devices, functions or claims (did you mean "berth.dev/policy"?)`},
		"negative count":      {"{kind: Deployment, apiVersion: apps/v1, metadata: {name: d}, spec: {replicas: -1, template: {spec: {containers: [{name: c}]}}}}", `spec.replicas: "-1"`},
		"too many":            {"{kind: Deployment, apiVersion: apps/v1, metadata: {name: d}, spec: {replicas: 20000, template: {spec: {containers: [{name: c}]}}}}", `0 to 10000 pods`},
		"in a template":       {"{kind: Job, apiVersion: batch/v1, metadata: {name: j}, spec: {template: {spec: {containers: []}}}}", `Job j: spec.template.spec.containers`},
		"misspelt sidecar":    {pod("{initContainers: [{name: s, restartPolicy: always}], containers: [{name: c}]}"), `spec.initContainers[0].restartPolicy: "always": want Always, OnFailure or Never (did you mean "Always"?)`},
		"pod's own device":    {pod("{resources: {limits: {cpu: 1, nvidia.com/gpu: 1}}, containers: [{name: c}]}"), `spec.resources.limits[nvidia.com/gpu]: "1": want only cpu, memory and huge pages here`},
		"pod's own claim":     {pod("{resources: {claims: [{name: g}]}, containers: [{name: c}]}"), `spec.resources.claims: "g": want no claims here`},
		"above pod limit":     {pod("{resources: {limits: {cpu: 2}, requests: {cpu: 1}}, containers: [{name: c, resources: {requests: {cpu: 1}, limits: {cpu: 3}}}]}"), `spec.containers[0].resources.limits[cpu]: "3": want at most the limit in spec.resources, 2`},
		"above request":       {pod("{resources: {requests: {cpu: 2}}, containers: [{name: c, resources: {requests: {cpu: 1}}}, {name: d, resources: {limits: {cpu: 2}}}]}"), `spec.resources.requests[cpu]: "2": want at least what the containers request, 3`},
		"above by default":    {pod("{resources: {limits: {cpu: 2}}, containers: [{name: c, resources: {requests: {cpu: 1}}}, {name: d, resources: {requests: {cpu: 2}}}]}"), `spec.resources.limits[cpu]: "2": want at least what the containers request, 3`},
		"pod's own amount":    {pod("{resources: {limits: {cpu: 1}, requests: {cpu: 2}}, containers: [{name: c}]}"), `spec.resources.requests[cpu]: "2"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := readText(c.doc)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that contains %q", err, c.want)
			}
		})
	}
}

// TestRuntimeClass: a RuntimeClass in the input has the same effect on pods as the API server's
// admission. The order of the documents does not matter.
func TestRuntimeClass(t *testing.T) {
	const class = "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: kata}, handler: kata, overhead: {podFixed: {cpu: 250m, memory: 160Mi}}, " +
		"scheduling: {nodeSelector: {kata: \"yes\"}, tolerations: [{key: kata, operator: Exists}]}}"
	pod := func(more string) string {
		return "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {template: {spec: {runtimeClassName: kata, nodeSelector: {disk: fast}, containers: [{name: c}]" + more + "}}}}"
	}
	for _, docs := range [][]string{{class, pod("")}, {pod(""), class}, {class, pod(", overhead: {cpu: 250m, memory: 160Mi}")}} {
		templates, notes, err := readText(strings.Join(docs, "\n---\n"))
		if err != nil || len(templates) != 1 || len(notes) > 0 {
			t.Fatalf("%d templates, notes %q, error %v", len(templates), notes, err)
		}
		spec := &templates[0].Pod.Spec
		if got := spec.Overhead.Memory().String(); spec.Overhead.Cpu().MilliValue() != 250 || got != "160Mi" {
			t.Errorf("the overhead is %v and %s", spec.Overhead.Cpu(), got)
		}
		if len(spec.NodeSelector) != 2 || spec.NodeSelector["kata"] != "yes" || len(spec.Tolerations) != 1 {
			t.Errorf("node selector %v, tolerations %v", spec.NodeSelector, spec.Tolerations)
		}
	}
	for more, want := range map[string]string{
		", overhead: {cpu: 1}":                                `Deployment d: spec.template.spec.overhead[cpu]: "1": want 250m as in RuntimeClass kata, or no overhead`,
		", overhead: {cpu: 250m, ephemeral-storage: 1Gi}":     `spec.overhead[ephemeral-storage]: "1Gi": want 0 as in RuntimeClass kata, or no overhead`,
		", nodeSelector: {kata: no-kata}":                     `spec.nodeSelector[kata]: "no-kata": want yes as in RuntimeClass kata, or nothing`,
		", runtimeClassName: other, overhead: {memory: -1Gi}": `spec.overhead[memory]: "-1Gi": want 0 or more`,
	} {
		doc := pod(more)
		if _, key, _ := strings.Cut(more, "nodeSelector"); key != "" {
			doc = strings.Replace(doc, "nodeSelector: {disk: fast}, ", "", 1)
		}
		if strings.Contains(more, "other") {
			doc = strings.Replace(doc, "runtimeClassName: kata, ", "", 1)
		}
		if _, _, err := readText(class + "\n---\n" + doc); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", more, err, want)
		}
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
