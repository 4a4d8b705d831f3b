package e2e

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
)

// twoSockets is a Xeon whose CPU numbers alternate between the sockets.
const twoSockets = "package:2 numa:1 core:4 pu:2 number:interleaved mem:16Gi dist:10,21"

// singleNUMA pins CPUs and admits only what fits one NUMA node; CPUs 0 and 8, one core of socket 0, are reserved.
const singleNUMA = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: single-numa-node
reservedSystemCPUs: "0,8"
`

// pinnedPod is a Guaranteed pod with one container of whole CPUs, bound to the node.
func pinnedPod(name, node, cpus string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName:                      node,
			TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{Name: "main", Image: "app:1", Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus), corev1.ResourceMemory: resource.MustParse("64Mi")},
			}}},
		},
	}
}

// waitPod waits until the pod satisfies done.
func waitPod(t *testing.T, c *demo.Cluster, name string, done func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w, err := c.Client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var last *corev1.Pod
	for ev := range w.ResultChan() {
		pod, ok := ev.Object.(*corev1.Pod)
		if !ok {
			t.Fatalf("watch: %v", ev.Object)
		}
		if last = pod; done(pod) {
			return pod
		}
	}
	t.Fatalf("pod %s did not get there: %+v", name, last.Status)
	return nil
}

func running(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }
func failed(p *corev1.Pod) bool  { return p.Status.Phase == corev1.PodFailed }

func create(t *testing.T, c *demo.Cluster, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	p, err := c.Client.CoreV1().Pods("default").Create(context.Background(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// checkpointCPUs reads a container's CPUs from the CPU Manager's own checkpoint.
func checkpointCPUs(t *testing.T, dir hollow.Dir, uid, container string) string {
	t.Helper()
	data, err := os.ReadFile(dir.CPUState())
	if err != nil {
		t.Fatal(err)
	}
	var state struct {
		Entries map[string]map[string]string `json:"entries"`
	}
	if err := json.Unmarshal(data, &state); err != nil {
		t.Fatal(err)
	}
	return state.Entries[uid][container]
}

func TestHollowNode(t *testing.T) {
	c := startCluster(t, hollow.Spec{Name: "n1", Machine: twoSockets, KubeletConfig: singleNUMA, Verbosity: 2})
	dir := c.Nodes[0].Dir
	t.Run("admits with the CPUs of one core after the other", func(t *testing.T) {
		begun := time.Now()
		pod := create(t, c, pinnedPod("four", "n1", "4"))
		pod = waitPod(t, c, "four", running)
		t.Logf("running after %v", time.Since(begun).Round(time.Millisecond))
		// Socket 0 has 6 free CPUs, socket 1 has 8; both fit, and the lowest mask wins: cores 2/10 and 4/12.
		if got := checkpointCPUs(t, dir, string(pod.UID), "main"); got != "2,4,10,12" {
			t.Errorf("CPUs are %q, want 2,4,10,12", got)
		}
	})
	t.Run("refuses what fits the node but no NUMA node", func(t *testing.T) {
		create(t, c, pinnedPod("nine", "n1", "9"))
		pod := waitPod(t, c, "nine", failed)
		if pod.Status.Reason != "TopologyAffinityError" {
			t.Errorf("reason is %q (%s), want TopologyAffinityError", pod.Status.Reason, pod.Status.Message)
		}
	})
	t.Run("releases the CPUs of a deleted pod", func(t *testing.T) {
		if err := c.Client.CoreV1().Pods("default").Delete(context.Background(), "four", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		create(t, c, pinnedPod("six", "n1", "6"))
		pod := waitPod(t, c, "six", func(p *corev1.Pod) bool { return running(p) || failed(p) })
		if !running(pod) {
			t.Fatalf("%s: %s", pod.Status.Reason, pod.Status.Message)
		}
	})
}
