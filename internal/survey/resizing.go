package survey

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Resizing is the state of an unfinished in-place resize.
type Resizing struct {
	State string `json:"state"`
	// Message explains State.
	Message string `json:"message"`
	// CPUs are the CPUs that the containers will have after the node has carried out a new
	// decision, in the form of Pod.CPUs. It is set only if State is ResizeMoving.
	CPUs string `json:"cpus,omitempty"`
}

// The values of Resizing.State.
const (
	ResizeAsked      = "asked"     // the kubelet has not allocated the amounts yet
	ResizeAllocated  = "allocated" // the kubelet has allocated the amounts, and the scheduler has not decided yet
	ResizeMoving     = "moving"    // the node has not carried out the decision yet
	ResizeDeferred   = "deferred"  // the kubelet or the scheduler will try again
	ResizeInfeasible = "infeasible"
)

func (r *Resizing) text() string {
	if r == nil {
		return ""
	}
	return strings.TrimSuffix(r.State+": "+r.Message, ": ")
}

// Resizes returns the unfinished resizes of a node's pods, sorted by namespace and name.
func (s *Survey) Resizes(name string) (out []PodResize) {
	n := s.States[name]
	if n == nil {
		return nil
	}
	for _, pod := range n.Bound {
		if r := n.resizing(pod); r != nil {
			out = append(out, PodResize{pod.Namespace, pod.Name, *r})
		}
	}
	slices.SortFunc(out, func(a, b PodResize) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return out
}

// PodResize is a resize of a pod.
type PodResize struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Resizing
}

// resizing returns the state of an unfinished resize of a pod that is bound to the node, or nil.
func (n *NodeState) resizing(pod *corev1.Pod) *Resizing {
	if pod.Spec.NodeName == "" || wire.Ending(pod) || wire.OfReservation(pod) {
		return nil
	}
	if c := conditionOf(pod, corev1.PodResizePending); c != nil && c.Status == corev1.ConditionTrue {
		state, then := ResizeDeferred, "; the kubelet tries again"
		if c.Reason == corev1.PodReasonInfeasible {
			state, then = ResizeInfeasible, "; the pod keeps what it had"
		}
		return &Resizing{State: state, Message: c.Message + then}
	}
	if p, found, err := wire.ReadPlacement(pod); found && err == nil && n.Decides() {
		if held, state := n.Reported(string(pod.UID)); held != nil && state == StateAdmitted && moves(&p, held) {
			return movingTo(&p, held)
		}
		if open := undecided(pod, &p.Decision); len(open) > 0 {
			if c := conditionOf(pod, wire.ResizeCondition); c != nil && c.Status == corev1.ConditionFalse {
				return &Resizing{State: ResizeDeferred, Message: c.Message + "; the scheduler tries again"}
			}
			return &Resizing{State: ResizeAllocated, Message: strings.Join(open, ", ") + ": the scheduler has not decided yet"}
		}
	}
	if open := ChangesText(wire.Allocated(pod), pod); len(open) > 0 {
		return &Resizing{State: ResizeAsked, Message: strings.Join(open, ", ") + ": the kubelet has not allocated it yet"}
	}
	return nil
}

func conditionOf(pod *corev1.Pod, of corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == of })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}

// moves reports whether a decision after a resize has not been carried out yet. The report then has
// an older decision, or still has resources that the pod gives up.
func moves(p *wire.Placement, held *placement.PodAllocation) bool {
	if p.Generation < 2 || p.Generation > max(held.Generation, 1) {
		return p.Generation >= 2
	}
	return slices.ContainsFunc(p.Decision.Containers, func(d placement.ContainerDecision) bool {
		h := heldBy(held, d.Name)
		return h != nil && (d.CPUs != h.CPUs && d.CPUs.IsSubsetOf(&h.CPUs) || memoryOf(h.Memory) > wire.DecidedAmounts(&d).Bytes)
	})
}

func movingTo(p *wire.Placement, held *placement.PodAllocation) *Resizing {
	out := &Resizing{State: ResizeMoving}
	var parts, cpus []string
	for i := range p.Decision.Containers {
		d := &p.Decision.Containers[i]
		if !d.CPUs.IsEmpty() {
			cpus = append(cpus, d.CPUs.String())
		}
		h := heldBy(held, d.Name)
		if h == nil {
			continue
		}
		var changed []string
		if h.CPUs != d.CPUs {
			changed = append(changed, fmt.Sprintf("CPUs %s -> %s", h.CPUs, d.CPUs))
		}
		if was, is := memoryOf(h.Memory), wire.DecidedAmounts(d).Bytes; was != is {
			changed = append(changed, fmt.Sprintf("memory %s -> %s", topology.FormatBytes(was), topology.FormatBytes(is)))
		}
		if len(changed) > 0 {
			parts = append(parts, d.Name+": "+strings.Join(changed, ", "))
		}
	}
	out.CPUs = strings.Join(cpus, ";")
	out.Message = fmt.Sprintf("decision %d: ", p.Generation) + strings.Join(append(parts, "the node has not carried it out yet"), "; ")
	return out
}

func heldBy(p *placement.PodAllocation, container string) *placement.ContainerAllocation {
	i := slices.IndexFunc(p.Containers, func(c placement.ContainerAllocation) bool { return c.Name == container })
	if i < 0 {
		return nil
	}
	return &p.Containers[i]
}

func memoryOf(blocks []placement.MemoryBlock) (bytes uint64) {
	for i := range blocks {
		if blocks[i].Resource == string(corev1.ResourceMemory) {
			bytes += blocks[i].Bytes
		}
	}
	return bytes
}

// undecided describes the containers for which the kubelet has allocated other amounts than the
// decision has.
func undecided(pod *corev1.Pod, d *placement.Decision) (out []string) {
	for i := range d.Containers {
		c := &d.Containers[i]
		milli, bytes, told := wire.AllocatedTo(pod, c.Name)
		has := wire.DecidedAmounts(c)
		if !told || !wire.Resizes(c.Kind) {
			continue
		}
		if milli != has.MilliCPU {
			out = append(out, fmt.Sprintf("%s: cpu %dm -> %dm", c.Name, has.MilliCPU, milli))
		}
		if bytes != has.Bytes {
			out = append(out, fmt.Sprintf("%s: memory %s -> %s", c.Name, topology.FormatBytes(has.Bytes), topology.FormatBytes(bytes)))
		}
	}
	return out
}

// ChangesText describes each request for CPU or memory that differs between the pods had and wants.
func ChangesText(had, wants *corev1.Pod) (out []string) {
	for _, c := range wire.Containers(wants) {
		before, _ := ContainerNamed(had, c.Name)
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			was, now := requestOf(before, name), requestOf(c, name)
			if was.Cmp(now) != 0 {
				out = append(out, fmt.Sprintf("%s: %s %s -> %s", c.Name, name, &was, &now))
			}
		}
	}
	return out
}

func requestOf(c *corev1.Container, name corev1.ResourceName) resource.Quantity {
	if q, ok := c.Resources.Requests[name]; ok {
		return q
	}
	return c.Resources.Limits[name]
}

// ContainerNamed finds a container by name. "" selects the container of a pod that has only one.
func ContainerNamed(pod *corev1.Pod, name string) (*corev1.Container, error) {
	var names []string
	var only *corev1.Container
	for _, c := range wire.Containers(pod) {
		if c.Name == name {
			return c, nil
		}
		names, only = append(names, c.Name), c
	}
	if name == "" && len(names) == 1 {
		return only, nil
	}
	return nil, fmt.Errorf("pod %s/%s: container %q: want one of %s", pod.Namespace, pod.Name, name, strings.Join(names, ", "))
}
