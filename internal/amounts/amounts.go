// Package amounts counts a node's resources and ports as the last step of a kubelet's admission
// does: NodeResourcesFit and NodePorts in pkg/kubelet/lifecycle/predicate.go, which run after the
// resource managers have had their say. It knows nothing of NUMA nodes, and nothing of Kubernetes'
// types.
package amounts

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// The resources that are not extended ones, spelled as in a Pod.
const (
	CPU              = "cpu" // in thousandths
	Memory           = "memory"
	EphemeralStorage = "ephemeral-storage"
	Pods             = "pods"
)

// List is an amount by resource name: CPU in thousandths, memory, huge pages and storage in bytes,
// everything else as a number. What is not in it is 0.
type List map[string]int64

// IsExtended reports whether a device plugin, or an administrator, could bring the resource. Names
// of the domain kubernetes.io are Kubernetes' own. Names that begin with "requests." are a quota's
// (pkg/apis/core/v1/helper, IsExtendedResourceName, which also wants the name to be valid).
func IsExtended(resource string) bool {
	return strings.Contains(resource, "/") && !strings.Contains(resource, "kubernetes.io/") && !strings.HasPrefix(resource, "requests.")
}

// Size says roughly how much of a node the amounts take, in thousandths of a CPU: 4 GiB count as a
// CPU, and so does a device. Larger members of a gang are placed first.
func (l List) Size() (size int64) {
	for resource, amount := range l {
		switch {
		case resource == CPU:
			size += amount
		case resource == Memory:
			size += amount >> 22
		case IsExtended(resource):
			size += 1000 * amount
		}
	}
	return size
}

// Capacity is what a kubelet counts of its machine (cadvisor.CapacityFromMachineInfo): CPU, memory
// and huge pages.
func Capacity(view *placement.KubeletView) List {
	out := List{CPU: int64(view.NumCores) * 1000, Memory: 0}
	for i := range view.Nodes {
		n := &view.Nodes[i]
		out[Memory] = Sum(out[Memory], int64(min(n.MemoryBytes, math.MaxInt64)))
		for _, h := range n.HugePages {
			name := memory.HugePages(h.PageBytes)
			out[name] = Sum(out[name], int64(min(h.PageBytes*h.Count, math.MaxInt64)))
		}
	}
	return out
}

// Node is what a node has and what its pods ask for.
type Node struct {
	// allocatable is the capacity less what is kept for the system (Node.status.allocatable).
	allocatable List
	// untold resources are not looked at, because nobody said how much of them the node has.
	untold []string
	// blind: nothing is told.
	blind bool

	used  List
	pods  int64
	ports []Port
}

// NewNode returns a node without pods. What is untold is not looked at; of anything else that
// allocatable lacks the node has nothing.
func NewNode(allocatable List, untold ...string) *Node {
	return &Node{allocatable: maps.Clone(allocatable), untold: untold, used: List{}}
}

// Unknown returns a node without pods whose amounts nobody said: only its ports are looked at.
func Unknown() *Node { return &Node{blind: true, used: List{}} }

// Clone returns a node that can be changed without changing n.
func (n *Node) Clone() *Node {
	out := *n
	out.used, out.ports = maps.Clone(n.used), slices.Clone(n.ports)
	return &out
}

// Allocatable returns how much of a resource pods can have on an empty node; told is false where
// nobody knows.
func (n *Node) Allocatable(resource string) (amount int64, told bool) {
	return n.allocatable[resource], !n.blind && !slices.Contains(n.untold, resource)
}

// Free returns what is left of a resource, pods included: less than 0 where pods ask for more than
// there is, and 0 where nobody knows.
func (n *Node) Free(resource string) int64 {
	all, told := n.Allocatable(resource)
	switch {
	case !told:
		return 0
	case resource == Pods:
		return all - n.pods
	}
	return all - n.used[resource]
}

// Has reports whether so much is free in all, for one pod or for many together. A resource that the
// node does not offer is not free.
func (n *Node) Has(ask List) bool {
	for resource, amount := range ask {
		if n.Free(resource) < amount {
			return false
		}
	}
	return true
}

// Add counts a pod that asks for so much, and for these ports.
func (n *Node) Add(ask List, ports ...Port) {
	n.pods++
	n.Hold(ask)
	n.ports = append(n.ports, ports...)
}

// Remove takes a pod away that was added.
func (n *Node) Remove(ask List, ports ...Port) {
	n.AddTimes(ask, -1)
	for _, p := range ports {
		if i := slices.Index(n.ports, p); i >= 0 {
			n.ports = slices.Delete(n.ports, i, i+1)
		}
	}
}

// AddTimes counts so many pods that each ask for so much.
func (n *Node) AddTimes(ask List, copies int) {
	n.pods += int64(copies)
	for resource, amount := range ask {
		n.used[resource] = Sum(n.used[resource], amount*int64(copies))
	}
}

// Hold counts amounts that are taken, by pods that nothing else is known about.
func (n *Node) Hold(amounts List) {
	for resource, amount := range amounts {
		n.used[resource] = Sum(n.used[resource], amount)
	}
}

// Add adds amounts.
func (l List) Add(more List) {
	for resource, amount := range more {
		l[resource] = Sum(l[resource], amount)
	}
}

// Take takes amounts away from what is there. What there is too little of is not there any more.
func (l List) Take(less List) {
	for resource, amount := range less {
		if has, there := l[resource]; there && has > amount {
			l[resource] = has - amount
		} else if there {
			delete(l, resource)
		}
	}
}

// Sum adds two amounts. It stops at the largest number: a pod may ask for as much as it likes.
func Sum(a, b int64) int64 {
	if sum := a + b; sum >= a || b < 0 {
		return sum
	}
	return math.MaxInt64
}

// Shortage is a resource that a node has too little of: the kubelet's InsufficientResourceError.
type Shortage struct {
	Resource string `json:"resource"`
	// Requested, Used and Capacity are in the units of List. Capacity is what the kubelet calls so:
	// allocatable.
	Requested int64 `json:"requested"`
	Used      int64 `json:"used"`
	Capacity  int64 `json:"capacity"`
}

// Reason is the kubelet's pod.status.reason: OutOfcpu, OutOfmemory, OutOfpods, OutOf and the
// resource's name.
func (s *Shortage) Reason() string { return "OutOf" + s.Resource }

// Message is the kubelet's pod.status.message.
func (s *Shortage) Message() string {
	return fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
		s.Resource, s.Requested, s.Used, s.Capacity)
}

// Text says the same to people, CPUs as numbers and bytes with a unit.
func (s *Shortage) Text() string {
	free, meant := max(0, s.Capacity-s.Used), ""
	if s.Capacity == 0 {
		meant = Meant(s.Resource)
	}
	has, wants := Texts(s.Resource, free, s.Requested)
	all, _ := Texts(s.Resource, s.Capacity, s.Requested)
	return fmt.Sprintf("the node has %s free %s of %s in all, %s asked%s", has, Name(s.Resource, free), all, wants, meant)
}

// Texts are two amounts of a resource as Text has them; to the last byte if they differ and would
// look the same.
func Texts(resource string, a, b int64) (string, string) {
	x, y := Text(resource, a), Text(resource, b)
	if x == y && a != b {
		return topology.FormatBytes(uint64(a)), topology.FormatBytes(uint64(b))
	}
	return x, y
}

// Name is what people call the resource of an amount that stands before it: "31.5 CPUs".
func Name(resource string, amount int64) string {
	switch {
	case resource == CPU && amount == 1000:
		return "CPU"
	case resource == CPU:
		return "CPUs"
	}
	return resource
}

// Text writes an amount as people do: CPUs and devices as numbers, bytes with a unit.
func Text(resource string, amount int64) string {
	switch {
	case resource == CPU:
		return strconv.FormatFloat(float64(amount)/1000, 'f', -1, 64)
	case amount >= 0 && (resource == Memory || resource == EphemeralStorage || strings.HasPrefix(resource, "hugepages-")):
		return topology.RoughBytes(uint64(amount))
	}
	return fmt.Sprint(amount)
}

// Unresolvable says that the pod does not fit an empty node either.
func (s *Shortage) Unresolvable() bool { return s.Requested > s.Capacity }

// Short returns the first resource that the node has too little of for one more pod, or nil. The
// order is the kubelet's: pods, CPU, memory, storage, then the others, which it goes through at
// random and Short by name. An extended resource that the node does not offer is passed over, as
// the kubelet does.
func (n *Node) Short(ask List) *Shortage {
	if most, told := n.Allocatable(Pods); told && n.pods+1 > most {
		return &Shortage{Resource: Pods, Requested: 1, Used: n.pods, Capacity: most}
	}
	for _, resource := range order(ask) {
		if n.passedOver(resource) {
			continue
		}
		s := Shortage{Resource: resource, Requested: ask[resource], Used: n.used[resource], Capacity: n.allocatable[resource]}
		if s.Requested > 0 && s.Requested > s.Capacity-s.Used {
			return &s
		}
	}
	return nil
}

func (n *Node) passedOver(resource string) bool {
	_, offered := n.allocatable[resource]
	return n.blind || slices.Contains(n.untold, resource) || IsExtended(resource) && !offered
}

// order lists the resources as fitsRequest looks at them
// (pkg/scheduler/framework/plugins/noderesources).
func order(ask List) []string {
	first := []string{CPU, Memory, EphemeralStorage}
	rest := slices.DeleteFunc(slices.Sorted(maps.Keys(ask)), func(r string) bool { return slices.Contains(first, r) })
	return append(first, rest...)
}

// Copies returns how many pods that ask for so much the node still takes, at most limit.
func (n *Node) Copies(ask List, limit int) int {
	copies := int64(limit)
	if most, told := n.Allocatable(Pods); told {
		copies = min(copies, max(0, most-n.pods))
	}
	for resource, amount := range ask {
		if amount > 0 && !n.passedOver(resource) {
			copies = min(copies, max(0, n.allocatable[resource]-n.used[resource])/amount)
		}
	}
	return int(copies)
}
