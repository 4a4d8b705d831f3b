package demo

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/hollow"
)

// Namespace is the namespace of the demo's pods.
const Namespace = "demo"

// Pod is a pod of the workload: its requests, and the times of its creation and deletion.
type Pod struct {
	Name string
	// At is the time when the pod is created, from the beginning of the run.
	At time.Duration
	// Life is the time from the pod's creation to its deletion; 0 means that nothing deletes the
	// pod.
	Life time.Duration
	// Init are the pod's init containers and sidecars, in their order.
	Init       []Container
	Containers []Container
	// Node is the only node on which the pod may run, by node selector; "" allows all nodes.
	Node string
}

// Container is a container of a Pod. Requests equal limits unless Burstable.
type Container struct {
	// MilliCPU is the CPU request in thousandths; 0 means no requests at all.
	MilliCPU    int64
	MemoryBytes int64
	// Burstable containers have a CPU limit of twice the request.
	Burstable bool
	// Sidecar is an init container that keeps running. Other init containers end by themselves.
	Sidecar bool
	// More are further requests: huge pages in bytes, and numbers of devices.
	More map[corev1.ResourceName]int64
}

// Workload is the list of pods of a run. It depends only on a seed and on the nodes.
type Workload struct {
	Seed uint64
	Pods []Pod // ascending by At
}

// With these numbers, the pods that exist at any time request about half of all CPUs, and two
// thirds of the CPUs of nodes with GPUs.
const (
	// burstPerNode is the number of pods per node that are created at once at the beginning.
	burstPerNode = 6
	// churnPerNode is the number of pods per node that are created one by one after the burst.
	churnPerNode = 28
	// churnTime is the time during which the pods after the burst are created.
	churnTime = 75 * time.Second
	// meanLife is the mean life of a pod that is deleted during the run.
	meanLife = 11 * time.Second
	// minLife leaves enough time to start a pod and to read its assignments.
	minLife = 2 * time.Second
	// batch is the number of pods that ask only for CPUs and are created soon after the burst.
	// There is no batch if a shape has no node. The pods of the batch run for most of the run. A
	// scheduler that puts them on the NUMA nodes of GPUs leaves these GPUs without CPUs.
	batch     = 30
	batchCPUs = 16
	batchFrom = 500 * time.Millisecond
	// batchEvery is the interval between the pods of the batch. It is so short that all of them are
	// created before the churn.
	batchEvery = 15 * time.Millisecond
	batchLife  = time.Minute
	// maxLife limits the random lives of pods, so that the end of a run does not take long.
	maxLife = 25 * time.Second
)

// Generate returns the workload for the nodes of Nodes(count). Equal seeds give equal workloads.
// Pods ask for huge pages and devices only if there is a node of every shape.
//
// The workload begins with the wedge: for some nodes, three pods that together request nearly all
// free CPUs. Two of them leave too few CPUs for the third on each of the two NUMA nodes. A
// scheduler that only adds up amounts binds all three pods, and the kubelet refuses the third,
// because it must keep each pod on one NUMA node. Every seed gives a workload with the wedge.
func Generate(seed uint64, count int) Workload {
	g := generator{rand.New(rand.NewPCG(seed, 0x6265727468)), ordinary}
	if count >= len(nodeShapes) {
		g.kinds = append(slices.Clip(ordinary), special...)
	}
	w := Workload{Seed: seed}
	for i := range count {
		s := &nodeShapes[i%len(nodeShapes)]
		if s.wedge == 0 {
			continue
		}
		for range 3 {
			w.add(Pod{Node: s.nodeName(i / len(nodeShapes)), Life: g.life(), Containers: []Container{g.pinned(s.wedge)}})
		}
	}
	for range burstPerNode * count {
		w.add(g.pod(0))
	}
	if count >= len(nodeShapes) {
		for i := range batch {
			w.add(Pod{At: batchFrom + batchEvery*time.Duration(i), Life: batchLife, Containers: []Container{g.pinned(batchCPUs)}})
		}
	}
	churn := churnPerNode * count
	for i := range churn {
		w.add(g.pod(time.Second + churnTime*time.Duration(i)/time.Duration(churn)))
	}
	return w
}

func (w *Workload) add(p Pod) {
	p.Name = fmt.Sprintf("pod-%04d", len(w.Pods))
	w.Pods = append(w.Pods, p)
}

// Length is the time from the first to the last creation.
func (w *Workload) Length() time.Duration { return w.Pods[len(w.Pods)-1].At }

type generator struct {
	r     *rand.Rand
	kinds []podKind
}

// podKind is a kind of pod and its relative frequency.
type podKind struct {
	weight int
	fill   func(generator, *Pod)
}

// ordinary are pods without devices and huge pages. Most have one container with whole CPUs.
var ordinary = []podKind{
	{54, func(g generator, p *Pod) { p.Containers = []Container{g.pinned(g.size())} }},
	{8, func(g generator, p *Pod) { p.Containers = []Container{g.pinned(g.upTo(4)), g.pinned(g.upTo(4))} }},
	{7, func(g generator, p *Pod) { // the container reuses the CPUs of the init container
		p.Init, p.Containers = []Container{g.pinned(g.upTo(4))}, []Container{g.pinned(4 + g.upTo(4))}
	}},
	{6, func(g generator, p *Pod) { // the proxy is pinned too
		p.Init, p.Containers = []Container{g.sidecar(1000)}, []Container{g.pinned(g.upTo(8))}
	}},
	{4, func(g generator, p *Pod) { // a proxy on the shared CPUs, and an init container after it
		p.Init, p.Containers = []Container{g.sidecar(250), g.pinned(2)}, []Container{g.pinned(2 * g.upTo(4))}
	}},
	{5, func(g generator, p *Pod) { // Guaranteed but not pinned
		p.Containers = []Container{{MilliCPU: 1000*g.upTo(3) - 500, MemoryBytes: 128 << 20}}
	}},
	{7, func(g generator, p *Pod) {
		p.Containers = []Container{{MilliCPU: 250 * g.upTo(8), MemoryBytes: 128 << 20, Burstable: true}}
	}},
	{5, func(_ generator, p *Pod) { p.Containers = []Container{{}} }}, // best effort
}

// special are pods for the nodes with devices or huge pages.
var special = []podKind{
	{12, func(g generator, p *Pod) { p.Containers = []Container{g.training()} }},
	{4, func(g generator, p *Pod) { // an init container without GPUs fetches data first
		p.Init, p.Containers = []Container{g.pinned(2)}, []Container{g.training()}
	}},
	{8, func(g generator, p *Pod) { // packet processing with huge pages
		c := g.pinned(2 * g.upTo(4))
		c.More = map[corev1.ResourceName]int64{"hugepages-2Mi": g.upTo(4) << 29}
		p.Containers = []Container{c}
	}},
	{4, func(g generator, p *Pod) { // a database
		c := g.pinned(2 * g.upTo(6))
		c.More = map[corev1.ResourceName]int64{"hugepages-1Gi": g.upTo(6) << 30}
		p.Containers = []Container{c}
	}},
}

// cpusPerGPU is the smallest CPU request per GPU of a training pod.
const cpusPerGPU = 4

func (g generator) pod(at time.Duration) Pod {
	p := Pod{At: at, Life: g.life()}
	kind := weighted(g.r, g.kinds, func(k podKind) int { return k.weight })
	kind.fill(g, &p)
	return p
}

// weighted returns a random element. The probability of an element is proportional to its weight.
func weighted[T any](r *rand.Rand, all []T, weight func(T) int) T {
	total := 0
	for _, one := range all {
		total += weight(one)
	}
	n := r.IntN(total)
	at := slices.IndexFunc(all, func(one T) bool { n -= weight(one); return n < 0 })
	return all[at]
}

// upTo returns 1 to n.
func (g generator) upTo(n int64) int64 { return 1 + g.r.Int64N(n) }

// life returns a random life: exponential above the minimum, with a maximum. One pod in twelve is
// not deleted.
func (g generator) life() time.Duration {
	if g.r.IntN(12) == 0 {
		return 0
	}
	return min(maxLife, minLife+time.Duration(g.r.ExpFloat64()*float64(meanLife-minLife))).Round(time.Millisecond)
}

// training returns a container with GPUs, with CPUs and memory in proportion to them, and often
// with a network card.
func (g generator) training() Container {
	gpus := []int64{1, 1, 2, 2, 4}[g.r.IntN(5)]
	c := Container{MilliCPU: 1000 * gpus * (4 + 2*g.r.Int64N(3)), MemoryBytes: gpus * 16 << 30, More: map[corev1.ResourceName]int64{gpuResource: gpus}}
	if g.r.IntN(2) == 0 {
		c.More[nicResource] = 1
	}
	return c
}

func (g generator) sidecar(milli int64) Container {
	return Container{MilliCPU: milli, MemoryBytes: 64 << 20, Sidecar: true}
}

func (g generator) pinned(cpus int64) Container {
	return Container{MilliCPU: 1000 * cpus, MemoryBytes: (1 + g.r.Int64N(8)) << 26}
}

// sizes are the CPU requests of pinned containers, with their frequencies.
var sizes = []podSize{
	{1, 6}, {2, 14}, {3, 5}, {4, 16}, {5, 3}, {6, 12}, {7, 3}, {8, 16}, {10, 8}, {12, 8}, {14, 4}, {16, 5}, {20, 3}, {24, 3}, {30, 2}, {48, 1},
}

type podSize struct {
	cpus   int64
	weight int
}

func (g generator) size() int64 {
	return weighted(g.r, sizes, func(s podSize) int { return s.weight }).cpus
}

// image is the image of all containers except containers that end by themselves. Hollow nodes do
// not pull images and run no programs.
const image = "berth.dev/demo:1"

// initTime is the time for which an init container runs.
const initTime = 200 * time.Millisecond

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
	for i := range p.Init {
		c := corev1.Container{Name: fmt.Sprintf("i%d", i), Image: hollow.ExitImage(initTime), Resources: p.Init[i].resources()}
		if p.Init[i].Sidecar {
			always := corev1.ContainerRestartPolicyAlways
			c.Image, c.RestartPolicy = image, &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
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
		l := corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(milli, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(c.MemoryBytes, resource.BinarySI),
		}
		for name, n := range c.More {
			l[name] = *resource.NewQuantity(n, resource.BinarySI)
		}
		return l
	}
	r := corev1.ResourceRequirements{Requests: list(c.MilliCPU), Limits: list(c.MilliCPU)}
	if c.Burstable {
		r.Limits = list(2 * c.MilliCPU)
	}
	return r
}
