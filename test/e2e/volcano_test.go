package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	nodeinfo "github.com/berth-dev/berth/api/nodeinfo/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/examples"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/wire"
)

// volcanoDocuments are the examples of Volcano's documents.
const volcanoDocuments = repository + "/test/volcano/documents"

// policyNode describes a node with 48 CPUs on two NUMA nodes whose Topology Manager has the policy.
func policyNode(t *testing.T, policy string) string {
	t.Helper()
	config := filepath.Join(t.TempDir(), policy+".yaml")
	if err := os.WriteFile(config, []byte(strings.Replace(ownConfig, "single-numa-node", policy, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return "name=" + policy + ",machine=package:2 numa:1 core:12 pu:2 mem:64Gi,64Gi,config=" + config
}

// TestVolcanoDocuments applies every example of Volcano's documents, unchanged, to the playground.
// Each behaves as its document says, on a node with the requested policy.
func TestVolcanoDocuments(t *testing.T) {
	t.Parallel()
	c := startPlayground(t, demo.Berth{Names: demo.SchedulerNames, Jobs: true}, policyNode(t, "best-effort"), policyNode(t, "single-numa-node"), policyNode(t, "none"))
	for _, name := range []string{"deployment.yaml", "job-best-effort.yaml", "job-reference.yaml"} {
		data, err := os.ReadFile(filepath.Join(volcanoDocuments, name))
		if err == nil {
			err = c.ControlPlane.Apply(t.Context(), data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	example, err := examples.Read("vcjob")
	if err == nil {
		err = c.ControlPlane.Apply(t.Context(), example)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{ // by prefix of the pod's name: its node, which is named like its policy
		"numa-tset-": "single-numa-node", "vj-test-test-0": "best-effort", "reference-default0-0": "best-effort",
		"vcjob-worker-0": "single-numa-node", "vcjob-worker-1": "single-numa-node", "vcjob-worker-2": "single-numa-node",
	}
	eventually(t, "every document's pods run on nodes of their policies", func() error {
		pods, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		return runAsDocumented(pods.Items, want)
	})
	client, err := dynamic.NewForConfig(c.ControlPlane.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"vj-test", "reference", "vcjob"} {
		eventually(t, "Job "+name+" is Running, and so is its PodGroup", func() error { return jobRuns(t, client, name) })
	}
	testColumns(t, c)
	testRefusals(t, c, client)
	foreground := metav1.DeletePropagationForeground
	for _, name := range []string{"vj-test", "reference", "vcjob"} {
		if err := client.Resource(batch.Jobs).Namespace(metav1.NamespaceDefault).Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "what the Jobs made goes with them", func() error {
		pods, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{LabelSelector: batch.JobNameKey})
		if err != nil || len(pods.Items) > 0 {
			return fmt.Errorf("%d pods, %w", len(pods.Items), err)
		}
		groups, err := client.Resource(volcano.PodGroups).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(groups.Items) > 0 {
			return fmt.Errorf("%d PodGroups, %w", len(groups.Items), err)
		}
		return nil
	})
}

// runAsDocumented returns an error unless the pods run on the wanted nodes, with a placement.
func runAsDocumented(pods []corev1.Pod, want map[string]string) error {
	var wrong []string
	for prefix, node := range want {
		i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return strings.HasPrefix(p.Name, prefix) })
		if i < 0 {
			wrong = append(wrong, prefix+" is not there")
			continue
		}
		p := &pods[i]
		placed, found, err := wire.ReadPlacement(p)
		if !found || err != nil || p.Spec.NodeName != node || p.Status.Phase != corev1.PodRunning || p.Annotations[wire.VolcanoPolicyAnnotation] != node {
			wrong = append(wrong, fmt.Sprintf("%s on %q (%s, policy %q, decision %v %v %s): want it on %s", p.Name, p.Spec.NodeName, p.Status.Phase,
				p.Annotations[wire.VolcanoPolicyAnnotation], found, err, placed.Certainty, node))
		}
	}
	if len(pods) != len(want) {
		wrong = append(wrong, fmt.Sprintf("%d pods: want %d", len(pods), len(want)))
	}
	if wrong != nil {
		return fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return nil
}

// jobRuns returns an error unless a Job and its PodGroup are Running.
func jobRuns(t *testing.T, client dynamic.Interface, name string) error {
	job, err := client.Resource(batch.Jobs).Namespace(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	phase, _, _ := unstructured.NestedString(job.Object, "status", "state", "phase")
	groups, err := client.Resource(volcano.PodGroups).Namespace(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(groups.Items, func(g unstructured.Unstructured) bool {
		return len(g.GetOwnerReferences()) == 1 && g.GetOwnerReferences()[0].UID == job.GetUID()
	})
	if i < 0 {
		return fmt.Errorf("phase %q, and no PodGroup", phase)
	}
	group, _, _ := unstructured.NestedString(groups.Items[i].Object, "status", "phase")
	if phase != string(batch.Running) || group != string(volcano.PodGroupRunning) {
		return fmt.Errorf("phase %q, PodGroup %q", phase, group)
	}
	return nil
}

// testColumns reads the kinds by their short names, as kubectl get does.
func testColumns(t *testing.T, c *demo.Cluster) {
	names := map[string]string{"jobs.batch.volcano.sh": "vcjob vj", "podgroups.scheduling.volcano.sh": "pg podgroup-v1beta1", "numatopologies.nodeinfo.volcano.sh": "numatopo"}
	_, lists, err := c.Client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lists {
		for _, r := range l.APIResources {
			_, group, _ := strings.Cut("/"+l.GroupVersion, "/")
			full := r.Name + "." + strings.Split(group, "/")[0]
			if want, ok := names[full]; ok && strings.Join(r.ShortNames, " ") != want {
				t.Errorf("%s: short names %v, want %s", full, r.ShortNames, want)
			}
		}
	}
	for path, want := range map[string]string{
		"/apis/" + batch.GroupVersion.String() + "/namespaces/default/jobs":        "Name STATUS minAvailable RUNNINGS AGE REASON MESSAGE QUEUE",
		"/apis/" + volcano.GroupVersion.String() + "/namespaces/default/podgroups": "Name STATUS minMember RUNNINGS AGE",
		"/apis/" + nodeinfo.GroupVersion.String() + "/numatopologies":              "Name POLICY CPUS FREE AGE",
	} {
		data, err := c.Client.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Raw()
		if err != nil {
			t.Fatal(err)
		}
		var table metav1.Table
		if err := json.Unmarshal(data, &table); err != nil {
			t.Fatal(err)
		}
		var columns []string
		for _, column := range table.ColumnDefinitions {
			columns = append(columns, column.Name)
		}
		if got := strings.Join(columns, " "); got != want {
			t.Errorf("%s: columns %s, want %s", path, got, want)
		}
		for _, row := range table.Rows {
			if row.Cells[1] == nil {
				t.Errorf("%s: a row lacks its status: %v", path, row.Cells)
			}
		}
	}
}

// testRefusals sends objects that can only be mistakes to the API server, with dry runs.
func testRefusals(t *testing.T, c *demo.Cluster, client dynamic.Interface) {
	part := pinnedPod("part", "", "1500m")
	part.Annotations = map[string]string{wire.VolcanoPolicyAnnotation: "restricted"}
	unknown := pinnedPod("unknown", "", "2")
	unknown.Annotations = map[string]string{wire.VolcanoPolicyAnnotation: "restrictd"}
	create := func(pod *corev1.Pod) error {
		_, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	const want = "metadata.annotations[volcano.sh/numa-topology-policy]: \"restri"
	eventually(t, "a refusal: "+want, func() error {
		if err := create(unknown); err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("answered %v", err)
		}
		return nil
	})
	if err := create(part); err != nil { // the pod has no exclusive CPUs, so the policy has no effect
		t.Errorf("a pod with part of a CPU: %v, want it to pass as Volcano lets it", err)
	}
	jobs := client.Resource(batch.Jobs).Namespace(metav1.NamespaceDefault)
	job := func(policy, cpu string, replicas int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": batch.GroupVersion.String(), "kind": "Job", "metadata": map[string]any{"name": "refused"},
			"spec": map[string]any{"tasks": []any{map[string]any{"name": "t", "replicas": replicas, "topologyPolicy": policy, "template": map[string]any{
				"spec": map[string]any{"containers": []any{map[string]any{
					"name": "c", "image": "i", "resources": map[string]any{"limits": map[string]any{"cpu": cpu, "memory": "1Gi"}}}}}}}}},
		}}
	}
	for want, wrong := range map[string]*unstructured.Unstructured{
		"spec.tasks[0].topologyPolicy: Unsupported value": job("strict", "2", 1),
		"resources.limits.cpu of t/c: want a whole":       job("restricted", "500m", 1),
		"spec.tasks[0].replicas: Invalid value: 100000":   job("restricted", "2", 100_000),
	} {
		eventually(t, "a refusal: "+want, func() error {
			_, err := jobs.Create(t.Context(), wrong, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("answered %v", err)
			}
			return nil
		})
	}
	running, err := jobs.Get(t.Context(), "vcjob", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tasks, _, _ := unstructured.NestedSlice(running.Object, "spec", "tasks")
	tasks[0].(map[string]any)["topologyPolicy"] = "best-effort"
	if err := unstructured.SetNestedSlice(running.Object, tasks, "spec", "tasks"); err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.Update(t.Context(), running, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}); err == nil || !strings.Contains(err.Error(), "spec.tasks: only replicas") {
		t.Errorf("a running Job's policy was changed: %v", err)
	}
}
