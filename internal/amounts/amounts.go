// Package amounts counts a node's resources and ports as the last step of a kubelet's admission
// does (NodeResourcesFit and NodePorts in pkg/kubelet/lifecycle/predicate.go). This step follows
// after the kubelet's resource managers, and ignores NUMA nodes. The package does not import
// Kubernetes' types.
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

// The names of resources that are not extended resources, spelled as in a Pod.
const (
	CPU              = "cpu" // in thousandths of a CPU
	Memory           = "memory"
	EphemeralStorage = "ephemeral-storage"
	Pods             = "pods"
)

// List has amounts by resource name: CPU in thousandths of a CPU; memory, huge pages and storage in
// bytes; other resources as a number of units. Missing resources are 0.
type List map[string]int64

// IsExtended reports whether a device plugin or an administrator could add the resource to a node.
// It returns false for names without a slash, such as cpu, for names of the domain kubernetes.io
// and its subdomains, which are Kubernetes' own, and for names that begin with "requests.", which
// belong to quotas. It follows IsExtendedResourceName (pkg/apis/core/v1/helper), except that it
// accepts invalid names.
func IsExtended(resource string) bool {
	return strings.Contains(resource, "/") && !strings.Contains(resource, "kubernetes.io/") && !strings.HasPrefix(resource, "requests.")
}

// Size returns one number for the amounts, in thousandths of a CPU. 4 GiB of memory count as about
// one CPU, and a device counts as one CPU. The members of a gang are placed in descending order of
// their sizes.
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

// Capacity returns the capacity that the kubelet computes for its machine
// (cadvisor.CapacityFromMachineInfo): CPU, memory and huge pages.
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

// Node has a node's allocatable amounts and its pods' requests.
type Node struct {
	// allocatable is the capacity without the system's reservation (Node.status.allocatable).
	allocatable List
	// untold are the resources of which the node's amounts are unknown. They are not checked.
	untold []string
	// blind means that all amounts are unknown.
	blind bool

	used  List
	pods  int64
	ports []Port
}

// NewNode returns a node without pods. The amounts of the resources in untold are unknown, so the
// node does not check them. A resource that is neither in untold nor in allocatable has the amount
// 0.
func NewNode(allocatable List, untold ...string) *Node {
	return &Node{allocatable: maps.Clone(allocatable), untold: untold, used: List{}}
}

// Unknown returns a node without pods and with unknown amounts. For such a node, only ports are
// checked.
func Unknown() *Node { return &Node{blind: true, used: List{}} }

// Clone returns an independent copy.
func (n *Node) Clone() *Node {
	out := *n
	out.used, out.ports = maps.Clone(n.used), slices.Clone(n.ports)
	return &out
}

// Allocatable returns how much of a resource all pods of the node together can have. If told is
// false, this is unknown.
func (n *Node) Allocatable(resource string) (amount int64, told bool) {
	return n.allocatable[resource], !n.blind && !slices.Contains(n.untold, resource)
}

// Free returns the free amount of a resource, which may be "pods". It is negative if pods request
// more than the node has. It is 0 if the amount is unknown.
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

// Has reports whether all amounts in ask are free. They may include a number of pods (Pods). Unlike
// Short, Has returns false if the node does not have a requested resource, or if the node's amount
// of it is unknown.
func (n *Node) Has(ask List) bool {
	for resource, amount := range ask {
		if n.Free(resource) < amount {
			return false
		}
	}
	return true
}

// Add adds a pod with these requests and ports.
func (n *Node) Add(ask List, ports ...Port) {
	n.pods++
	n.Hold(ask)
	n.ports = append(n.ports, ports...)
}

// Remove removes a pod that was added.
func (n *Node) Remove(ask List, ports ...Port) {
	n.AddTimes(ask, -1)
	for _, p := range ports {
		if i := slices.Index(n.ports, p); i >= 0 {
			n.ports = slices.Delete(n.ports, i, i+1)
		}
	}
}

// AddTimes adds the given number of pods, each with the requests ask and without ports. A negative
// number removes pods.
func (n *Node) AddTimes(ask List, copies int) {
	n.pods += int64(copies)
	for resource, amount := range ask {
		n.used[resource] = Sum(n.used[resource], amount*int64(copies))
	}
}

// Hold adds amounts to the used amounts. It does not change the number of pods or the ports.
func (n *Node) Hold(amounts List) {
	for resource, amount := range amounts {
		n.used[resource] = Sum(n.used[resource], amount)
	}
}

// Add adds amounts to the list.
func (l List) Add(more List) {
	for resource, amount := range more {
		l[resource] = Sum(l[resource], amount)
	}
}

// Take subtracts amounts from the list, but not below 0.
func (l List) Take(less List) {
	for resource, amount := range less {
		if has, there := l[resource]; there && has > amount {
			l[resource] = has - amount
		} else if there {
			delete(l, resource)
		}
	}
}

// Sum adds two amounts. It returns the largest number if the sum would overflow, which is possible
// because pods may request any amount.
func Sum(a, b int64) int64 {
	if sum := a + b; sum >= a || b < 0 {
		return sum
	}
	return math.MaxInt64
}

// Shortage is a resource of which a node has too little (the kubelet's InsufficientResourceError).
type Shortage struct {
	Resource string `json:"resource"`
	// Requested, Used and Capacity are in the units of List. Capacity is the allocatable amount, as
	// in the kubelet's message.
	Requested int64 `json:"requested"`
	Used      int64 `json:"used"`
	Capacity  int64 `json:"capacity"`
}

// Reason returns the kubelet's pod.status.reason: OutOf and the resource's name, as in OutOfcpu.
func (s *Shortage) Reason() string { return "OutOf" + s.Resource }

// Message returns the kubelet's pod.status.message.
func (s *Shortage) Message() string {
	return fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
		s.Resource, s.Requested, s.Used, s.Capacity)
}

// Text describes the shortage for users, with CPUs as numbers and bytes with a unit.
func (s *Shortage) Text() string {
	if s.Resource == Pods {
		has := "pods"
		if s.Used == 1 {
			has = "pod"
		}
		return fmt.Sprintf("the node has %d %s, and admits at most %d", s.Used, has, s.Capacity)
	}
	free, meant := max(0, s.Capacity-s.Used), ""
	if s.Capacity == 0 {
		meant = Meant(s.Resource)
	}
	has, wants := Texts(s.Resource, free, s.Requested)
	all, _ := Texts(s.Resource, s.Capacity, s.Requested)
	return fmt.Sprintf("the node has %s free %s of %s in total, but the pod asks for %s%s", has, Name(s.Resource, free), all, wants, meant)
}

// Texts formats two amounts of a resource as Text does. If rounding makes two different amounts
// look equal, Texts formats them exactly, in bytes.
func Texts(resource string, a, b int64) (string, string) {
	x, y := Text(resource, a), Text(resource, b)
	if x == y && a != b {
		return topology.FormatBytes(uint64(a)), topology.FormatBytes(uint64(b))
	}
	return x, y
}

// Name returns the noun that follows an amount of the resource, such as "CPUs" in "31.5 CPUs".
func Name(resource string, amount int64) string {
	switch {
	case resource == CPU && amount == 1000:
		return "CPU"
	case resource == CPU:
		return "CPUs"
	}
	return resource
}

// Text formats an amount for users: CPUs and devices as numbers, bytes with a unit.
func Text(resource string, amount int64) string {
	switch {
	case resource == CPU:
		return strconv.FormatFloat(float64(amount)/1000, 'f', -1, 64)
	case amount >= 0 && (resource == Memory || resource == EphemeralStorage || strings.HasPrefix(resource, "hugepages-")):
		return topology.RoughBytes(uint64(amount))
	}
	return fmt.Sprint(amount)
}

// Advice tells users what they can do. The amounts in it fit, because Text rounds down.
func (s *Shortage) Advice() string {
	most := func(amount int64) string {
		return "ask for at most " + Text(s.Resource, amount) + " " + Name(s.Resource, amount) + " in total"
	}
	left, name := max(0, s.Capacity-s.Used), Name(s.Resource, s.Capacity)
	switch {
	case s.Resource == Pods:
		return fmt.Sprintf("wait until other pods end, or use other nodes (the maximum number of pods on this node: %d)", s.Capacity)
	case s.Capacity == 0:
		return "use nodes that have " + name
	case s.Unresolvable() && left > 0:
		return most(left) + ", or use nodes that have more"
	case s.Unresolvable():
		return most(s.Capacity) + " and wait until other pods end, or use nodes that have more"
	case left == 0:
		return "wait until other pods release " + name + " (none is free here), or use other nodes"
	}
	return "wait until other pods release " + name + ", use other nodes, or " + most(left)
}

// Unresolvable reports whether the pod would not even fit on the empty node.
func (s *Shortage) Unresolvable() bool { return s.Requested > s.Capacity }

// Short returns the first resource of which the node has too little for one more pod, or nil. It
// checks in the kubelet's order: pods, CPU, memory, ephemeral storage, then the other resources in
// the order of their names (in the kubelet, their order is random). Like the kubelet, Short ignores
// an extended resource that the node does not have.
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

// order returns the resources in the order of Short, which is that of fitsRequest
// (pkg/scheduler/framework/plugins/noderesources).
func order(ask List) []string {
	first := []string{CPU, Memory, EphemeralStorage}
	rest := slices.DeleteFunc(slices.Sorted(maps.Keys(ask)), func(r string) bool { return slices.Contains(first, r) })
	return append(first, rest...)
}
