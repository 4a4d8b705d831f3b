package bench

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/test/conformance/oracle"
	"github.com/berth-dev/berth/test/replay/cases"
	"github.com/berth-dev/berth/topology"
)

const (
	gib   = 1 << 30
	gpu   = "example.com/gpu"
	gpus  = 8
	podID = "pod"
)

// machine is a regular machine: sockets x NUMA nodes per socket x cores x threads. CPUs are
// numbered as Linux does on x86: the first threads of all cores, then the second ones.
type machine struct {
	name                           string
	sockets, nodes, cores, threads int
	bytes, gigapages               uint64 // per NUMA node
}

// The machines have 256 CPUs, 1 TiB of memory and 128 huge pages of 1 GiB.
var (
	m2 = machine{"M2", 2, 1, 64, 2, 512 * gib, 64}
	m8 = machine{"M8", 2, 4, 16, 2, 128 * gib, 16}
)

func (m machine) numaNodes() int { return m.sockets * m.nodes }

// caseOf returns the case that both the kubelet and the engine get: the machine with a kubelet of
// the given policy and eight GPUs, spread evenly over the NUMA nodes.
func (m machine) caseOf(policy string) *cases.Case {
	c := &cases.Case{ID: m.name, Config: cases.Config{
		CPUManagerPolicy: "static", ReservedSystemCPUs: "0",
		MemoryManagerPolicy:   "Static",
		ReservedMemory:        []cases.ReservedMemory{{NUMANode: 0, Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}},
		TopologyManagerPolicy: policy,
	}}
	for n := range m.numaNodes() {
		c.Machine.Nodes = append(c.Machine.Nodes, m.node(n))
	}
	pool := cases.Pool{Resource: gpu, Preferred: cases.PreferSorted}
	for i := range gpus {
		pool.Devices = append(pool.Devices, cases.Device{ID: fmt.Sprint("gpu", i), NUMA: []topology.NUMAID{topology.NUMAID(i * m.numaNodes() / gpus)}})
	}
	c.Devices = []cases.Pool{pool}
	return c
}

func (m machine) node(n int) cases.Node {
	out := cases.Node{ID: topology.NUMAID(n), Memory: m.bytes, HugePages: []cases.HugePages{{SizeKB: gib >> 10, Count: m.gigapages}}}
	for c := range m.cores {
		core := cases.Core{ID: c, Socket: n / m.nodes}
		for t := range m.threads {
			core.Threads = append(core.Threads, topology.CPUID(t*m.numaNodes()*m.cores+n*m.cores+c))
		}
		out.Cores = append(out.Cores, core)
	}
	return out
}

// load returns one pod for each NUMA node. It has half of the node's CPUs, chosen thread by thread
// at random, and a quarter of the node's memory.
func (m machine) load() []oracle.Held {
	r := rand.New(rand.NewPCG(1, 2))
	var all []oracle.Held
	for n := range m.numaNodes() {
		h := oracle.Held{NUMA: topology.NUMAID(n), Bytes: m.bytes / 4}
		var ids []topology.CPUID
		node := m.node(n)
		for _, c := range node.Cores {
			ids = append(ids, c.Threads...)
		}
		half := len(ids) / 2
		r.Shuffle(len(ids), func(a, b int) { ids[a], ids[b] = ids[b], ids[a] })
		for _, id := range ids {
			if id != 0 && h.CPUs.Len() < half { // CPU 0 is reserved
				h.CPUs.Add(id)
			}
		}
		all = append(all, h)
	}
	return all
}

// pod is a Guaranteed pod of one container.
func pod(uid string, amounts corev1.ResourceList) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "default", UID: types.UID(uid)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "image", Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts.DeepCopy()},
		}}},
	}
	oracle.Prepare(p)
	return p
}

// pod1 asks for two resources: 8 CPUs and 16 GiB of memory.
func pod1() *corev1.Pod {
	return pod(podID, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi")})
}

// pod2 asks for four resources: those of pod1, 4 GiB of huge pages and a GPU.
func pod2() *corev1.Pod {
	return pod(podID, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		"hugepages-1Gi": resource.MustParse("4Gi"), gpu: resource.MustParse("1")})
}

// loadPod returns the pod for an entry of a load.
func loadPod(h oracle.Held) *corev1.Pod {
	return pod(fmt.Sprint("load", h.NUMA), corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(h.CPUs.Len()), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(h.Bytes), resource.BinarySI),
	})
}

// question is a pod and a machine.
type question struct {
	machine machine
	// pod is "P1" or "P2".
	pod, policy string
	// half means that the machine is half full, otherwise it is empty.
	half bool
}

func (q question) String() string {
	load := "empty"
	if q.half {
		load = "half"
	}
	return q.machine.name + "/" + q.pod + "/" + q.policy + "/" + load
}

func (q question) asked() *corev1.Pod {
	if q.pod == "P2" {
		return pod2()
	}
	return pod1()
}

// questions returns all questions of the comparison.
func questions() []question {
	var all []question
	for _, m := range []machine{m2, m8} {
		for _, p := range []string{"P1", "P2"} {
			for _, policy := range []string{"restricted", "single-numa-node"} {
				for _, half := range []bool{true, false} {
					all = append(all, question{m, p, policy, half})
				}
			}
		}
	}
	return all
}
