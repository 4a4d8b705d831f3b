package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/demo"
)

// choose creates pods one after the other on a cluster of the demo's nodes and checks that each
// runs on one NUMA node.
func choose(t *testing.T, nodes int, pods []demo.Pod) *demo.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	c, err := demo.Up(ctx, demo.Options{Nodes: nodes, Self: []string{os.Args[0]}, Progress: lineWriter{t}, Server: otherServer}, demo.Berth{})
	if err != nil {
		t.Fatal(err)
	}
	atEnd(t, c.Stop)
	for i := range pods {
		pods[i].At = time.Duration(i) * 300 * time.Millisecond
	}
	r := &demo.Runner{Cluster: c, Predicts: true, Workload: demo.Workload{Pods: pods}}
	report, err := r.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", report)
	if report.Running != len(pods) || report.Refused() != 0 || report.Mispredicted != 0 {
		t.Errorf("%d of %d pods run, refused %v, %d mispredicted", report.Running, len(pods), report.Rejected, report.Mispredicted)
	}
	for numa, n := range report.NUMANodesPerPod {
		if numa != "1" {
			t.Errorf("%d pods on %s NUMA nodes, while whole ones are free", n, numa)
		}
	}
	if report.AvoidablySplit != 0 || report.StrandedDevices != 0 {
		t.Errorf("%d avoidably split, %v devices stranded: want none", report.AvoidablySplit, report.StrandedDevices)
	}
	return report
}

func guaranteed(name string, cpus, gib, gpus int64) demo.Pod {
	c := demo.Container{MilliCPU: 1000 * cpus, MemoryBytes: gib << 30}
	if gpus > 0 {
		c.More = map[corev1.ResourceName]int64{"nvidia.com/gpu": gpus}
	}
	return demo.Pod{Name: name, Containers: []demo.Container{c}}
}

// TestWholeNUMANodesFirst puts a load on the servers with large NUMA nodes that leaves some NUMA
// nodes free. Pods of 16 CPUs take these one by one. The stock plugins would prefer the empty
// servers, where a pod needs two or three NUMA nodes.
func TestWholeNUMANodesFirst(t *testing.T) {
	slowScene(t)
	t.Parallel()
	shared := func(node string) demo.Pod {
		return demo.Pod{Name: "load-" + node, Node: node, Containers: []demo.Container{{MilliCPU: 30000, MemoryBytes: 60 << 30, Burstable: true}}}
	}
	pods := []demo.Pod{shared("xeon-a"), shared("xeon-b")}
	for _, name := range []string{"a", "b", "c", "d", "e"} { // two pods on each of these, and one on xeon-c
		pods = append(pods, guaranteed(name, 16, 1, 0))
	}
	choose(t, demo.MinNodes, pods)
}

// TestGPUsKeepTheirCPUs first creates more pods without GPUs than would fit on the NUMA nodes next
// to GPUs. All pods with GPUs run nevertheless.
func TestGPUsKeepTheirCPUs(t *testing.T) {
	slowScene(t)
	t.Parallel()
	var pods []demo.Pod
	for i := range 30 {
		pods = append(pods, guaranteed("cpu-"+string(rune('a'+i%26))+string(rune('a'+i/26)), 16, 1, 0))
	}
	for i := range 12 {
		pods = append(pods, guaranteed("gpu-"+string(rune('a'+i)), 12, 32, 1))
	}
	choose(t, demo.AllNodes, pods)
}

// slowScene skips a test that takes minutes, unless make e2e-choice or e2e-gangs runs it.
func slowScene(t *testing.T) {
	t.Helper()
	if os.Getenv("BERTH_SLOW_SCENES") == "" {
		t.Skip("takes two minutes: make e2e-choice or e2e-gangs runs it")
	}
}
