package demo

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pod is a pod of the workload: what a user wants, at a time.
type Pod struct {
	Name string
	// At is when it is created, counted from the beginning.
	At time.Duration
	// Life is how long after its creation it is deleted; 0: it stays.
	Life       time.Duration
	Containers []Container
	// Node, when not empty, is the only node that the pod may run on, by node selector.
	Node string
}

// Container is a container of a Pod. Requests equal limits unless Burstable.
type Container struct {
	// MilliCPU is the CPU request in thousandths; 0: none, and no memory either.
	MilliCPU    int64
	MemoryBytes int64
	// Burstable containers have a CPU limit of twice the request.
	Burstable bool
}

// Workload is what a run does, made from a seed alone.
type Workload struct {
	Seed uint64
	Pods []Pod // ascending by At
}

// The load is sized to keep the CPUs of the nodes nearly all asked for, so that NUMA nodes are scarce.
const (
	// burst is how many pods are created at once in the beginning, for each node.
	burstPerNode = 9
	// churnPerNode is how many follow, for each node, one by one.
	churnPerNode = 41
	// churnTime is the time during which they follow.
	churnTime = 55 * time.Second
	// meanLife of a pod that does not stay.
	meanLife = 9 * time.Second
	// minLife leaves a pod time to be started and looked at.
	minLife = 2 * time.Second
	// maxLife keeps the end of a run from dragging on.
	maxLife = 25 * time.Second
)

// Generate makes the workload for count nodes as Nodes gives them. Equal seeds give equal workloads.
//
// It begins with the wedge: on each node that has one, three pods that fit its free CPUs exactly by amount, but two of
// which fill its two NUMA nodes. A scheduler that only adds up amounts binds all three, and the kubelet,
// told to keep pods on single NUMA nodes, refuses the third. That holds for any seed.
func Generate(seed uint64, count int) Workload {
	g := generator{rand.New(rand.NewPCG(seed, 0x6265727468))}
	w := Workload{Seed: seed}
	for i := range count {
		s := &nodeShapes[i%len(nodeShapes)]
		if s.wedge == 0 {
			continue
		}
		for range 3 {
			w.add(Pod{Node: s.spec(i / len(nodeShapes)).Name, Life: g.life(), Containers: []Container{g.pinned(s.wedge)}})
		}
	}
	for range burstPerNode * count {
		w.add(Pod{Life: g.life(), Containers: g.containers()})
	}
	churn := churnPerNode * count
	for i := range churn {
		at := time.Second + churnTime*time.Duration(i)/time.Duration(churn)
		w.add(Pod{At: at, Life: g.life(), Containers: g.containers()})
	}
	return w
}

func (w *Workload) add(p Pod) {
	p.Name = fmt.Sprintf("pod-%04d", len(w.Pods))
	w.Pods = append(w.Pods, p)
}

// Length is the time from the first to the last creation.
func (w *Workload) Length() time.Duration { return w.Pods[len(w.Pods)-1].At }

type generator struct{ r *rand.Rand }

// life is exponential above the minimum, and cut off; one pod in twelve stays.
func (g generator) life() time.Duration {
	if g.r.IntN(12) == 0 {
		return 0
	}
	return min(maxLife, minLife+time.Duration(g.r.ExpFloat64()*float64(meanLife-minLife))).Round(time.Millisecond)
}

// containers are those of a pod: three in four have one container of whole CPUs.
func (g generator) containers() []Container {
	switch n := g.r.IntN(100); {
	case n < 75:
		return []Container{g.pinned(g.size())}
	case n < 83:
		return []Container{g.pinned(1 + g.r.Int64N(4)), g.pinned(1 + g.r.Int64N(4))}
	case n < 88:
		return []Container{{MilliCPU: 500 + 1000*g.r.Int64N(3), MemoryBytes: 128 << 20}} // Guaranteed, yet not pinned
	case n < 95:
		return []Container{{MilliCPU: 250 * (1 + g.r.Int64N(8)), MemoryBytes: 128 << 20, Burstable: true}}
	default:
		return []Container{{}} // best effort
	}
}

func (g generator) pinned(cpus int64) Container {
	return Container{MilliCPU: 1000 * cpus, MemoryBytes: (1 + g.r.Int64N(8)) << 26}
}

// sizes are how often pinned containers ask for how many CPUs.
var sizes = []struct{ cpus, weight int64 }{
	{1, 6}, {2, 14}, {3, 5}, {4, 16}, {5, 3}, {6, 12}, {7, 3}, {8, 16}, {10, 8}, {12, 8}, {14, 4}, {16, 4}, {20, 2}, {24, 2}, {30, 1},
}

func (g generator) size() int64 {
	total := int64(0)
	for _, s := range sizes {
		total += s.weight
	}
	n := g.r.Int64N(total)
	for _, s := range sizes {
		if n -= s.weight; n < 0 {
			return s.cpus
		}
	}
	panic("demo: weights do not add up") // n is below their sum
}

// image of all containers: nothing is pulled, nothing runs.
const image = "berth.dev/demo:1"

// Object returns the pod as an API object with the name.
func (p *Pod) Object(name string) *corev1.Pod {
	grace := int64(2)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace, Labels: map[string]string{"app": "demo"}},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: &grace},
	}
	if p.Node != "" {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: p.Node}
	}
	for i := range p.Containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: fmt.Sprintf("c%d", i), Image: image, Resources: p.Containers[i].resources(),
		})
	}
	return pod
}

func (c *Container) resources() corev1.ResourceRequirements {
	if c.MilliCPU == 0 {
		return corev1.ResourceRequirements{}
	}
	list := func(milli int64) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(milli, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(c.MemoryBytes, resource.BinarySI),
		}
	}
	r := corev1.ResourceRequirements{Requests: list(c.MilliCPU), Limits: list(c.MilliCPU)}
	if c.Burstable {
		r.Limits = list(2 * c.MilliCPU)
	}
	return r
}
