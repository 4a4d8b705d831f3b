package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/images"

	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/topology"
)

// twoSockets is a Xeon whose CPU numbers alternate between the sockets.
const twoSockets = "package:2 numa:1 core:4 pu:2 number:interleaved mem:16Gi dist:10,21"

// singleNUMA pins CPUs and admits only what fits one NUMA node; CPUs 0 and 8, one core of socket 0,
// are reserved.
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
func waitPod(t *testing.T, c *cluster, name string, done func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w, err := c.Client.CoreV1().Pods(c.namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
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
func settled(p *corev1.Pod) bool { return running(p) || failed(p) }

func wantRefusal(t *testing.T, pod *corev1.Pod, reason string) {
	t.Helper()
	if pod.Status.Reason != reason {
		t.Errorf("reason is %q (%s), want %s", pod.Status.Reason, pod.Status.Message, reason)
	}
}

// remove deletes a pod and waits until the API server has forgotten it.
func remove(t *testing.T, c *cluster, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pods := c.Client.CoreV1().Pods(c.namespace)
	w, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	for ev := range w.ResultChan() {
		if ev.Type == watch.Deleted {
			return
		}
	}
	t.Fatalf("pod %s was not deleted", name)
}

func create(t *testing.T, c *cluster, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	p, err := c.Client.CoreV1().Pods(c.namespace).Create(context.Background(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// checkpointCPUs reads a container's CPUs from the CPU Manager's own checkpoint.
func checkpointCPUs(t *testing.T, dir hollow.Dir, uid, container string) string {
	t.Helper()
	data, err := os.ReadFile(dir.Checkpoint(kubeletstate.CPUFile))
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

func testHollowNode(t *testing.T, cp *controlplane.ControlPlane) {
	const node = "plain"
	c := startCluster(t, cp, hollow.Spec{Name: node, Machine: twoSockets, KubeletConfig: singleNUMA})
	dir := c.Nodes[0].Dir
	t.Run("admits with the CPUs of one core after the other", func(t *testing.T) {
		begun := time.Now()
		create(t, c, pinnedPod("four", node, "4"))
		pod := waitPod(t, c, "four", running)
		t.Logf("running after %v", time.Since(begun).Round(time.Millisecond))
		// Socket 0 has 6 free CPUs, socket 1 has 8; both fit, and the lowest mask wins: cores 2/10
		// and 4/12.
		if got := checkpointCPUs(t, dir, string(pod.UID), "main"); got != "2,4,10,12" {
			t.Errorf("CPUs are %q, want 2,4,10,12", got)
		}
	})
	t.Run("refuses what fits the node but no NUMA node", func(t *testing.T) {
		create(t, c, pinnedPod("nine", node, "9"))
		wantRefusal(t, waitPod(t, c, "nine", failed), "TopologyAffinityError")
	})
	t.Run("releases the CPUs of a deleted pod", func(t *testing.T) {
		create(t, c, pinnedPod("eight", node, "8")) // all of socket 1
		waitPod(t, c, "eight", running)
		create(t, c, pinnedPod("three", node, "3")) // socket 0 has 2 left
		wantRefusal(t, waitPod(t, c, "three", failed), "TopologyAffinityError")
		remove(t, c, "four")
		create(t, c, pinnedPod("six", node, "6"))
		if pod := waitPod(t, c, "six", settled); !running(pod) {
			t.Fatalf("%s: %s", pod.Status.Reason, pod.Status.Message)
		}
	})
	t.Run("writes its effective configuration", func(t *testing.T) {
		data, err := os.ReadFile(dir.KubeletConfig())
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"cpuManagerPolicy: static", "topologyManagerPolicy: single-numa-node", "topologyManagerScope: container", "memory.available: 100Mi"} {
			if !strings.Contains(string(data), want) {
				t.Errorf("no %q in\n%s", want, data)
			}
		}
	})
}

// eightNUMA is an EPYC in NPS4 mode: 8 NUMA nodes of 4 CPUs, two level-3 caches each.
const eightNUMA = "package:2 numa:4 l3:2 core:1 pu:2 mem:4Gi dist:10,12,32"

const pinEverything = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicy: restricted
systemReserved: {cpu: "1", memory: 412Mi}
reservedMemory: [{numaNode: 0, limits: {memory: 512Mi}}]
`

func testHollowNodeMemoryAndDevices(t *testing.T, cp *controlplane.ControlPlane) {
	const name = "wide"
	gpus := hollow.Plugin{Resource: "example.com/gpu", Prefer: true, Devices: []hollow.Device{
		{ID: "gpu-a", NUMA: []topology.NUMAID{5}}, {ID: "gpu-b", NUMA: []topology.NUMAID{5}}, {ID: "gpu-c", NUMA: []topology.NUMAID{2}, Unhealthy: true},
	}}
	c := startCluster(t, cp, hollow.Spec{Name: name, Machine: eightNUMA, KubeletConfig: pinEverything, Plugins: []hollow.Plugin{gpus}})
	node, err := c.Client.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := node.Status.NodeInfo.KubeletVersion; got != hollow.KubeletVersion {
		t.Errorf("the kubelet calls itself %q, want %s", got, hollow.KubeletVersion)
	}
	for resourceName, want := range map[corev1.ResourceName]string{"cpu": "31", "memory": "32256Mi", "example.com/gpu": "2"} {
		if got := node.Status.Allocatable[resourceName]; got.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("allocatable %s is %s, want %s", resourceName, got.String(), want)
		}
	}
	pod := pinnedPod("gpu", name, "2")
	limits := pod.Spec.Containers[0].Resources.Limits
	limits["example.com/gpu"], limits["memory"] = resource.MustParse("2"), resource.MustParse("1Gi")
	create(t, c, pod)
	if pod = waitPod(t, c, "gpu", settled); !running(pod) {
		t.Fatalf("%s: %s", pod.Status.Reason, pod.Status.Message)
	}
	got := podResources(t, c.Nodes[0].Dir, "gpu")
	slices.Sort(got.CpuIds)
	if want := []int64{10, 26}; !slices.Equal(got.CpuIds, want) {
		t.Errorf("CPUs are %v, want %v: a core of NUMA node 5, next to the GPUs", got.CpuIds, want)
	}
	if len(got.Memory) != 1 || got.Memory[0].Size != 1<<30 || got.Memory[0].Topology.Nodes[0].ID != 5 {
		t.Errorf("memory is %v, want 1Gi of NUMA node 5", got.Memory)
	}
	if len(got.Devices) != 2 {
		t.Errorf("devices are %v, want two", got.Devices)
	}
	for _, file := range []string{c.Nodes[0].Dir.Checkpoint(kubeletstate.CPUFile), c.Nodes[0].Dir.Checkpoint(kubeletstate.MemoryFile), c.Nodes[0].Dir.Checkpoint(kubeletstate.DeviceFile)} {
		data, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(data), string(pod.UID)) {
			t.Errorf("%s does not mention the pod (%v):\n%s", file, err, data)
		}
	}
}

// TestKubeletVersion compares the constant with the linked kubelet.
func TestKubeletVersion(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := "\tk8s.io/kubernetes " + hollow.KubeletVersion + "\n"; !strings.Contains(string(mod), want) {
		t.Errorf("go.mod does not require %q: change hollow.KubeletVersion with it", want)
	}
}

// podResources asks the node's PodResources API for the only container of the pod.
func podResources(t *testing.T, dir hollow.Dir, pod string) *podresources.ContainerResources {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+dir.PodResources(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	resp, err := podresources.NewPodResourcesListerClient(conn).List(context.Background(), &podresources.ListPodResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range resp.PodResources {
		if p.Name == pod {
			return p.Containers[0]
		}
	}
	t.Fatalf("pod %s is not in %v", pod, resp)
	return nil
}

func testHollowNodeContainersEnd(t *testing.T, cp *controlplane.ControlPlane) {
	c := startCluster(t, cp, hollow.Spec{Name: "ends", Machine: twoSockets, KubeletConfig: singleNUMA})
	pod := pinnedPod("job", "ends", "2")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Containers[0].Image = hollow.ExitImage(time.Second)
	setup := *pod.Spec.Containers[0].DeepCopy()
	setup.Name, setup.Image = "setup", hollow.ExitImage(0)
	pod.Spec.InitContainers = []corev1.Container{setup}
	create(t, c, pod)
	waitPod(t, c, "job", running)
	waitPod(t, c, "job", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
}

// testHollowNodePullsMany checks that kubelets do not limit how many images they pull per second.
func testHollowNodePullsMany(t *testing.T, cp *controlplane.ControlPlane) {
	c := startCluster(t, cp, hollow.Spec{Name: "pulls", Machine: twoSockets, KubeletConfig: singleNUMA})
	const pods = 40
	for i := range pods {
		pod := pinnedPod(fmt.Sprintf("p%d", i), "pulls", "100m")
		pod.Spec.Containers[0].Image = "app:latest"
		create(t, c, pod)
	}
	for i := range pods {
		waitPod(t, c, fmt.Sprintf("p%d", i), func(p *corev1.Pod) bool {
			for _, s := range p.Status.ContainerStatuses {
				if w := s.State.Waiting; w != nil && (w.Reason == images.ErrImagePull.Error() || w.Reason == images.ErrImagePullBackOff.Error()) {
					t.Errorf("pod %s: %s", p.Name, w.Message)
					return true
				}
			}
			return settled(p)
		})
	}
}

// testHollowNodeRefusesToStart checks that the kubelet's own validation decides, and that its
// message is returned.
func testHollowNodeRefusesToStart(t *testing.T, cp *controlplane.ControlPlane) {
	for _, tc := range []struct{ name, config, want string }{
		{"unknown policy", "cpuManagerPolicy: statik", "statik"},
		{"static without reserved CPUs", "cpuManagerPolicy: static", "static policy"},
		{"reserved CPU that is not there", "reservedSystemCPUs: \"99\"", "want a subset of 0-15"},
		{"reserved memory that does not add up", "memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 0, limits: {memory: 1Mi}}]", "reserved-memory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec := hollow.Spec{Name: "bad-" + strings.ReplaceAll(tc.name, " ", "-"), Machine: twoSockets,
				KubeletConfig: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + tc.config}
			ctx, cancel := context.WithTimeout(t.Context(), startLimit)
			defer cancel()
			_, err := demo.StartCluster(ctx, demo.ClusterOptions{Nodes: []hollow.Spec{spec}, NodeCommand: nodeCommand, On: cp})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// testNodeDiesWithItsParent closes the pipe that the end of the parent would close.
func testNodeDiesWithItsParent(t *testing.T, cp *controlplane.ControlPlane) {
	c := startCluster(t, cp, hollow.Spec{Name: "orphan", Machine: twoSockets})
	p := c.Nodes[0]
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(p.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", p.PID(), err)
	}
}
