package survey

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Promise is the placement that was stored with a pod's Binding, in a form for output.
type Promise struct {
	// Sequence is the number of the Binding among the scheduler's Bindings to the node. Report is
	// the number of the report that the decision is based on.
	Sequence   uint64      `json:"sequence"`
	Report     int64       `json:"report"`
	Certainty  string      `json:"certainty"`
	Guarantee  string      `json:"guarantee"`
	NUMANodes  string      `json:"numaNodes"`
	Containers []Container `json:"containers"`
}

// Pins reports whether the pod was promised CPUs, memory, devices, or a NUMA node. Otherwise
// Certainty has no meaning, and Bound.Outcome is PromiseRefused or "".
func (p *Promise) Pins() bool {
	return p.NUMANodes != "" || slices.ContainsFunc(p.Containers, func(c Container) bool {
		return c.CPUs != "" || c.UnknownCPUs > 0 || len(c.Memory) > 0 || len(c.Devices) > 0
	})
}

// Holding is a pod's entry in its node's report.
type Holding struct {
	Report     int64  `json:"report"`
	AgeSeconds int64  `json:"ageSeconds"`
	State      string `json:"state"` // admitted, ended, refused, unknown or absent
	NUMANodes  string `json:"numaNodes"`
	// Alignment is the spread of the pod's NUMA nodes, or "" if it has none.
	Alignment  topology.Spread `json:"alignment,omitempty"`
	Containers []Container     `json:"containers,omitempty"`
}

// The values of Bound.Outcome: the results of comparing a promise with a report.
const (
	PromiseKept    = "kept"
	PromiseOpen    = "not yet reported"
	PromiseBroken  = "differs"
	PromiseVerdict = "admitted as promised" // only the admission was promised
	PromiseRefused = "refused"              // the kubelet did not admit the pod
	// The pod has ended, and no report lists all of its resources any more.
	PromisePast = "no longer reported"
)

// Values of Holding.State. The other value is v1alpha1.PodUnknown in lower case.
const (
	StateAdmitted = "admitted"
	StateAbsent   = "absent"
	StateEnded    = "ended"
	// StateRefused is the state of a pod that its kubelet refused, according to the report
	// (v1alpha1.PodRejected) or to the Pod object, which overrides the report.
	StateRefused = "refused"
)

// stateWord returns StateAdmitted for an empty state of the report, StateRefused for PodRejected,
// and any other state in lower case.
func stateWord(s v1alpha1.PodState) string {
	switch s {
	case "":
		return StateAdmitted
	case v1alpha1.PodRejected:
		return StateRefused
	}
	return strings.ToLower(string(s))
}

// promise describes the placement of a pod; `asked` is the pod's request.
func (n *NodeState) promise(p *wire.Placement, asked *placement.Request) *Promise {
	out := &Promise{Sequence: p.Sequence, Report: p.Report, Certainty: p.Certainty.String(), Guarantee: p.Guarantee.String()}
	for i := range p.Decision.Containers {
		out.Containers = append(out.Containers, ContainerOf(n.Machine(), &p.Decision.Containers[i]))
	}
	out.Containers = n.countUnknown(out.Containers, asked)
	out.NUMANodes = n.promisedNodes(p).String()
	return out
}

// promisedNodes returns the NUMA nodes of a placement. If only amounts are known, it adds the NUMA
// nodes that the kubelet will prefer.
func (n *NodeState) promisedNodes(p *wire.Placement) topology.NUMASet {
	out := n.nodesOf(p.Decision.Held())
	for i := range p.Decision.Containers {
		if hint := p.Decision.Containers[i].Hint; p.Guarantee == wire.GuaranteeAmounts && !hint.Any {
			out |= hint.NUMA
		}
	}
	return out
}

// holding returns the pod's entry in the report, or nil if there is no report. If the report does
// not list the pod, the entry has the State StateAbsent.
func (n *NodeState) holding(uid string, now time.Time) *Holding {
	if n.Report() == nil {
		return nil
	}
	p, state := n.Reported(uid)
	out := &Holding{Report: n.Sequence(), AgeSeconds: Seconds(now.Sub(n.Heard)), State: state}
	if p == nil {
		return out
	}
	for _, c := range p.Containers {
		d := placement.ContainerDecision{Name: c.Name, Kind: c.Kind, CPUs: c.CPUs, Memory: c.Memory, Devices: c.Devices, Hint: placement.Hint{Any: true}}
		out.Containers = append(out.Containers, ContainerOf(n.Machine(), &d))
	}
	numa := n.nodesOf(p)
	out.NUMANodes, out.Alignment = numa.String(), n.Machine().Spread(numa)
	return out
}

// nodesOf returns the NUMA nodes of all resources that a pod has in the report.
func (n *NodeState) nodesOf(p *placement.PodAllocation) topology.NUMASet {
	return p.NUMANodes(n.Machine(), n.deviceAt)
}

// outcome compares a promise with the report. It returns "" if there is no report, or if the report
// gives the pod's state as unknown. An ended pod is compared only if the report still lists all of
// its resources.
func (n *NodeState) outcome(pod *corev1.Pod, p *wire.Placement) string {
	if n.Report() == nil {
		return ""
	}
	held, state := n.Reported(p.Decision.UID)
	ended := wire.Ended(pod) || state == StateEnded
	switch {
	case wire.Refused(pod) || state == StateRefused:
		return PromiseRefused
	case held == nil && ended:
		return PromisePast
	case held == nil, n.Decides() && state == StateAdmitted && moves(p, held):
		return PromiseOpen
	case state != StateAdmitted && state != StateEnded:
		return ""
	case p.Certainty != wire.Exact:
		return PromiseVerdict
	case n.keeps(&p.Decision, held):
		return PromiseKept
	case ended:
		return PromisePast // the kubelet may have released a part of the resources
	}
	return PromiseBroken
}

// keeps reports whether `held`, the pod's entry in the report, has the resources of the decision d.
// If Berth decides on the node, it compares only running containers, because the report lists no
// others.
func (n *NodeState) keeps(d *placement.Decision, held *placement.PodAllocation) bool {
	if n.Decides() {
		return ledger.Obeyed(d, held)
	}
	return ledger.Kept(d, held)
}

// Decides reports whether the node has authority berth: Berth, and not the kubelet, chooses CPUs,
// memory and devices.
func (n *NodeState) Decides() bool {
	return n.Spec() != nil && n.Spec().Authority == v1alpha1.AuthorityBerth
}

// NUMANodes returns the NUMA nodes with resources of the pod with this UID, or none if no report
// lists the pod.
func (n *NodeState) NUMANodes(uid string) topology.NUMASet {
	p, _ := n.Reported(uid)
	if p == nil {
		return 0
	}
	return n.nodesOf(p)
}

// AsksText describes, for each container, the CPUs, memory and devices that it requests.
func AsksText(r *placement.Request) []string {
	var out []string
	for i := range r.Containers {
		c := &r.Containers[i]
		text := strconv.FormatFloat(float64(c.MilliCPU)/1000, 'f', -1, 64) + " CPU"
		for _, m := range c.Memory {
			text += ", " + topology.RoughBytes(m.Bytes)
			if m.Resource != string(corev1.ResourceMemory) {
				text += " of " + m.Resource
			}
		}
		for _, d := range c.Devices {
			text += ", " + strconv.FormatInt(d.Count, 10) + " " + d.Resource
		}
		name := Container{Name: c.Name, Kind: kindNames[c.Kind]}
		out = append(out, name.Label()+": "+text)
	}
	return out
}

// Fractions describes the containers of a Guaranteed pod that get no exclusive CPUs because they do
// not request a whole number of CPUs (guaranteedCPUs of
// pkg/kubelet/cm/cpumanager/policy_static.go).
func Fractions(r *placement.Request) (out []string) {
	for i := range r.Containers {
		c := &r.Containers[i]
		if !r.Guaranteed || c.MilliCPU%1000 == 0 {
			continue
		}
		name := Container{Name: c.Name, Kind: kindNames[c.Kind]}
		out = append(out, fmt.Sprintf("%s: %dm is not a whole number of CPUs, so the container gets no exclusive CPUs: want %s", name.Label(),
			c.MilliCPU, wholeBeside(c.MilliCPU)))
	}
	return out
}

// wholeBeside names the whole numbers of CPUs just below and above the given number. It omits 0.
func wholeBeside(milli int64) string {
	if milli < 1000 {
		return "1"
	}
	return fmt.Sprintf("%d or %d", milli/1000, milli/1000+1)
}

// Bound has the promise to a bound pod, and the resources that the pod really has. It is empty if
// the pod has no node.
type Bound struct {
	Promise *Promise `json:"promise,omitempty"`
	// PromiseError describes an invalid annotation of the promise.
	PromiseError string   `json:"promiseError,omitempty"`
	Holds        *Holding `json:"holds,omitempty"`
	// Outcome is the result of comparing the promise with the report, such as PromiseKept; "" if
	// there is no promise, or nothing to compare.
	Outcome string   `json:"outcome,omitempty"`
	Trouble *Trouble `json:"trouble,omitempty"`
	// Refused means that the node's kubelet refused the pod. query.Explained.Nodes then has the
	// node's answer about an identical new pod.
	Refused bool `json:"refused,omitempty"`
	// Fewer lists nodes that would admit the pod on fewer NUMA nodes than it has now.
	Fewer []string `json:"fewer,omitempty"`
}

// BoundTo returns what was promised to a bound pod, and what it really has; `asked` is the pod's
// request. `resize` describes an unfinished in-place resize, or is "".
func (s *Survey) BoundTo(pod *corev1.Pod, asked *placement.Request) (out Bound, resize string) {
	n := s.States[pod.Spec.NodeName]
	out.Refused = wire.Refused(pod)
	p, found, err := wire.ReadPlacement(pod)
	if err != nil {
		out.PromiseError, found = err.Error(), false
	}
	if found {
		out.Promise = n.promise(&p, asked)
		if outcome := n.outcome(pod, &p); out.Promise.Pins() || outcome == PromiseRefused {
			out.Outcome = outcome
		}
	}
	if out.Holds = n.holding(string(pod.UID), s.Now); out.Holds != nil && out.Holds.State == StateAdmitted {
		out.Holds.Containers = n.countUnknown(out.Holds.Containers, asked)
	}
	out.Trouble = s.missing(pod.Spec.NodeName)
	if n != nil {
		out.Trouble = n.Trouble
	}
	return out, n.resizing(pod).text()
}
