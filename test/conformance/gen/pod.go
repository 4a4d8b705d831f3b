package gen

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/test/replay/cases"
)

// podMaker knows the node that pods are made for.
type podMaker struct {
	dice
	machine *cases.Machine
	config  *cases.Config
	pools   []cases.Pool
	// lists is the maximum number of resources of a pod for which the kubelet gets a list of hints.
	lists int
	cpus  int
	// perNode is the CPUs of an average node.
	perNode, smt int
	// scale makes the pods of a case large or small.
	scale float64
}

func newPodMaker(d dice, c *cases.Case) *podMaker {
	p := &podMaker{dice: d, machine: &c.Machine, config: &c.Config, pools: c.Devices, cpus: len(cpusOf(&c.Machine)), smt: 1}
	p.perNode = max(1, p.cpus/len(c.Machine.Nodes))
	for i := range c.Machine.Nodes {
		for _, core := range c.Machine.Nodes[i].Cores {
			p.smt = max(p.smt, len(core.Threads))
		}
	}
	p.scale = pick(d, 0.15, 0.3, 0.5, 0.8, 1)
	p.lists = p.affordable()
	return p
}

// affordable returns how many lists of 2^nodes-1 hints a container may have, so that the kubelet
// needs about 20 milliseconds for their combinations. Sometimes it returns one more, which may take
// half a second.
func (p *podMaker) affordable() int {
	if t := p.config.TopologyManagerPolicy; t == "" || t == "none" || t == "single-numa-node" {
		return 99
	}
	hints := math.Pow(2, float64(len(p.machine.Nodes))) - 1
	if hints < 4 {
		return 99
	}
	budget := 7e4
	if p.chance(2) {
		budget = 2.2e6
	}
	return int(math.Log(budget) / math.Log(hints))
}

func (p *podMaker) pod(uid string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "default", UID: types.UID(uid)}}
	guaranteed := p.chance(72)
	plain := p.chance(45) // one container, nothing special
	apps, inits := 1, 0
	if !plain {
		apps, inits = p.between(1, 3), p.weighted(50, 28, 15, 7)
	}
	extras := p.extras(guaranteed)
	for i := range inits {
		c := p.container(fmt.Sprintf("i%d", i), guaranteed, extras)
		if p.chance(40) {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for i := range apps {
		pod.Spec.Containers = append(pod.Spec.Containers, p.container(fmt.Sprintf("c%d", i), guaranteed, extras))
	}
	p.rarities(pod, guaranteed)
	return pod
}

// extras are the resources other than CPU and memory that the containers of a pod may request.
func (p *podMaker) extras(guaranteed bool) []corev1.ResourceName {
	left := p.lists
	if guaranteed && p.config.CPUManagerPolicy == "static" {
		left--
	}
	static := guaranteed && p.config.MemoryManagerPolicy == "Static"
	if static {
		left--
	}
	var all []corev1.ResourceName
	for _, h := range p.machine.Nodes[0].HugePages {
		if p.chance(40) {
			all = append(all, hugePageName(h.SizeKB))
		}
	}
	for _, pool := range p.pools {
		if p.chance(60) {
			all = append(all, corev1.ResourceName(pool.Resource))
		}
	}
	if len(all) > max(left, 0) {
		all = some(p.dice, all, max(left, 0))
	}
	return all
}

func (p *podMaker) container(name string, guaranteed bool, extras []corev1.ResourceName) corev1.Container {
	c := corev1.Container{Name: name}
	limits, requests := corev1.ResourceList{}, corev1.ResourceList{}
	if guaranteed {
		limits[corev1.ResourceCPU], limits[corev1.ResourceMemory] = p.cpu(), p.bytes()
		if p.chance(40) {
			requests[corev1.ResourceCPU] = limits[corev1.ResourceCPU]
		}
	} else {
		if p.chance(60) {
			requests[corev1.ResourceCPU] = p.cpu()
		}
		if p.chance(40) {
			limits[corev1.ResourceMemory] = p.bytes()
		}
	}
	for _, name := range extras {
		if p.chance(70) {
			p.extra(name, limits)
		}
	}
	if len(limits) > 0 {
		c.Resources.Limits = limits
	}
	if len(requests) > 0 {
		c.Resources.Requests = requests
	}
	return c
}

func (p *podMaker) extra(name corev1.ResourceName, limits corev1.ResourceList) {
	for i := range p.machine.Nodes {
		for _, h := range p.machine.Nodes[i].HugePages {
			if hugePageName(h.SizeKB) == name {
				pages := p.between(1, max(1, int(float64(h.Count)*p.scale*1.2)))
				limits[name] = *resource.NewQuantity(int64(pages)*int64(h.SizeKB)<<10, resource.BinarySI)
				return
			}
		}
	}
	n := pick(p.dice, 1, 1, 1, 2, 2, 3, 4)
	if p.chance(2) {
		n = 0
	}
	limits[name] = *resource.NewQuantity(int64(n), resource.DecimalSI)
}

// cpu returns an amount of a core, some cores, a node, a socket, or more than any node has.
func (p *podMaker) cpu() resource.Quantity {
	if p.chance(12) {
		return *resource.NewMilliQuantity(int64(p.between(1, p.perNode*1500)), resource.DecimalSI)
	}
	most := max(1, int(float64(p.perNode)*p.scale*1.3))
	n := p.between(1, most)
	switch {
	case p.chance(8):
		n = p.perNode
	case p.chance(5):
		n = p.between(p.perNode, p.cpus)
	case p.chance(1.5):
		n = p.cpus + p.between(-1, 2)
	case p.chance(1):
		return resource.MustParse("0")
	}
	if p.chance(55) {
		n = (n + p.smt - 1) / p.smt * p.smt
	}
	return *resource.NewQuantity(int64(max(n, 1)), resource.DecimalSI)
}

func (p *podMaker) bytes() resource.Quantity {
	node := pick(p.dice, p.machine.Nodes...)
	switch {
	case p.chance(55):
		return resource.MustParse(fmt.Sprintf("%dMi", p.between(1, 512)))
	case p.chance(3):
		return *resource.NewQuantity(int64(node.Memory)*2, resource.BinarySI)
	case p.chance(1):
		return resource.MustParse(pick(p.dice, "0", "1500m", "1073741824500m")) // the last two are not whole bytes
	}
	most := int(float64(node.Memory) * p.scale)
	return *resource.NewQuantity(int64(p.between(mib, max(mib+1, most))), resource.BinarySI)
}

// rarities are legal but rare: resources of the pod as a whole, ephemeral containers, overhead, a
// given QoS class.
func (p *podMaker) rarities(pod *corev1.Pod, guaranteed bool) {
	if p.hasGate(ManagersGate) {
		if p.chance(60) && extrasOf(pod)+2 <= max(p.lists, 2) {
			p.level(pod)
		}
	} else if p.chance(3) || (p.hasGate(PodLevelGate) || p.hasGate(QOSGate)) && p.chance(40) {
		pod.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(int64(p.between(1, p.cpus)), resource.DecimalSI), corev1.ResourceMemory: p.bytes()}}
		switch p.weighted(70, 10, 10, 10) {
		case 1:
			pod.Spec.Resources.Limits = corev1.ResourceList{"hugepages-2Mi": resource.MustParse("2Mi")}
		case 2:
			pod.Spec.Resources.Requests, pod.Spec.Resources.Limits = pod.Spec.Resources.Limits, nil
		case 3:
			pod.Spec.Resources.Limits = nil
		}
	}
	if p.chance(1) || p.hasGate(ClaimsGate) && p.chance(40) {
		p.claim(pod)
	}
	if p.chance(2) {
		pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	}
	if p.chance(2) {
		pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	}
	if p.chance(2) {
		pod.Status.QOSClass = corev1.PodQOSBurstable
		if guaranteed && p.chance(50) { // the API server sets this class only on Guaranteed pods
			pod.Status.QOSClass = corev1.PodQOSGuaranteed
		}
	}
}

// hasGate reports whether the case sets a feature gate.
func (p *podMaker) hasGate(name string) bool {
	_, set := p.config.FeatureGates[name]
	return set
}
