// Package places judges where a scheduler placed pods. It finds pods that need not have been split
// over NUMA nodes, devices that are idle because their NUMA node has no CPUs left, and waiting pods
// that would fit on a node. It records the resources of pods, and asks the placement engine.
package places

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/sampleplugin"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

const (
	// lookBack is the time for which resources must have been free before the Binding. The
	// scheduler may not have known about resources that became free later.
	lookBack = 3 * time.Second
	// lookOn is the time for which a pod must have run before Judge judges it, because pods that
	// were placed before it may start later.
	lookOn = 2 * time.Second
	// keepGone is the time for which deleted pods are remembered, because a pod may start to run
	// long after its Binding.
	keepGone = time.Minute
)

// Node describes an empty node.
type Node struct {
	// Machine is the hardware, as topology.Parse reads it.
	Machine string
	// KubeletConfig is a KubeletConfiguration in YAML.
	KubeletConfig string
	Plugins       []sampleplugin.Plugin
}

// Places records the resources of pods. It ignores memory, and assumes that nodes have enough
// memory.
type Places struct {
	resource string
	each     int // CPUs that a device of the resource needs
	nodes    map[string]*node
	// suspects are the pods that Judge must still judge.
	suspects []Suspect
}

type node struct {
	model *placement.Model
	pools []placement.DevicePool
	// milliCPU is the total CPU request that the node allows, in thousandths.
	milliCPU int64
	machine  *topology.Machine
	reserved topology.CPUSet
	pods     map[string]*placed
}

// placed is a pod on a node, or a pod that was there until recently (keepGone).
type placed struct {
	milliCPU int64
	// held are the resources that the kubelet has assigned to the pod; nil before it runs.
	held *placement.PodAllocation
	// bound is the time when the pod was first seen with a node.
	bound, gone time.Time // gone is zero while the pod exists
}

// Suspect is a pod that another node might have served better, because it uses several NUMA nodes
// or strands devices.
type Suspect struct {
	Pod *corev1.Pod
	// NUMA is the number of NUMA nodes that the pod uses.
	NUMA int
	// Strands is the number of free devices that the pod left with too few CPUs. It is 0 if the pod
	// itself asks for devices.
	Strands int
	// The node On would have admitted the pod on Needs NUMA nodes. Needs is either smaller than
	// NUMA, or equals NUMA while On has no devices that the pod could strand.
	On    string
	Needs int

	bound, ran time.Time
}

// New returns Places for nodes, by name. The argument resource names the devices that may be
// stranded. Each of these devices needs cpus CPUs on its NUMA node.
func New(resource string, cpus int, specs map[string]Node) (*Places, error) {
	p := &Places{resource: resource, each: cpus, nodes: map[string]*node{}}
	for name, spec := range specs {
		n, err := newNode(&spec)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", name, err)
		}
		p.nodes[name] = n
	}
	return p, nil
}

func newNode(spec *Node) (*node, error) {
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
	config, err := wire.ReadConfig(&kubelet, wire.KubeletFacts{Version: placement.V137})
	if err != nil {
		return nil, err
	}
	model, err := placement.NewModel(view, config)
	if err != nil {
		return nil, err
	}
	n := &node{model: model, machine: m, reserved: model.ReservedCPUs(), pods: map[string]*placed{}}
	n.milliCPU = 1000 * int64(m.Online.Len()-n.reserved.Len())
	for _, p := range spec.Plugins {
		pool := placement.DevicePool{Resource: p.Resource, Preference: placement.SortedPreference}
		for _, d := range p.Devices {
			pool.Devices = append(pool.Devices, placement.Device{ID: d.ID, HasTopology: true, NUMA: topology.NewNUMASet(d.NUMA...)})
		}
		slices.SortFunc(pool.Devices, func(a, b placement.Device) int { return strings.Compare(a.ID, b.ID) })
		n.pools = append(n.pools, pool)
	}
	return n, nil
}

// Bound records a bound pod.
func (p *Places) Bound(pod *corev1.Pod, now time.Time) {
	n := p.nodes[pod.Spec.NodeName]
	if n == nil || n.pods[string(pod.UID)] != nil {
		return
	}
	n.pods[string(pod.UID)] = &placed{milliCPU: milliCPU(pod), bound: now}
}

// milliCPU returns the CPUs that the scheduler counts for the pod, in thousandths.
func milliCPU(pod *corev1.Pod) int64 { return wire.ReadAmounts(pod)[string(corev1.ResourceCPU)] }

// Ran records the resources of a running pod. It returns the number of its NUMA nodes, and the
// number of sockets that have its exclusive CPUs.
func (p *Places) Ran(pod *corev1.Pod, held *placement.PodAllocation, now time.Time) (numa, sockets int) {
	at, n := p.at(pod), p.nodes[pod.Spec.NodeName]
	if at == nil {
		return 0, 0
	}
	at.held = held
	numa = held.NUMANodes(n.machine, func(resource, id string) topology.NUMASet { return placement.DeviceAt(n.pools, resource, id) }).Len()
	cpus := held.CPUs()
	for i := range n.machine.Packages {
		if n.machine.Packages[i].CPUs.Intersects(&cpus) {
			sockets++
		}
	}
	s := Suspect{Pod: pod, NUMA: numa, bound: at.bound, ran: now}
	if numa > 0 && len(devicesOf(held)) == 0 {
		s.Strands = p.strands(at, n)
	}
	if numa > 1 || s.Strands > 0 {
		p.suspects = append(p.suspects, s)
	}
	return numa, sockets
}

func devicesOf(held *placement.PodAllocation) (all []placement.DeviceAllocation) {
	for i := range held.Containers {
		all = append(all, held.Containers[i].Devices...)
	}
	return all
}

// strands returns the number of devices for which the pod left too few CPUs. A device counts only
// if it would have enough CPUs without the pod. These CPUs must have been free early enough that
// the scheduler knew about them.
func (p *Places) strands(at *placed, n *node) int {
	since := at.bound.Add(-lookBack)
	with := n.stranded(p.resource, p.each, since)
	held := at.held
	at.held = nil
	defer func() { at.held = held }()
	return with - n.stranded(p.resource, p.each, since)
}

// Gone records that a pod is gone, or that its kubelet has refused it.
func (p *Places) Gone(pod *corev1.Pod, now time.Time) {
	if at := p.at(pod); at != nil && at.gone.IsZero() {
		at.gone = now
	}
}

func (p *Places) at(pod *corev1.Pod) *placed {
	if n := p.nodes[pod.Spec.NodeName]; n != nil {
		return n.pods[string(pod.UID)]
	}
	return nil
}

// Judge judges the suspects that have run for lookOn, or all suspects if the argument end is true.
// It returns the pods that another node would have admitted on fewer NUMA nodes or without
// stranding devices.
func (p *Places) Judge(now time.Time, end bool) (avoidable []Suspect) {
	p.suspects = slices.DeleteFunc(p.suspects, func(s Suspect) bool {
		if now.Sub(s.ran) < lookOn && !end {
			return false
		}
		if s.On, s.Needs = p.better(&s); s.On != "" {
			avoidable = append(avoidable, s)
		}
		return true
	})
	for _, n := range p.nodes {
		maps.DeleteFunc(n.pods, func(_ string, at *placed) bool { return !at.gone.IsZero() && now.Sub(at.gone) > keepGone })
	}
	return avoidable
}

// better returns another node that would have admitted the pod on fewer NUMA nodes, or without
// stranding devices, and the number of NUMA nodes there. It counts only resources that have been
// free since lookBack before the pod's Binding. The result on is "" if there is no such node, or if
// the pod names a node or asks for huge pages.
func (p *Places) better(s *Suspect) (on string, numa int) {
	ask, err := wire.ReadPod(s.Pod)
	if err != nil || s.Pod.Spec.NodeSelector != nil || asksHugePages(&ask.Request) {
		return "", 0
	}
	for _, name := range slices.Sorted(maps.Keys(p.nodes)) {
		if name == s.Pod.Spec.NodeName {
			continue
		}
		n := p.nodes[name]
		k := n.fewest(&ask.Request, s.bound.Add(-lookBack))
		if k > 0 && (k < s.NUMA || k == s.NUMA && s.Strands > 0 && !n.has(p.resource)) {
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

// fewest returns the number of NUMA nodes on which the node would admit the request, if all pods
// that have been on the node since the given time were still there. It returns 0 if the node would
// refuse the request, or if the answer is not known.
func (n *node) fewest(r *placement.Request, since time.Time) int {
	v, ok := n.admit(r, int64(1000*r.CPUs()), since)
	if !ok {
		return 0
	}
	return n.model.Reach(r, &v).Len()
}

// admit reports whether the node would admit the request, if all pods that have been on the node
// since the given time were still there. The argument milliCPU is the request as the scheduler
// counts it. If a bound pod does not run yet, the answer is not known, and admit returns false.
func (n *node) admit(r *placement.Request, milliCPU int64, since time.Time) (v placement.Verdict, ok bool) {
	state := n.model.NewState()
	for _, pool := range n.pools {
		state.SetPool(pool)
	}
	for uid, at := range n.pods {
		if !at.gone.IsZero() && at.gone.Before(since) {
			continue
		}
		if at.held == nil {
			return v, false // its assignment is not known yet
		}
		milliCPU += at.milliCPU
		state.Commit(&placement.Request{UID: uid}, at.decision(uid))
	}
	if milliCPU > n.milliCPU || !n.hasResources(r) {
		return v, false
	}
	v = placement.Admit(state, r)
	return v, v.OK()
}

// Room returns a node that has had room for a waiting pod ever since the given time. It returns ""
// if there is no such node, or if the pod asks for huge pages.
func (p *Places) Room(pod *corev1.Pod, since time.Time) string {
	ask, err := wire.ReadPod(pod)
	if err != nil || asksHugePages(&ask.Request) {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(p.nodes)) {
		if only := pod.Spec.NodeSelector[corev1.LabelHostname]; only != "" && only != name {
			continue
		}
		if _, ok := p.nodes[name].admit(&ask.Request, milliCPU(pod), since); ok {
			return name
		}
	}
	return ""
}

// decision returns the pod's resources as the decision of one container.
func (p *placed) decision(uid string) *placement.Decision {
	c := placement.ContainerDecision{Name: "c", CPUs: p.held.CPUs(), Devices: devicesOf(p.held)}
	return &placement.Decision{UID: uid, Containers: []placement.ContainerDecision{c}}
}

// The method has reports whether the node has a plugin for the resource.
func (n *node) has(resource string) bool {
	return slices.ContainsFunc(n.pools, func(p placement.DevicePool) bool { return p.Resource == resource })
}

// hasResources reports whether the node has plugins for all devices in the request.
func (n *node) hasResources(r *placement.Request) bool {
	for i := range r.Containers {
		for _, d := range r.Containers[i].Devices {
			if !n.has(d.Resource) {
				return false
			}
		}
	}
	return true
}

// Stranded counts the free devices that have too few CPUs left on their NUMA node.
func (p *Places) Stranded() (count int) {
	for _, n := range p.nodes {
		count += n.stranded(p.resource, p.each, time.Time{})
	}
	return count
}

// stranded counts the devices that would be stranded if all pods that have been on the node since
// the given time still ran. If the time is zero, only the present pods count.
func (n *node) stranded(resource string, each int, since time.Time) (count int) {
	free, taken := n.free(resource, since)
	devices := map[topology.NUMASet]int{} // numbers of free devices, by NUMA node
	for _, pool := range n.pools {
		for _, d := range pool.Devices {
			if pool.Resource == resource && !taken[d.ID] {
				devices[d.NUMA]++
			}
		}
	}
	for where, idle := range devices {
		count += max(0, idle-n.cpusOf(where, &free)/each)
	}
	return count
}

// The method free returns the CPUs that no pod has held exclusively since the given time, and the
// devices of the resource that pods have held since then. If the time is zero, only the present
// pods count.
func (n *node) free(resource string, since time.Time) (free topology.CPUSet, taken map[string]bool) {
	var cpus topology.CPUSet
	taken = map[string]bool{}
	for _, at := range n.pods {
		gone := !at.gone.IsZero() && (since.IsZero() || at.gone.Before(since))
		if gone || at.held == nil {
			continue
		}
		held := at.held.CPUs()
		cpus = cpus.Or(&held)
		for _, d := range devicesOf(at.held) {
			for _, id := range d.IDs {
				taken[id] = taken[id] || d.Resource == resource
			}
		}
	}
	free = n.machine.Online.AndNot(&cpus)
	return free.AndNot(&n.reserved), taken
}

func (n *node) cpusOf(nodes topology.NUMASet, free *topology.CPUSet) (count int) {
	for id := range nodes.All() {
		if node := n.machine.NUMANode(id); node != nil {
			count += node.CPUs.AndLen(free)
		}
	}
	return count
}
