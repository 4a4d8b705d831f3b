package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/topology/shapes"
)

// lineWriter passes lines on to the test's log.
type lineWriter struct{ t *testing.T }

func (w lineWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", bytes.TrimSpace(b))
	return len(b), nil
}

func demoOptions(t *testing.T, seed uint64) demo.Options {
	return demo.Options{Seed: seed, Nodes: demo.MinNodes, Self: []string{os.Args[0]}, Progress: lineWriter{t}, Server: otherServer}
}

// upDemo starts the demo's cluster and a scheduler. The end of the test stops both.
func upDemo(t *testing.T, s demo.Scheduler, seed uint64) *demo.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	c, err := demo.Up(ctx, demoOptions(t, seed), s)
	if err != nil {
		t.Fatal(err)
	}
	atEnd(t, c.Stop)
	return c
}

// playPart runs the first pods of the demo's workload.
func playPart(t *testing.T, c *demo.Cluster, s demo.Scheduler, seed uint64, pods int) *demo.Report {
	t.Helper()
	w := demo.Generate(seed, demo.MinNodes)
	w.Pods = w.Pods[:pods]
	r := &demo.Runner{Cluster: c, Workload: w, Predicts: s.Predicts()}
	report, err := r.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d: %d pods, %d ran, %v refused, %d pending, %d predicted, %d exact, %d wrong", seed, report.Pods, report.Running,
		report.Rejected, report.Pending, report.Predicted, report.Exact, report.Mispredicted)
	for _, note := range report.Notes {
		t.Log(note)
	}
	return report
}

// TestDemoCounts runs two small workloads on one cluster, each under another scheduler.
func TestDemoCounts(t *testing.T) {
	t.Parallel()
	c := upDemo(t, nobody{}, 2)
	t.Run("wrong predictions", func(t *testing.T) { testWrongPredictions(t, c) })
	t.Run("refusals of kube-scheduler's", func(t *testing.T) { testStockIsRefused(t, c) })
}

// nobody is a cluster without a scheduler.
type nobody struct{ demo.Stock }

func (nobody) Start(context.Context, *demo.Cluster, []string) (func() error, error) {
	return func() error { return nil }, nil
}

// startOn starts the scheduler on a running cluster. The end of the test stops it and deletes the
// pods.
func startOn(t *testing.T, c *demo.Cluster, s demo.Scheduler) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	stop, err := s.Start(ctx, c, []string{os.Args[0]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
		pods := c.Client.CoreV1().Pods(demo.Namespace)
		eventually(t, "no pods", func() error {
			if err := pods.DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				return err
			}
			list, err := pods.List(context.Background(), metav1.ListOptions{})
			if err == nil && len(list.Items) > 0 {
				err = fmt.Errorf("%d pods are left", len(list.Items))
			}
			return err
		})
	})
}

// testStockIsRefused runs the first pods of the workload under kube-scheduler: they fit by amounts,
// but not on NUMA nodes.
func testStockIsRefused(t *testing.T, c *demo.Cluster) {
	startOn(t, c, demo.Stock{})
	report := playPart(t, c, demo.Stock{}, 2, 3)
	if report.Rejected["TopologyAffinityError"] == 0 {
		t.Errorf("no TopologyAffinityError in %v", report.Rejected)
	}
	if report.Mispredicted != 0 || report.Predicted != 0 {
		t.Errorf("kube-scheduler predicted %d, %d of them wrongly: it does not predict", report.Predicted, report.Mispredicted)
	}
}

// TestBerthKeepsItsPromise runs a part of the demo's workload under Berth, with a random seed.
func TestBerthKeepsItsPromise(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano()) % 10000
	report := playPart(t, upDemo(t, demo.Berth{}, seed), demo.Berth{}, seed, 70)
	if report.Refused() != 0 || report.Mispredicted != 0 || report.Contended != 0 {
		t.Errorf("refused %v, mispredicted %d, contended %d: want none", report.Rejected, report.Mispredicted, report.Contended)
	}
	if report.Pods != 70 || report.Running < 45 || report.Predicted < 35 || report.Pending > 20 {
		t.Errorf("%d pods, %d ran, %d predicted, %d pending: want most to run, with a decision", report.Pods, report.Running, report.Predicted, report.Pending)
	}
	// On an idle machine nearly all decisions are exact. While the API server is slow, none is.
	if report.Exact == 0 {
		t.Errorf("none of %d decisions exact: want some", report.Predicted)
	}
}

// TestAllNodes checks that the full demo has the documented nodes, and that a genuine kubelet can
// run on each.
func TestAllNodes(t *testing.T) {
	nodes, err := demo.Nodes(demo.AllNodes)
	if err != nil {
		t.Fatal(err)
	}
	machines, text := map[string]bool{}, strings.Builder{}
	for _, n := range nodes {
		machines[n.Machine] = true
		text.WriteString(n.KubeletConfig)
		m := shapes.Machine(n.Machine)
		if len(m.NUMANodes) == 8 && strings.Contains(n.KubeletConfig, "memoryManagerPolicy: Static") && len(n.Plugins) > 0 {
			t.Errorf("%s: memory and devices on 8 NUMA nodes: merging the hints of three resources takes the kubelet seconds", n.Name)
		}
		if strings.Contains(n.Name, "gpu") && (len(n.Plugins) != 2 || len(n.Plugins[0].Devices) != 8 || len(n.Plugins[1].Devices) != 4) {
			t.Errorf("%s: plugins %v, want 8 GPUs and 4 network cards", n.Name, n.Plugins)
		}
	}
	if len(nodes) < 12 || len(machines) < 5 {
		t.Errorf("%d nodes of %d machines: want at least 12 of 5", len(nodes), len(machines))
	}
	for _, want := range []string{": none", ": best-effort", ": restricted", ": single-numa-node", "Scope: container", "Scope: pod", "full-pcpus-only",
		"distribute-cpus-across-numa", "strict-cpu-reservation", "prefer-align-cpus-by-uncorecache", "prefer-closest-numa-nodes", "reservedMemory"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no node has %q", want)
		}
	}
}

// TestWorkloadAsksForEverything looks for every kind of request in the full workload.
func TestWorkloadAsksForEverything(t *testing.T) {
	for seed := range uint64(10) {
		found := map[string]int{}
		for _, p := range demo.Generate(seed, demo.AllNodes).Pods {
			for _, c := range p.Init {
				found[map[bool]string{true: "sidecar", false: "init"}[c.Sidecar]]++
			}
			for _, c := range p.Containers {
				for name := range c.More {
					found[string(name)]++
				}
			}
			if p.Life > 0 {
				found["churn"]++
			}
		}
		for _, want := range []string{"sidecar", "init", "churn", "nvidia.com/gpu", "rdma/hca", "hugepages-2Mi", "hugepages-1Gi"} {
			if found[want] < 5 {
				t.Errorf("seed %d: %d of %s: want a few", seed, found[want], want)
			}
		}
	}
}

// liar binds every pod at once with a wrong decision: CPU 0, which is reserved on every node.
type liar struct{ demo.Stock }

func (liar) Predicts() bool { return true }

func (liar) Start(ctx context.Context, c *demo.Cluster, _ []string) (func() error, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	pods := c.Client.CoreV1().Pods(metav1.NamespaceAll)
	w, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil {
		cancel()
		return nil, err
	}
	go func() {
		for ev := range w.ResultChan() {
			pod, ok := ev.Object.(*corev1.Pod)
			if !ok || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
				continue
			}
			lie := fmt.Sprintf(`{"v":1,"seq":1,"uid":%q,"certainty":"exact","guarantee":"full","containers":[{"name":"c0","hint":{"preferred":true},"cpus":"0"}]}`, pod.UID)
			c.Client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID, Annotations: map[string]string{"berth.dev/placement": lie}},
				Target:     corev1.ObjectReference{Kind: "Node", Name: "epyc-a"},
			}, metav1.CreateOptions{})
		}
	}()
	return func() error { cancel(); return nil }, nil
}

// testWrongPredictions checks that the demo notices a decision that the node does not carry out.
func testWrongPredictions(t *testing.T, c *demo.Cluster) {
	startOn(t, c, liar{})
	pinned := []demo.Container{{MilliCPU: 2000, MemoryBytes: 1 << 26}}
	shared := []demo.Container{{MilliCPU: 1500, MemoryBytes: 1 << 26}}
	r := &demo.Runner{Cluster: c, Predicts: true, Workload: demo.Workload{Pods: []demo.Pod{{Name: "a", Containers: pinned}, {Name: "b", Containers: shared}}}}
	report, err := r.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if report.Running != 2 || report.Predicted != 2 || report.Mispredicted != 2 || !strings.Contains(strings.Join(report.Notes, "\n"), "CPUs 1,49, predicted 0") {
		t.Errorf("want 2 running, 2 predicted, both wrongly; got %+v", report)
		for _, n := range c.Nodes {
			t.Logf("%s says: %s", n.Name, n.LogTail(4000))
		}
	}
}

func TestWorkloadComesFromTheSeed(t *testing.T) {
	a, b, c := demo.Generate(7, demo.MinNodes), demo.Generate(7, demo.MinNodes), demo.Generate(8, demo.MinNodes)
	if !reflect.DeepEqual(a, b) {
		t.Error("equal seeds give different workloads")
	}
	if reflect.DeepEqual(a.Pods, c.Pods) {
		t.Error("different seeds give equal workloads")
	}
	if !slices.IsSortedFunc(a.Pods, func(p, q demo.Pod) int { return int(p.At - q.At) }) {
		t.Error("pods are not in the order of their creation")
	}
}

// TestWedge checks for many seeds that a scheduler which compares amounts causes a rejection: the
// first three pods fit their node's free CPUs, but no two of them fit on one of its two NUMA nodes.
func TestWedge(t *testing.T) {
	nodes, err := demo.Nodes(demo.MinNodes)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		pods := demo.Generate(seed, demo.MinNodes).Pods[:3]
		i := slices.IndexFunc(nodes, func(n hollow.Spec) bool { return n.Name == pods[0].Node })
		if i < 0 || !strings.Contains(nodes[i].KubeletConfig, "topologyManagerPolicy: single-numa-node") {
			t.Fatalf("seed %d: the first pod may run on %q: want a node with policy single-numa-node", seed, pods[0].Node)
		}
		total, largest := freeCPUs(t, nodes[i])
		sum := int64(0)
		for _, p := range pods {
			if p.Node != pods[0].Node || p.At != 0 || len(p.Containers) != 1 {
				t.Fatalf("seed %d: %+v is no wedge", seed, p)
			}
			sum += p.Containers[0].MilliCPU / 1000
		}
		if n := pods[0].Containers[0].MilliCPU / 1000; sum > total || 2*n <= largest {
			t.Errorf("seed %d: three pods of %d CPUs on %d free ones, at most %d in a NUMA node: no wedge", seed, n, total, largest)
		}
	}
}

// freeCPUs returns the CPUs of a node that are not reserved, and how many of them the largest NUMA
// node has.
func freeCPUs(t *testing.T, n hollow.Spec) (total, largest int64) {
	t.Helper()
	m := shapes.Machine(n.Machine)
	_, list, _ := strings.Cut(n.KubeletConfig, "reservedSystemCPUs: ")
	list, _, _ = strings.Cut(list, "\n")
	reserved := shapes.CPUs(strings.Trim(list, `"`))
	for _, node := range m.NUMANodes {
		free := node.CPUs.AndNot(&reserved)
		total += int64(free.Len())
		largest = max(largest, int64(free.Len()))
	}
	return total, largest
}

func TestComparisonJSON(t *testing.T) {
	c := demo.Comparison{
		Stock: &demo.Report{Pods: 3, Running: 2, Rejected: map[string]int{"TopologyAffinityError": 1}, NUMANodesPerPod: map[string]int{"1": 2}},
		Berth: &demo.Report{Pods: 3, Running: 3, Rejected: map[string]int{}, NUMANodesPerPod: map[string]int{"1": 3}, SecondsToRunning: demo.Seconds{Quantiles: demo.Quantiles{P50: 0.1, P99: 0.25}}},
	}
	var out bytes.Buffer
	if err := (demo.Comparisons{&c}).WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	const want = `{"stock":{"pods":3,"running":2,"rejected":{"TopologyAffinityError":1},"numaNodesPerPod":{"1":2},"avoidablySplit":0,"avoidablyStranded":0,"strandedDevices":0,"crossSocket":0,"predicted":0,"exact":0,"mispredicted":0,"contended":0,"pending":0,"stalled":0,"outOfTime":false,"secondsToRunning":{"p50":0,"p99":0,"inBoth":{"p50":0,"p99":0},"refused":{"p50":0,"p99":0},"toNode":{"p50":0,"p99":0},"onNode":{"p50":0,"p99":0}}},` +
		`"berth":{"pods":3,"running":3,"rejected":{},"numaNodesPerPod":{"1":3},"avoidablySplit":0,"avoidablyStranded":0,"strandedDevices":0,"crossSocket":0,"predicted":0,"exact":0,"mispredicted":0,"contended":0,"pending":0,"stalled":0,"outOfTime":false,"secondsToRunning":{"p50":0.1,"p99":0.25,"inBoth":{"p50":0,"p99":0},"refused":{"p50":0,"p99":0},"toNode":{"p50":0,"p99":0},"onNode":{"p50":0,"p99":0}}}}` + "\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	if !c.Kept() {
		t.Error("nothing refused, nothing mispredicted: want kept")
	}
	c.Berth.Mispredicted = 1
	if c.Kept() {
		t.Error("a misprediction: want not kept")
	}
	c.Berth = &demo.Report{Rejected: map[string]int{"SMTAlignmentError": 1}}
	if c.Kept() {
		t.Error("a refusal: want not kept")
	}
}

func TestComparisonTable(t *testing.T) {
	c := demo.Comparison{
		Stock: &demo.Report{Pods: 12, Running: 8, Rejected: map[string]int{"TopologyAffinityError": 3}, NUMANodesPerPod: map[string]int{"1": 6, "2": 2}, CrossSocket: 2, Pending: 1, StrandedDevices: 0.21},
		Berth: &demo.Report{Pods: 9, Running: 9, NUMANodesPerPod: map[string]int{"1": 9}, Predicted: 9, Exact: 8, Pending: 1, Stalled: 1, OutOfTime: true, SecondsToRunning: demo.Seconds{Quantiles: demo.Quantiles{P50: 0.5, P99: 12}, InBoth: demo.Quantiles{P99: 10}, ToNode: demo.Quantiles{P99: 11}, OnNode: demo.Quantiles{P99: 0.75}}},
	}
	var out strings.Builder
	if err := (demo.Comparisons{&c}).WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	const want = `
                             kube-scheduler     Berth
pods created                             12         9
ever running                              8         9
refused by the kubelet                    3         0
  TopologyAffinityError                   3         0
waiting in the end                        1         1
  although a node had room                0         1
pods on 1 NUMA node                       6         9
pods on 2 NUMA nodes                      2         0
  avoidably split                         0         0
pods across sockets                       2         0
GPUs without CPUs, mean                0.21      0.00
  avoidably stranded                      0         0
decisions before binding                  0         9
  exact                                   0   8 (88%)
  wrong                                   0         0
  contended                               0         0
seconds to running, median             0.00      0.50
seconds to running, p99                0.00     12.00
  of pods that ran in both             0.00     10.00
  while refused, p99                   0.00      0.00
  until it has a node, p99             0.00     11.00
  from then on, p99                    0.00      0.75
Berth: the time limit ended the run before all pods had been tried; this machine was too slow or too busy, so the numbers are not reliable
`
	if out.String() != want[1:] {
		t.Errorf("got\n%swant%s", out.String(), want)
	}
}

// buildDemo builds the berth-demo command.
func buildDemo(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "berth-demo")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin, "github.com/berth-dev/berth/cmd/berth-demo").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bin
}

// TestDemoCommand starts `berth-demo up`, uses the cluster through the kubeconfig that it writes,
// and ends it with an interrupt and with a kill. No process is left, and after the interrupt no
// file.
func TestDemoCommand(t *testing.T) {
	t.Parallel()
	bin := buildDemo(t)
	t.Run("bad usage", func(t *testing.T) {
		for _, args := range [][]string{{"run", "--output=yaml"}, {"up", "--nodes=0"}, {"run", "--nodes=2"}, {"run", "extra"}, {"nodes"}, {"run", "--seed=x"}, {"up", "--output=json"},
			{"up", "--node=name=a,machine=package:two"}, {"up", "--kubeconfig=/nowhere/kubeconfig"}} {
			var stdout bytes.Buffer
			cmd := exec.Command(bin, args...)
			cmd.Stdout = &stdout
			err := cmd.Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 2 || stdout.Len() > 0 {
				t.Errorf("%v: got %v and %q on standard output, want exit code 2 and nothing", args, err, stdout.String())
			}
		}
	})
	for _, tc := range []struct {
		name string
		sig  os.Signal
		tidy bool
	}{{"interrupt", os.Interrupt, true}, {"kill", os.Kill, false}} {
		t.Run(tc.name, func(t *testing.T) {
			tmp, err := os.MkdirTemp("", "berth-up-")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(tmp)
			cmd := up(t, bin, tmp)
			children := childrenOf(t, cmd.Process.Pid)
			if len(children) < demo.MinNodes+1 {
				t.Errorf("%d child processes: want a scheduler and %d nodes", len(children), demo.MinNodes)
			}
			cmd.Process.Signal(tc.sig)
			if err := cmd.Wait(); tc.tidy && err != nil {
				t.Errorf("after an interrupt: %v, want exit code 0", err)
			}
			for _, pid := range children {
				eventually(t, fmt.Sprintf("process %d ends", pid), func() error {
					if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
						return fmt.Errorf("still there: %v", err)
					}
					return nil
				})
			}
			if left, _ := filepath.Glob(filepath.Join(tmp, "*")); tc.tidy && len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// up runs `berth-demo up --stock` and returns when a client has listed its nodes.
func up(t *testing.T, bin, tmp string) *exec.Cmd {
	t.Helper()
	kubeconfig := filepath.Join(tmp, "kubeconfig")
	cmd := exec.Command(bin, "up", "--stock", fmt.Sprint("--nodes=", demo.MinNodes), "--kubeconfig", kubeconfig)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	cmd.Stderr = lineWriter{t}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	deadline := time.Now().Add(startLimit)
	for {
		if cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig); err == nil {
			nodes, err := kubernetes.NewForConfigOrDie(cfg).CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
			if err != nil || len(nodes.Items) != demo.MinNodes {
				t.Fatalf("nodes: %v (%v), want %d", nodes, err, demo.MinNodes)
			}
			return cmd
		}
		if time.Now().After(deadline) {
			t.Fatal("no kubeconfig was written")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// childrenOf returns the process ids of the children of a process.
func childrenOf(t *testing.T, pid int) (pids []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		data, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(data)) {
			var id int
			if err := json.Unmarshal([]byte(field), &id); err == nil {
				pids = append(pids, id)
			}
		}
	}
	return pids
}
