package demo

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

const (
	// lookBack is how long room must have been free before a pod ran for a scheduler to have known
	// of it.
	lookBack = 3 * time.Second
	// lookOn is how long after that the judgement waits, for pods that were placed before and run
	// later.
	lookOn = 2 * time.Second
	// cpusPerGPU is what the least demanding training pod asks for beside a GPU.
	cpusPerGPU = 4
)

// places follows what pods hold on the nodes, to tell which splits over NUMA nodes were avoidable
// and which devices lie idle beside CPUs that are used up. Memory is left out: the demo's nodes
// have plenty.
type places struct {
	nodes map[string]*placesNode
	// split are pods over several NUMA nodes that are to be judged.
	split []splitPod
}

type placesNode struct {
	model *placement.Model
	pools []placement.DevicePool
	// milliCPU is what pods may ask for in all.
	milliCPU int64
	machine  *topology.Machine
	reserved topology.CPUSet
	pods     map[string]*placed
}

// placed is a pod on a node, also for some time after it is gone.
type placed struct {
	milliCPU int64
	// held is what it holds; nil before it runs.
	held map[string]*holding
	gone time.Time // zero: it is there
}

// splitPod is a pod that holds something of several NUMA nodes.
type splitPod struct {
	pod  *corev1.Pod
	numa int
	ran  time.Time
}

func newPlaces(specs map[string]*hollow.Spec) (*places, error) {
	p := &places{nodes: map[string]*placesNode{}}
	for name, spec := range specs {
		n, err := newPlacesNode(spec)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", name, err)
		}
		p.nodes[name] = n
	}
	return p, nil
}

func newPlacesNode(spec *hollow.Spec) (*placesNode, error) {
	m, err := topology.Parse(spec.Machine)
	if err != nil {
		return nil, err
	}
	view, err := placement.ViewOf(m)
	if err != nil {
		return nil, err
	}
	var kubelet kubeletv1beta1.KubeletConfiguration
	if err := yaml.Unmarshal([]byte(spec.KubeletConfig), &kubelet); err != nil {
		return nil, err
	}
	kubelet.MemoryManagerPolicy, kubelet.ReservedMemory = "", nil
	config, err := wire.ReadConfig(&kubelet, wire.KubeletFacts{Version: placement.V136})
	if err != nil {
		return nil, err
	}
	model, err := placement.NewModel(view, config)
	if err != nil {
		return nil, err
	}
	n := &placesNode{model: model, machine: m, reserved: model.ReservedCPUs(), pods: map[string]*placed{}}
	n.milliCPU = 1000 * int64(m.Online.Len()-n.reserved.Len())
	for _, p := range spec.Plugins {
		pool := placement.DevicePool{Resource: p.Resource, Preference: placement.SortedPreference}
		for _, d := range p.Devices {
			pool.Devices = append(pool.Devices, placement.Device{ID: d.ID, HasTopology: true, NUMA: topology.NewNUMASet(d.NUMA...)})
		}
		n.pools = append(n.pools, pool)
	}
	return n, nil
}

// bound notes a pod that has a node.
func (p *places) bound(pod *corev1.Pod, want *Pod) {
	n := p.nodes[pod.Spec.NodeName]
	if n == nil || n.pods[string(pod.UID)] != nil {
		return
	}
	n.pods[string(pod.UID)] = &placed{milliCPU: want.milliCPU()}
}

// ran notes what a pod holds, over how many NUMA nodes.
func (p *places) ran(pod *corev1.Pod, held map[string]*holding, numa int, now time.Time) {
	if at := p.at(pod); at != nil {
		at.held = held
	}
	if numa > 1 {
		p.split = append(p.split, splitPod{pod, numa, now})
	}
}

// gone notes that a pod is no more, or that its kubelet has refused it.
func (p *places) gone(pod *corev1.Pod, now time.Time) {
	if at := p.at(pod); at != nil && at.gone.IsZero() {
		at.gone = now
	}
}

func (p *places) at(pod *corev1.Pod) *placed {
	if n := p.nodes[pod.Spec.NodeName]; n != nil {
		return n.pods[string(pod.UID)]
	}
	return nil
}

// judge judges the split pods whose time has come, and calls avoidable with those that another node
// had taken on fewer NUMA nodes.
func (p *places) judge(now time.Time, avoidable func(s *splitPod, on string, numa int)) {
	p.split = slices.DeleteFunc(p.split, func(s splitPod) bool {
		if now.Sub(s.ran) < lookOn {
			return false
		}
		if on, numa := p.better(&s); on != "" {
			avoidable(&s, on, numa)
		}
		return true
	})
	for _, n := range p.nodes {
		for uid, at := range n.pods {
			if !at.gone.IsZero() && now.Sub(at.gone) > lookBack+lookOn+time.Second {
				delete(n.pods, uid)
			}
		}
	}
}

// better returns a node that would have taken the pod on fewer NUMA nodes, with room that was free
// all the time.
func (p *places) better(s *splitPod) (on string, numa int) {
	ask, err := wire.ReadPod(s.pod)
	if err != nil || s.pod.Spec.NodeSelector != nil || asksHugePages(&ask.Request) {
		return "", 0
	}
	names := make([]string, 0, len(p.nodes))
	for name := range p.nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if name == s.pod.Spec.NodeName {
			continue
		}
		if k := p.nodes[name].fewest(&ask.Request, s.ran.Add(-lookBack)); k > 0 && k < s.numa {
			return name, k
		}
	}
	return "", 0
}

func asksHugePages(r *placement.Request) bool {
	return slices.ContainsFunc(r.Containers, func(c placement.ContainerRequest) bool {
		return slices.ContainsFunc(c.Memory, func(m placement.MemoryRequest) bool { return m.Resource != string(corev1.ResourceMemory) })
	})
}

// fewest returns on how many NUMA nodes the node would take the request beside all pods that were
// there since; 0 when it would not, or when that is not known.
func (n *placesNode) fewest(r *placement.Request, since time.Time) int {
	state, milliCPU := n.model.NewState(), int64(1000*r.CPUs())
	for _, pool := range n.pools {
		state.SetPool(pool)
	}
	for uid, at := range n.pods {
		if !at.gone.IsZero() && at.gone.Before(since) {
			continue
		}
		if at.held == nil {
			return 0 // it has been bound, and does not run yet
		}
		milliCPU += at.milliCPU
		state.Commit(&placement.Request{UID: uid}, at.decision(uid))
	}
	if milliCPU > n.milliCPU || !n.hasResources(r) {
		return 0
	}
	v := placement.Admit(state, r)
	if !v.OK() {
		return 0
	}
	return n.model.Reach(r, &v).Len()
}

// decision is what the pod holds, as one container's.
func (p *placed) decision(uid string) *placement.Decision {
	c := placement.ContainerDecision{Name: "c"}
	for _, h := range p.held {
		c.CPUs = c.CPUs.Or(&h.cpus)
		c.Devices = append(c.Devices, h.devices...)
	}
	return &placement.Decision{UID: uid, Containers: []placement.ContainerDecision{c}}
}

// hasResources says whether the node has plugins for all devices that are asked for.
func (n *placesNode) hasResources(r *placement.Request) bool {
	for i := range r.Containers {
		for _, d := range r.Containers[i].Devices {
			if !slices.ContainsFunc(n.pools, func(p placement.DevicePool) bool { return p.Resource == d.Resource }) {
				return false
			}
		}
	}
	return true
}

// stranded counts the free GPUs on NUMA nodes that have not CPUs enough for one.
func (p *places) stranded() (count int) {
	for _, n := range p.nodes {
		count += n.stranded()
	}
	return count
}

func (n *placesNode) stranded() (count int) {
	var cpus topology.CPUSet
	taken := map[string]bool{}
	for _, at := range n.pods {
		if !at.gone.IsZero() {
			continue
		}
		for _, h := range at.held {
			cpus = cpus.Or(&h.cpus)
			for _, d := range h.devices {
				for _, id := range d.IDs {
					taken[id] = taken[id] || d.Resource == gpuResource
				}
			}
		}
	}
	free := n.machine.Online.AndNot(&cpus)
	free = free.AndNot(&n.reserved)
	for _, pool := range n.pools {
		for _, d := range pool.Devices {
			if pool.Resource == gpuResource && !taken[d.ID] && n.cpusOf(d.NUMA, &free) < cpusPerGPU {
				count++
			}
		}
	}
	return count
}

func (n *placesNode) cpusOf(nodes topology.NUMASet, free *topology.CPUSet) (count int) {
	for id := range nodes.All() {
		if node := n.machine.NUMANode(id); node != nil {
			count += node.CPUs.AndLen(free)
		}
	}
	return count
}

// milliCPU is what the scheduler counts for the pod.
func (p *Pod) milliCPU() int64 {
	var apps, sidecars, init int64
	for i := range p.Init {
		if p.Init[i].Sidecar {
			sidecars += p.Init[i].MilliCPU
		} else {
			init = max(init, sidecars+p.Init[i].MilliCPU)
		}
	}
	for i := range p.Containers {
		apps += p.Containers[i].MilliCPU
	}
	return max(init, apps+sidecars)
}
