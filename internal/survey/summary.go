package survey

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-dev/berth/internal/parallel"
	"github.com/berth-dev/berth/internal/stranded"
)

// Node has a node's resources, conditions and state.
type Node struct {
	Name      string `json:"name"`
	Authority string `json:"authority,omitempty"`
	Managers
	// Guarantee is the scheduler's guarantee on the node: full, amounts or none.
	Guarantee string `json:"guarantee"`
	// Source is the kind of the report if another exporter has written it: Numatopology or
	// NodeResourceTopology.
	Source string `json:"source,omitempty"`
	// Pods counts the pods that the report lists as admitted. InFlight counts bound pods that no
	// report lists yet.
	Pods     int   `json:"pods"`
	InFlight int   `json:"inFlight"`
	Report   int64 `json:"report,omitempty"`
	// AgeSeconds is the time since the agent's last heartbeat or report.
	AgeSeconds int64    `json:"ageSeconds,omitempty"`
	Trouble    *Trouble `json:"trouble,omitempty"`
	// Warnings are further problems of the node. The report may be reliable in spite of them.
	Warnings []Trouble `json:"warnings,omitempty"`
	// Conditions are the conditions of the report and of the Node that show a problem, as
	// TYPE=STATUS(REASON). If the node is cordoned, the list also has "Unschedulable".
	Conditions []string `json:"conditions,omitempty"`
	// Gone means that a watch has seen the deletion of the node.
	Gone      bool       `json:"gone,omitempty"`
	NUMANodes []NUMANode `json:"numaNodes,omitempty"`
	// Held are the resources that Reservations hold for future pods, by Reservation and NUMA node.
	Held []Vacancy `json:"held,omitempty"`
	// Given has the amounts of providers' resources that the node's pods use.
	Given []Given `json:"given,omitempty"`
	// Holders has the holders of the node's CPUs. It is set only for nodes that were requested by
	// name.
	Holders []Holder `json:"holders,omitempty"`
	// Driven has the devices of DRA drivers. It is set only for nodes that were requested by name.
	Driven *Driven `json:"driven,omitempty"`
	// Resizes has the unfinished resizes of the node's pods. It is set only for nodes that were
	// requested by name.
	Resizes []PodResize `json:"resizes,omitempty"`
}

// Managers has the kubelet's release, and the policies of its managers. With authority berth,
// Policy and Scope are Berth's defaults for the node. An unknown field is "".
type Managers struct {
	KubeletVersion string `json:"kubeletVersion,omitempty"`
	CPUManager     string `json:"cpuManager,omitempty"`
	MemoryManager  string `json:"memoryManager,omitempty"`
	Policy         string `json:"policy,omitempty"`
	Scope          string `json:"scope,omitempty"`
}

// Open reports whether new pods that could be pinned may go to the node: its report is reliable,
// and it is not cordoned.
func (n *Node) Open() bool { return n.Trouble == nil && !slices.Contains(n.Conditions, cordoned) }

// NUMANode has the resources of one NUMA node, as they will be after the kubelet has admitted all
// pods in flight. Amount has the amounts of one of these resources.
type (
	NUMANode = stranded.NUMANode
	Amount   = stranded.Amount
)

// Nodes returns the summaries of all nodes, sorted by name.
func (s *Survey) Nodes() []Node {
	names := s.Names()
	all := make([]Node, len(names))
	parallel.Do(len(names), func(i int) { all[i] = s.States[names[i]].summary(s.Now) })
	return all
}

func (n *NodeState) summary(now time.Time) Node {
	out := Node{Name: n.Name, Guarantee: n.guarantee().String(), Report: n.Sequence(), Trouble: n.Trouble, Warnings: n.warnings(), Conditions: n.conditions(), Given: n.Given}
	if n.coarse() {
		out.Source = n.Reading.Source.Kind
	}
	if spec := n.Spec(); spec != nil {
		c := &spec.Config
		out.Authority, out.KubeletVersion = string(spec.Authority), spec.KubeletVersion
		out.CPUManager, out.MemoryManager = cmp.Or(c.CPUManagerPolicy, "none"), cmp.Or(c.MemoryManagerPolicy, "None")
		out.Policy, out.Scope = cmp.Or(c.TopologyManagerPolicy, "none"), cmp.Or(c.TopologyManagerScope, "container")
		if m := n.Reading.Kind.Model; m != nil && m.Decides() {
			out.Policy, out.Scope = m.Rules().Policy.String(), m.Rules().Scope.String()
		}
	}
	if r := n.Report(); r != nil {
		out.AgeSeconds = Seconds(now.Sub(n.Heard))
		for i := range r.Pods {
			if r.Pods[i].State == "" {
				out.Pods++
			}
		}
	}
	if n.Account == nil {
		return out
	}
	out.InFlight = n.InFlight
	snap := n.Snapshot()
	sum := stranded.Node{Machine: n.Machine(), Model: n.Reading.Kind.Model, Snapshot: &snap, PinsCPUs: n.Spec().PinsCPUs()}
	out.NUMANodes, out.Held = sum.NUMANodes(), n.holds()
	return out
}

// Driven has the devices that DRA drivers offer on a node (ResourceSlices), and the allocated
// claims of the node's pods.
type Driven struct {
	Devices []DriverDevices `json:"devices"`
	Claims  []ClaimOfPod    `json:"claims,omitempty"`
}

// DriverDevices are a driver's devices on a NUMA node.
type DriverDevices struct {
	Driver string `json:"driver"`
	// NUMANode is "none" for devices without a NUMA node, and "unknown" if the driver names a NUMA
	// node that the machine does not have. query.ClaimOnNUMANode describes the other fields.
	NUMANode   string   `json:"numaNode"`
	Free       []string `json:"free"`
	Taken      []string `json:"taken,omitempty"`
	FreeCount  int      `json:"freeCount"`
	TakenCount int      `json:"takenCount"`
	Why        string   `json:"why,omitempty"`
}

// ClaimOfPod is an allocated claim of a pod. It shows whether the claim's devices are near the
// pod's CPUs and memory.
type ClaimOfPod struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Claim     string `json:"claim"`
	Asks      string `json:"asks,omitempty"`
	Devices   string `json:"devices"`
	// Alignment is the alignment of the device that is farthest away. Its values are those of the
	// label "alignment" of the metric berth_scheduler_claim_pods_total. Why describes this device's
	// position.
	Alignment string `json:"alignment"`
	Why       string `json:"why"`
}
