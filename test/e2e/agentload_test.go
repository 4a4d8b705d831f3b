package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

var (
	loadNodes   = flag.Int("load-nodes", 40, "nodes of the write generator")
	loadWrites  = flag.Int("load-writes", 120, "reports that the write generator changes")
	loadWriters = flag.Int("load-writers", 4, "concurrent writers of the write generator")
)

const gib = 1 << 30

// loadPrefix begins the names of the write generator's nodes.
const loadPrefix = "ip-"

// fullNode is the report of a machine with 256 CPUs on 8 NUMA nodes, 8 GPUs and 60 pinned pods.
func fullNode(t *testing.T, name string) *wire.Node {
	t.Helper()
	m, err := topology.Parse("package:2 numa:4 l3:4 core:4 pu:2 number:interleaved mem:128Gi dist:10,12,32")
	if err != nil {
		t.Fatal(err)
	}
	n := &wire.Node{Name: name, Spec: wire.NodeSpec{Machine: m, Authority: v1alpha1.AuthorityKubelet, KubeletVersion: "v1.36.3", Config: placement.Config{
		CPUManagerPolicy: "static", CPUManagerPolicyOptions: map[string]string{"full-pcpus-only": "true"}, ReservedSystemCPUs: "0-7",
		MemoryManagerPolicy: "Static", TopologyManagerPolicy: "single-numa-node", TopologyManagerScope: "pod",
		ReservedMemory: []placement.ReservedMemory{{NUMA: 0, Limits: map[string]uint64{"memory": gib}}}, NodeReserved: map[string]uint64{"memory": gib},
	}}}
	s := &n.Report.Snapshot
	s.SharedCPUs = m.Online
	for id := range topology.NUMAID(8) {
		s.Memory = append(s.Memory, placement.MemoryTable{NUMA: id, Assignments: 7, Cells: topology.NewNUMASet(id), Resources: []placement.MemoryAmounts{
			{Resource: "hugepages-1Gi", Allocatable: 32 * gib, Free: 32 * gib},
			{Resource: "memory", Allocatable: 127 * gib, Reserved: 52 * gib, Free: 75 * gib},
		}})
	}
	gpus := placement.DevicePool{Resource: "nvidia.com/gpu", Preference: placement.UnknownPreference}
	for i := range 8 {
		gpus.Devices = append(gpus.Devices, placement.Device{ID: fmt.Sprintf("GPU-0650a168-e770-3ea8-8ac3-8a1d419763e%d", i), NUMA: 1 << i, HasTopology: true})
	}
	s.Devices = []placement.DevicePool{gpus}
	for i := range 60 {
		addPod(n, i, gpus.Devices)
	}
	n.Report.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConsistent, LastTransitionTime: metav1.Now()}}
	return n
}

func addPod(n *wire.Node, i int, gpus []placement.Device) {
	cpus := topology.NewCPUSet(topology.CPUID(2*i+8), topology.CPUID(2*i+9), topology.CPUID(2*i+136), topology.CPUID(2*i+137)).And(&n.Spec.Machine.Online)
	n.Report.Snapshot.SharedCPUs = n.Report.Snapshot.SharedCPUs.AndNot(&cpus)
	c := placement.ContainerAllocation{Name: "inference", CPUs: cpus, Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: 1 << (i % 8), Bytes: 7 * gib}}}
	if i < len(gpus) {
		c.Devices = []placement.DeviceAllocation{{Resource: "nvidia.com/gpu", IDs: []string{gpus[i].ID}}}
	}
	n.Report.Snapshot.Pods = append(n.Report.Snapshot.Pods, placement.PodAllocation{
		UID: fmt.Sprintf("39b37746-7f5e-4064-b8e1-eebd2bfaa0%02d", i), Containers: []placement.ContainerAllocation{c},
	})
	n.Report.Pods = append(n.Report.Pods, wire.ReportedPod{Namespace: "machine-learning", Name: fmt.Sprintf("llama-server-6d4cf56db6-x7k%02d", i)})
}

// load writes reports as agents do and measures the cost.
type load struct {
	t      *testing.T
	client dynamic.Interface
	mu     sync.Mutex
	took   []time.Duration
}

func (l *load) apply(ctx context.Context, n *wire.Node) {
	nt, err := wire.WriteNodeTopology(n)
	if err != nil {
		l.t.Error(err)
		return
	}
	data, err := json.Marshal(nt)
	if err != nil {
		l.t.Error(err)
		return
	}
	begun := time.Now()
	_, err = l.client.Resource(v1alpha1.NodeTopologies).Patch(ctx, n.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: "berth-agent", Force: new(true)})
	if err != nil {
		l.t.Error(err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, time.Since(begun))
}

// run does n pieces of work with the flag's number of writers, and logs the time and the CPU time.
func (l *load) run(what string, n int, work func(i int)) {
	l.took = nil
	var next atomic.Int64
	var group sync.WaitGroup
	begun, cpu := time.Now(), cpuTime()
	for range *loadWriters {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				work(i)
			}
		})
	}
	group.Wait()
	wall, used := time.Since(begun), cpuTime()-cpu
	slices.Sort(l.took)
	if len(l.took) == 0 {
		l.t.Fatalf("%s: nothing was written", what)
	}
	l.t.Logf("%s: %d in %v, %.0f/s; CPU of API server, etcd and writers together %.2f ms each; latency p50 %v p99 %v", what, n,
		wall.Round(time.Millisecond), float64(n)/wall.Seconds(), float64(used.Microseconds())/1000/float64(n),
		l.took[len(l.took)/2].Round(10*time.Microsecond), l.took[len(l.took)*99/100].Round(10*time.Microsecond))
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// testReportLoad is the write generator: full reports of many nodes, created, then changed one pod
// at a time. For the figures of 5,000 nodes: -run TestInstalled/load -load-nodes 5000 -load-writes
// 20000.
func testReportLoad(t *testing.T, cp *controlplane.ControlPlane) {
	l := &load{t: t, client: dynamic.NewForConfigOrDie(cp.RESTConfig())}
	nodes := make([]*wire.Node, *loadNodes)
	for i := range nodes {
		nodes[i] = fullNode(t, fmt.Sprintf(loadPrefix+"10-%d-%d.eu-central-1.compute.internal", i/256, i%256))
		nodes[i].Report.Sequence = 1
	}
	watched := l.watch(t.Context())
	l.run("reports created", len(nodes), func(i int) { l.apply(t.Context(), nodes[i]) })
	wantStoredSize(t, l.client, nodes[0].Name)
	var locks = make([]sync.Mutex, len(nodes))
	l.run("reports changed", *loadWrites, func(i int) {
		k := i % len(nodes)
		locks[k].Lock()
		defer locks[k].Unlock()
		n := nodes[k]
		n.Report.Sequence++
		n.Report.Observed = time.Now()
		pod := &n.Report.Snapshot.Pods[(i/len(nodes))%60]
		pod.UID = fmt.Sprintf("%08x-7f5e-4064-b8e1-eebd2bfaa000", i+1)
		l.apply(t.Context(), n)
	})
	l.heartbeats(cp, len(nodes))
	if got, want := watched.Load(), int64(len(nodes)+*loadWrites); got > want {
		t.Errorf("%d watch events for %d writes", got, want)
	}
}

// watch counts events of the generator's nodes, as one scheduler would receive them.
func (l *load) watch(ctx context.Context) *atomic.Int64 {
	l.t.Helper()
	var count atomic.Int64
	w, err := l.client.Resource(v1alpha1.NodeTopologies).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(w.Stop)
	go func() {
		for ev := range w.ResultChan() {
			if u, ok := ev.Object.(*unstructured.Unstructured); ok && strings.HasPrefix(u.GetName(), loadPrefix) {
				count.Add(1)
			}
		}
	}()
	return &count
}

// heartbeats renews the nodes' Leases as agents do.
func (l *load) heartbeats(cp *controlplane.ControlPlane, nodes int) {
	leases := kubernetes.NewForConfigOrDie(cp.RESTConfig()).CoordinationV1().Leases(v1alpha1.HeartbeatNamespace)
	beat := func(i int) {
		text := fmt.Sprintf(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"berth-agent.n%d"},"spec":{"renewTime":%q}}`,
			i%nodes, time.Now().UTC().Format(metav1.RFC3339Micro))
		begun := time.Now()
		if _, err := leases.Patch(l.t.Context(), fmt.Sprintf("berth-agent.n%d", i%nodes), types.ApplyPatchType, []byte(text), metav1.PatchOptions{FieldManager: "berth-agent", Force: new(true)}); err != nil {
			l.t.Error(err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.took = append(l.took, time.Since(begun))
	}
	l.run("heartbeats", 2*nodes, beat)
}

// wantStoredSize checks the size of the stored and sent object, with owner and managed fields.
func wantStoredSize(t *testing.T, client dynamic.Interface, name string) {
	t.Helper()
	u, err := client.Resource(v1alpha1.NodeTopologies).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
	bare, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("256 CPUs, 8 NUMA nodes, 8 GPUs, 60 pinned pods: %d bytes, of which field bookkeeping %d", len(all), len(all)-len(bare))
	if limit := 16 << 10; len(all) > limit {
		t.Errorf("%d bytes stored, want at most %d", len(all), limit)
	}
}
