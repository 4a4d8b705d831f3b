package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// pinsAll pins CPUs and memory; CPUs 0 and 8 and 1 GiB of node 0 are reserved.
const pinsAll = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicy: restricted
reservedSystemCPUs: "0,8"
systemReserved: {memory: 924Mi}
evictionHard: {memory.available: 100Mi}
reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]
`

// asAgent returns the configuration of a client with the credentials of a node's agent.
func asAgent(t *testing.T, cp *controlplane.ControlPlane, node string) *rest.Config {
	t.Helper()
	config, err := cp.TokenConfig(t.Context(), "berth-system", "berth-agent", node)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// testLog writes to the test's log until the test ends.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Log(strings.TrimSuffix(string(b), "\n"))
	}
	return len(b), nil
}

// startAgent runs an agent for a hollow node; the returned function stops it.
func startAgent(t *testing.T, c *cluster, node *hollow.Process, machine string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	opts := agent.Options{
		Node: node.Name, Client: asAgent(t, c.ControlPlane, node.Name), Root: node.Dir.Root(), Machine: machine, Amounts: true, KubeletVersion: hollow.KubeletVersion,
		Rescan:      time.Hour, // so that only events can trigger reports
		Preferences: map[string]placement.Preference{"example.com/gpu": placement.SortedPreference},
		Log:         slog.New(slog.NewTextHandler(testLog{t}, nil)),
	}
	go func() { done <- agent.Run(ctx, opts) }()
	var stopped bool
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-done; err != nil {
				t.Errorf("agent of %s: %v", node.Name, err)
			}
		}
	}
	t.Cleanup(stop)
	return stop
}

// waitReport waits until the report of a node satisfies done.
func waitReport(t *testing.T, c *cluster, node, what string, done func(*wire.Node) bool) *wire.Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dyn, err := dynamic.NewForConfig(c.ControlPlane.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	w, err := dyn.Resource(v1alpha1.NodeTopologies).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + node})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var last *v1alpha1.NodeTopology
	for ev := range w.ResultChan() {
		u, ok := ev.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("watch: %v", ev.Object)
		}
		last = &v1alpha1.NodeTopology{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, last); err != nil {
			t.Fatal(err)
		}
		n, err := wire.ReadNodeTopology(last)
		if err != nil {
			t.Fatal(err)
		}
		if done(&n) {
			return &n
		}
	}
	text, _ := json.MarshalIndent(last, "", " ")
	t.Fatalf("%s: not within %v; the last report is\n%s", what, patience, text)
	return nil
}

func reportReady(n *wire.Node) bool {
	c := n.Report.Ready()
	return c.Status == metav1.ConditionTrue
}

// reported finds a pod in a report.
func reported(n *wire.Node, uid string) (placement.PodAllocation, wire.ReportedPod, bool) {
	i := slices.IndexFunc(n.Report.Snapshot.Pods, func(p placement.PodAllocation) bool { return p.UID == uid })
	if i < 0 {
		return placement.PodAllocation{}, wire.ReportedPod{}, false
	}
	return n.Report.Snapshot.Pods[i], n.Report.Pods[i], true
}

// age returns how long ago the kubelet last replaced a checkpoint.
func age(t *testing.T, dir hollow.Dir, file string) time.Duration {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir.Root(), file))
	if err != nil {
		t.Fatal(err)
	}
	return time.Since(info.ModTime()).Round(time.Millisecond)
}

// wantState checks that the engine accepts the report, and that it agrees with the checkpoints, at
// once or soon, because the kubelet also removes ended pods at its own intervals.
func wantState(t *testing.T, c *cluster, n *wire.Node, dir hollow.Dir) {
	t.Helper()
	n = waitReport(t, c, n.Name, "what the checkpoints say", func(n *wire.Node) bool {
		return reportReady(n) && n.Report.Snapshot.SharedCPUs == sharedCPUs(t, dir)
	})
	m, err := placement.NewModel(n.Spec.View, n.Spec.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.StateOf(&n.Report.Snapshot); err != nil {
		t.Error(err)
	}
}

// sharedCPUs returns the shared CPUs in the kubelet's checkpoint.
func sharedCPUs(t *testing.T, dir hollow.Dir) topology.CPUSet {
	t.Helper()
	books, err := kubeletstate.Read(os.DirFS(dir.Root()))
	if err != nil {
		t.Fatal(err)
	}
	want, err := books.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return want.SharedCPUs
}

func testAgent(t *testing.T, cp *controlplane.ControlPlane) {
	const name = "mirrored"
	spec := hollow.Spec{Name: name, Machine: twoSockets, KubeletConfig: pinsAll, Plugins: []hollow.Plugin{{
		Resource: "example.com/gpu", Prefer: true,
		Devices: []hollow.Device{{ID: "g0", NUMA: []topology.NUMAID{0}}, {ID: "g1", NUMA: []topology.NUMAID{1}}, {ID: "g2", NUMA: []topology.NUMAID{1}, Unhealthy: true}},
	}}}
	c := startCluster(t, cp, spec)
	node := c.Nodes[0]
	start := func() (stop func()) { return startAgent(t, c, node, twoSockets) } // stops at the end of the whole test
	stop := start()
	first := waitReport(t, c, name, "first report", func(n *wire.Node) bool { return reportReady(n) && len(n.Report.Snapshot.Devices) == 1 })
	wantState(t, c, first, node.Dir)

	t.Run("shows a pod that is admitted", func(t *testing.T) {
		pod := create(t, c, pinnedPod("four", name, "4"))
		n := waitReport(t, c, name, "pod four", func(n *wire.Node) bool { _, _, ok := reported(n, string(pod.UID)); return ok })
		t.Logf("%v after the kubelet admitted the pod", age(t, node.Dir, kubeletstate.AdmittedFile))
		wantState(t, c, n, node.Dir)
		got, more, _ := reported(n, string(pod.UID))
		if cpus := got.Containers[0].CPUs.String(); cpus != "2,4,10,12" || cpus != checkpointCPUs(t, node.Dir, string(pod.UID), "main") {
			t.Errorf("CPUs %s, want 2,4,10,12", cpus)
		}
		if len(got.Containers[0].Memory) != 1 || more.Name != "four" || more.State != "" {
			t.Errorf("got %+v %+v", got, more)
		}
	})
	t.Run("stays consistent when the kubelet refuses a pod", func(t *testing.T) {
		pod := create(t, c, pinnedPod("nine", name, "9"))
		wantRefusal(t, waitPod(t, c, "nine", failed), "TopologyAffinityError")
		// The kubelet keeps the refused pod's resources until the next admission.
		n := waitReport(t, c, name, "refused pod", func(n *wire.Node) bool {
			_, more, ok := reported(n, string(pod.UID))
			return reportReady(n) && (!ok || more.State == v1alpha1.PodRejected)
		})
		wantState(t, c, n, node.Dir)
	})
	t.Run("says of a pod that has ended what is still held", func(t *testing.T) {
		pod, err := c.Client.CoreV1().Pods(c.namespace).Get(t.Context(), "four", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		remove(t, c, "four")
		gone := time.Now()
		n := waitReport(t, c, name, "pod ended", func(n *wire.Node) bool {
			_, more, ok := reported(n, string(pod.UID))
			return reportReady(n) && (!ok || more.State == v1alpha1.PodEnded)
		})
		t.Logf("%v after the pod was gone", time.Since(gone).Round(time.Millisecond))
		wantState(t, c, n, node.Dir)
		held, _, ok := reported(n, string(pod.UID))
		if !ok || len(held.Containers[0].Memory) == 0 {
			t.Errorf("the memory manager frees with the next admission; the report holds %+v", held)
		}
		// The next admission frees them, in the checkpoints and so in the report.
		next := create(t, c, pinnedPod("next", name, "2"))
		n = waitReport(t, c, name, "next pod", func(n *wire.Node) bool { _, _, ok := reported(n, string(next.UID)); return ok })
		if _, _, ok := reported(n, string(pod.UID)); ok {
			t.Error("pod four is still in the report")
		}
		wantState(t, c, n, node.Dir)
	})
	t.Run("reports devices with their NUMA nodes, health and holders", func(t *testing.T) {
		before, err := os.ReadFile(node.Dir.Checkpoint(kubeletstate.DeviceFile))
		if err != nil {
			t.Fatal(err)
		}
		pod := pinnedPod("gpu", name, "1")
		pod.Spec.Containers[0].Resources.Limits["example.com/gpu"] = resource.MustParse("1")
		pod = create(t, c, pod)
		n := waitReport(t, c, name, "gpu pod", func(n *wire.Node) bool { _, _, ok := reported(n, string(pod.UID)); return ok })
		got, _, _ := reported(n, string(pod.UID))
		if len(got.Containers[0].Devices) != 1 || !slices.Equal(got.Containers[0].Devices[0].IDs, []string{"g0"}) {
			t.Errorf("devices %+v, want g0", got.Containers[0].Devices)
		}
		pool := n.Report.Snapshot.Devices[0]
		if pool.Preference != placement.SortedPreference || len(pool.Devices) < 2 || pool.Devices[0].NUMA != 1 || pool.Devices[1].NUMA != 2 {
			t.Errorf("pool %+v", pool)
		}
		wantState(t, c, n, node.Dir)

		// The kubelet writes this checkpoint without a lock, so an older state can be written last.
		write(t, node.Dir.Checkpoint(kubeletstate.DeviceFile)+".late", before)
		if err := os.Rename(node.Dir.Checkpoint(kubeletstate.DeviceFile)+".late", node.Dir.Checkpoint(kubeletstate.DeviceFile)); err != nil {
			t.Fatal(err)
		}
		beside := create(t, c, pinnedPod("beside", name, "1"))
		n = waitReport(t, c, name, "pod beside", func(n *wire.Node) bool { _, _, ok := reported(n, string(beside.UID)); return ok })
		if after, _, _ := reported(n, string(pod.UID)); !reflect.DeepEqual(after, got) {
			t.Errorf("with a checkpoint that lacks it the pod holds %+v, want %+v", after, got)
		}
		remove(t, c, "beside")
	})
	t.Run("goes on counting after a restart of its own", func(t *testing.T) {
		before := waitReport(t, c, name, "report", reportReady)
		stop()
		start()
		pod := create(t, c, pinnedPod("later", name, "2"))
		n := waitReport(t, c, name, "later pod", func(n *wire.Node) bool { _, _, ok := reported(n, string(pod.UID)); return ok })
		if n.Report.Sequence <= before.Report.Sequence {
			t.Errorf("sequence %d after %d", n.Report.Sequence, before.Report.Sequence)
		}
	})
	t.Run("renews a Lease that vouches for the report", func(t *testing.T) {
		lease, err := c.Client.CoordinationV1().Leases(v1alpha1.HeartbeatNamespace).Get(t.Context(), v1alpha1.HeartbeatName(name), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if lease.Annotations[v1alpha1.SequenceAnnotation] == "" || lease.Spec.RenewTime == nil {
			t.Errorf("got %+v", lease)
		}
	})
	t.Run("publishes amounts for other readers", func(t *testing.T) { wantAmounts(t, c, name) })
	t.Run("says when the books cannot be read", func(t *testing.T) {
		// The kubelet replaces the file with its next admission.
		file := filepath.Join(node.Dir.Root(), kubeletstate.CPUFile)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		forged := strings.NewReplacer(`"defaultCpuSet":"`, `"defaultCpuSet":"2,`, `\"defaultCpuSet\":\"`, `\"defaultCpuSet\":\"2,`).Replace(string(data))
		write(t, file+".forged", []byte(forged))
		if err := os.Rename(file+".forged", file); err != nil {
			t.Fatal(err)
		}
		n := waitReport(t, c, name, "not ready", func(n *wire.Node) bool { return !reportReady(n) })
		ready := n.Report.Ready()
		if ready.Reason != v1alpha1.ReasonUnreadable || !strings.Contains(ready.Message, "cpu_manager_state: a kubelet does not start with this file") {
			t.Errorf("condition %+v", ready)
		}
		create(t, c, pinnedPod("healer", name, "1"))
		waitReport(t, c, name, "ready again", reportReady)
	})
}

func wantAmounts(t *testing.T, c *cluster, node string) {
	t.Helper()
	dyn, err := dynamic.NewForConfig(c.ControlPlane.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	u, err := dyn.Resource(nrt.NodeResourceTopologies).Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got nrt.NodeResourceTopology
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Zones) != 2 || got.TopologyPolicies[0] != "RestrictedContainerLevel" || got.Zones[0].Resources[0].Name != string(corev1.ResourceCPU) {
		t.Errorf("got %+v", got)
	}
}

// churnPod is one of several shapes of pods, bound to the node.
func churnPod(node string, i int) *corev1.Pod {
	pod := pinnedPod(fmt.Sprintf("churn-%d", i), node, fmt.Sprint(1+i%3))
	always := corev1.ContainerRestartPolicyAlways
	first := func(cpus string, policy *corev1.ContainerRestartPolicy) corev1.Container {
		c := *pod.Spec.Containers[0].DeepCopy()
		c.Name, c.RestartPolicy = "first", policy
		c.Resources.Limits[corev1.ResourceCPU] = resource.MustParse(cpus)
		return c
	}
	switch i % 5 {
	case 1: // an init container that requests more, and ends
		c := first("3", nil)
		c.Image = hollow.ExitImage(100 * time.Millisecond)
		c.Resources.Limits[corev1.ResourceMemory] = resource.MustParse("128Mi")
		pod.Spec.InitContainers = []corev1.Container{c}
	case 2: // a sidecar
		pod.Spec.InitContainers = []corev1.Container{first("1", &always)}
	case 3: // a device
		pod.Spec.Containers[0].Resources.Limits["example.com/gpu"] = resource.MustParse("1")
	case 4: // ends by itself
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Spec.Containers[0].Image = hollow.ExitImage(300 * time.Millisecond)
	}
	return pod
}

// testAgentUnderChurn: pods of all shapes start and end, some are refused, and the engine accepts
// every report.
func testAgentUnderChurn(t *testing.T, cp *controlplane.ControlPlane) {
	const node = "churned"
	spec := hollow.Spec{Name: node, Machine: twoSockets, KubeletConfig: pinsAll, Plugins: []hollow.Plugin{{
		Resource: "example.com/gpu", Prefer: true, Devices: []hollow.Device{{ID: "g0", NUMA: []topology.NUMAID{0}}, {ID: "g1", NUMA: []topology.NUMAID{1}}},
	}}}
	c := startCluster(t, cp, spec)
	startAgent(t, c, c.Nodes[0], twoSockets)
	waitReport(t, c, node, "first report", reportReady)
	audit := startAudit(t, c, node)
	const pods, alive = 40, 5
	for i := range pods {
		create(t, c, churnPod(node, i))
		waitPod(t, c, fmt.Sprintf("churn-%d", i), func(p *corev1.Pod) bool { return p.Status.StartTime != nil })
		if i >= alive {
			remove(t, c, fmt.Sprintf("churn-%d", i-alive))
		}
	}
	for i := pods - alive; i < pods; i++ {
		remove(t, c, fmt.Sprintf("churn-%d", i))
	}
	n := waitReport(t, c, node, "all pods gone", func(n *wire.Node) bool {
		return reportReady(n) && !slices.ContainsFunc(n.Report.Pods, func(p wire.ReportedPod) bool { return p.State == "" || p.State == v1alpha1.PodUnknown })
	})
	wantState(t, c, n, c.Nodes[0].Dir)
	if n := audit(); n < pods/2 {
		t.Errorf("%d reports for %d pods: this test means to see them change", n, pods)
	} else {
		t.Logf("%d reports for %d pods", n, pods)
	}
}

// startAudit checks every report of the node from now on. The returned function stops this and
// returns the number of reports.
func startAudit(t *testing.T, c *cluster, node string) func() int {
	t.Helper()
	dyn, err := dynamic.NewForConfig(c.ControlPlane.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	w, err := dyn.Resource(v1alpha1.NodeTopologies).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + node})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan int)
	var stopped atomic.Bool
	go func() {
		seen := 0
		for ev := range w.ResultChan() {
			if stopped.Load() { // further events concern only the watch itself
				break
			}
			seen++
			if err := auditReport(ev.Object); err != nil {
				t.Errorf("report %d: %v", seen, err)
			}
		}
		done <- seen
	}()
	return func() int { stopped.Store(true); w.Stop(); return <-done }
}

func auditReport(object runtime.Object) error {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("watch: %v", object)
	}
	nt := &v1alpha1.NodeTopology{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, nt); err != nil {
		return err
	}
	n, err := wire.ReadNodeTopology(nt)
	if err != nil {
		return err
	}
	if !reportReady(&n) {
		return fmt.Errorf("not ready: %s", n.Report.Ready().Message)
	}
	m, err := placement.NewModel(n.Spec.View, n.Spec.Config)
	if err != nil {
		return err
	}
	_, err = m.StateOf(&n.Report.Snapshot)
	return err
}

// testAgentSeesKubeletRestart: pods keep their resources, and a report has a changed configuration
// only when the kubelet runs with it.
func testAgentSeesKubeletRestart(t *testing.T, cp *controlplane.ControlPlane) {
	const name = "reborn"
	c := startCluster(t, cp, hollow.Spec{Name: name, Machine: twoSockets, KubeletConfig: singleNUMA})
	node := c.Nodes[0]
	startAgent(t, c, node, twoSockets)
	pod := create(t, c, pinnedPod("stays", name, "4"))
	before := waitReport(t, c, name, "pod", func(n *wire.Node) bool { _, _, ok := reported(n, string(pod.UID)); return ok && reportReady(n) })

	audit := startAudit(t, c, name)
	node.Kill()
	spec, err := node.Dir.ReadSpec()
	if err != nil {
		t.Fatal(err)
	}
	spec.KubeletConfig = strings.Replace(singleNUMA, "single-numa-node", "restricted", 1)
	kubeconfig, err := os.ReadFile(node.Dir.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	again, err := hollow.Launch(node.Dir, spec, kubeconfig, nodeCommand)
	if err != nil {
		t.Fatal(err)
	}
	c.Nodes[0] = again
	n := waitReport(t, c, name, "new configuration", func(n *wire.Node) bool { return n.Spec.Config.TopologyManagerPolicy == "restricted" })
	held, _, ok := reported(n, string(pod.UID))
	old, _, _ := reported(before, string(pod.UID))
	if !ok || held.Containers[0].CPUs != old.Containers[0].CPUs {
		t.Errorf("after the restart the pod holds %+v, before %+v", held, old)
	}
	next := create(t, c, pinnedPod("next", name, "2"))
	n = waitReport(t, c, name, "next pod", func(n *wire.Node) bool { _, _, ok := reported(n, string(next.UID)); return ok })
	wantState(t, c, n, node.Dir)
	audit()
}
