package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/examples"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

const ownConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: single-numa-node
reservedSystemCPUs: "0"
`

// startPlayground starts a playground from the command line's descriptions of nodes.
func startPlayground(t *testing.T, s demo.Scheduler, nodes ...string) *demo.Cluster {
	t.Helper()
	opts := demoOptions(t, 1)
	for _, text := range nodes {
		spec, err := demo.ParseNode(text)
		if err != nil {
			t.Fatal(err)
		}
		opts.Own = append(opts.Own, spec)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	c, err := demo.StartPlayground(ctx, opts, s)
	if err != nil {
		t.Fatal(err)
	}
	atEnd(t, c.Stop)
	return c
}

// TestPlayground runs the playground's examples on a node from a description. They run with each
// name of the scheduler, and the pods of a Deployment are deleted with it.
func TestPlayground(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "kubelet.yaml")
	if err := os.WriteFile(config, []byte(ownConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startPlayground(t, demo.Berth{Names: demo.SchedulerNames},
		"name=mine,machine=package:2 numa:1 core:24 pu:2 mem:64Gi,64Gi,config="+config+",device=nvidia.com/gpu=0:2,1:4,device=rdma/hca=1:1")
	ctx := t.Context()
	pinned, strict, gpu := &appsv1.Deployment{}, &batchv1.Job{}, &corev1.Pod{}
	for name, into := range map[string]any{"pinned": pinned, "strict": strict, "gpu": gpu} {
		readExample(t, name, into)
	}
	strict.Spec.Template.Spec.SchedulerName = "berth"
	create := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ns := metav1.NamespaceDefault
	create(c.Client.AppsV1().Deployments(ns).Create(ctx, pinned, metav1.CreateOptions{}))
	create(c.Client.BatchV1().Jobs(ns).Create(ctx, strict, metav1.CreateOptions{}))
	create(c.Client.CoreV1().Pods(ns).Create(ctx, gpu, metav1.CreateOptions{}))
	eventually(t, "2 pods of the Deployment, 4 of the Job and one more run with decisions", func() error {
		return runWithDecisions(t, c, 7)
	})
	err := c.Client.AppsV1().Deployments(ns).Delete(ctx, "pinned", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pods of the deleted Deployment are gone", func() error {
		pods, err := c.Client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: "app=pinned"})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d are there", len(pods.Items))
		}
		return err
	})
}

func readExample(t *testing.T, name string, into any) {
	t.Helper()
	data, err := examples.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatalf("example %s: %v", name, err)
	}
}

func runWithDecisions(t *testing.T, c *demo.Cluster, want int) error {
	t.Helper()
	pods, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	n, states := 0, ""
	for i := range pods.Items {
		p := &pods.Items[i]
		_, found, err := wire.ReadPlacement(p)
		if err == nil && found && p.Status.Phase == corev1.PodRunning {
			n++
		}
		states += fmt.Sprintf("%s %s decision:%v; ", p.Name, p.Status.Phase, found)
	}
	if n != want || len(pods.Items) != want {
		return errors.New(states)
	}
	return nil
}

// TestScenes runs every scene to its end, and checks that it shows its behaviour.
func TestScenes(t *testing.T) {
	shows := map[string]string{
		"nowhere": "50 CPUs need 2 NUMA nodes", "two-gangs": "2 of 3 pods fit", "gpus-apart": "takes its place on", "silent-agent": wire.NoSignOfLife,
	}
	for i := range demo.Scenes {
		scene := &demo.Scenes[i]
		t.Run(scene.Name, func(t *testing.T) {
			t.Parallel()
			opts := demoOptions(t, 1)
			opts.Nodes, opts.Own = scene.Nodes, scene.Own
			ctx, cancel := context.WithTimeout(t.Context(), startLimit)
			defer cancel()
			c, err := demo.StartPlayground(ctx, opts, scene.Berth)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := scene.Play(t.Context(), c, &out); err != nil {
				t.Error(err)
			}
			if err := c.Stop(); err != nil {
				t.Error(err)
			}
			if want := shows[scene.Name]; want == "" || !strings.Contains(out.String(), want) {
				t.Errorf("the scene does not show %q:\n%s", want, &out)
			}
			t.Log(out.String())
		})
	}
}

// TestWrongNodes: the error for an impossible node is one sentence with the key, the value and a
// correct value.
func TestWrongNodes(t *testing.T) {
	dir := t.TempDir()
	cut := filepath.Join(dir, "cut.tgz")
	if err := os.WriteFile(cut, []byte{0x1f, 0x8b, 8, 0}, 0o600); err != nil {
		t.Fatal(err)
	}
	config := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "name=a,machine=package:1 numa:1 core:4 pu:1 mem:4Gi,config=" + path
	}
	for _, c := range []struct{ text, want string }{
		{"", "want name=NAME,machine="},
		{"xeon", "want name=NAME,machine="},
		{"name=a", "want either machine= or capture="},
		{"name=a,machine=package:1 numa:1 core:1 pu:1,capture=x", "want either machine= or capture="},
		{"machine=package:1 numa:1 core:1 pu:1", "name= is missing"},
		{"machine=package:1 numa:1 core:1 pu:1 dev:3b:00.0,020000,8086:1593,name=eth0", "name= is missing"},
		{"name=A_b,machine=package:1 numa:1 core:1 pu:1", "name=A_b: "},
		{"name=a,name=b,machine=package:1 numa:1 core:1 pu:1", "name= is given twice"},
		{"name=a,machine=package:two", "machine=package:two: "},
		{"name=a,capture=" + cut, "capture=" + cut + ": archive " + cut + ": the file is incomplete"},
		{"name=a,capture=" + filepath.Join(dir, "none"), "no such file"},
		{"name=a,machine=package:1 numa:1 core:1 pu:1,config=" + dir, "is a directory"},
		{"name=a,machine=package:1 numa:1 core:4 pu:1", "has no memory: want mem:SIZE"},
		{"name=a,machine=package:1 numa:1 core:4 pu:1 mem:64", "want at least 1Mi for each NUMA node, such as mem:64Gi"},
		{config("policy", "cpuManagerPolicy: sometimes\n"), `cpuManagerPolicy: "sometimes"`},
		{config("reserved", "cpuManagerPolicy: static\n"), "reserve"},
		{config("broken", "cpuManagerPolicy: [static\n"), "broken: "},
		{config("field", "cpuManagrPolicy: static\n"), "cpuManagrPolicy"},
		{config("gate", "featureGates: {CPUManagr: true}\n"), "featureGates[CPUManagr]"},
		{"name=a,machine=package:1 numa:1 core:1 pu:1,device=gpu", "want RESOURCE=NUMA:COUNT"},
		{"name=a,machine=package:1 numa:1 core:1 pu:1,device=x/gpu=0:many", `"0:many": want NUMA:COUNT`},
		{"name=a,machine=package:1 numa:1 core:1 pu:1,device=x/gpu=0:5000", "at most 4096"},
		{"name=a,machine=package:1 numa:2 core:1 pu:1,device=x/gpu=0:1,device=x/gpu=1:1", "device=x/gpu=1:1: x/gpu is given twice"},
		{"name=a,machine=package:1 numa:1 core:1 pu:1,device=x/gpu=9:1", "NUMA node 9: want one that the machine has"},
	} {
		if _, err := demo.ParseNode(c.text); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v: want one sentence with %q", c.text, err, c.want)
		}
	}
}

// TestNodesWithDevices: a node with devices keeps their names, wherever the key name is in the
// description. `berth topology -o string` prints such machines.
func TestNodesWithDevices(t *testing.T) {
	const devices = "dev:3b:00.0,020000,8086:1593,numa=0,driver=ice,name=eth0"
	for _, text := range []string{
		"name=a,machine=package:1 numa:1 core:2 pu:1 mem:4Gi " + devices,
		"machine=package:1 numa:1 core:2 pu:1 mem:4Gi " + devices + ",name=a",
		"machine=" + devices + " package:1 numa:1 core:2 pu:1 mem:4Gi,name=a",
		"name=a,machine=package:1 numa:1 core:2 pu:1 mem:4Gi dev:18:00.0,020000,15b3:1017,name=ib0 " + devices + ",device=x/y=0:1",
	} {
		spec, err := demo.ParseNode(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		m, err := topology.Parse(spec.Machine)
		if err != nil || spec.Name != "a" || !slices.ContainsFunc(m.Devices, func(d topology.Device) bool { return d.Name == "eth0" }) {
			t.Errorf("%q: node %s with %+v, %v: want node a with eth0", text, spec.Name, m.Devices, err)
		}
	}
}

// FuzzParseNode looks for descriptions that crash the parser, or that the parser accepts and a node
// refuses.
func FuzzParseNode(f *testing.F) {
	f.Add("name=a,machine=package:2 numa:1 core:4 pu:2 mem:64Gi,64Gi,device=nvidia.com/gpu=0:4,1:4")
	f.Add("name=a,device=x/y=-:1,machine=numa:1 core:1 pu:1")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "capture=") || strings.Contains(text, "config=") {
			t.Skip("reads files")
		}
		spec, err := demo.ParseNode(text)
		if err == nil {
			err = spec.Check()
		}
		if err == nil && spec.Name == "" {
			t.Errorf("%q: a node without a name", text)
		}
	})
}

// TestPlaygroundOfNothing: a cluster that cannot be started leaves nothing behind.
func TestPlaygroundOfNothing(t *testing.T) {
	if !alone(t, "TMPDIR="+shortDir(t)) {
		return
	}
	opts := demoOptions(t, 1)
	right := hollow.Spec{Name: "right", Machine: "package:1 numa:1 core:2 pu:1 mem:4Gi", KubeletConfig: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"}
	wrong := right
	wrong.Name = "wrong"
	wrong.KubeletConfig += "cpuManagerPolicy: sometimes\n"
	before := leftBehind(t)
	for _, c := range []struct {
		node      hollow.Spec
		scheduler demo.Berth
		want      string
	}{
		{wrong, demo.Berth{}, `node wrong does not start: CPU manager: unknown policy: "sometimes"`},
		{right, demo.Berth{Config: unknownPlugin(t)}, `scheduler: initializing profiles: creating profile for scheduler name x: PreFilterPlugin "Bert" does not exist`},
	} {
		opts.Own = []hollow.Spec{c.node}
		ctx, cancel := context.WithTimeout(t.Context(), startLimit)
		up, err := demo.StartPlayground(ctx, opts, c.scheduler)
		cancel()
		if err == nil {
			t.Fatal(up.Stop())
		}
		if err.Error() != c.want {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
	if after := leftBehind(t); after > before {
		t.Errorf("%d directories of clusters, %d before: want none left", after, before)
	}
}

// unknownPlugin returns a configuration with which no scheduler starts.
func unknownPlugin(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scheduler.yaml")
	write(t, path, []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+
		"profiles: [{schedulerName: x, plugins: {multiPoint: {enabled: [{name: Bert}]}}}]\n"))
	config, err := demo.ReadSchedulerConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func leftBehind(t *testing.T) int {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), "berth-*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(dirs)
}
