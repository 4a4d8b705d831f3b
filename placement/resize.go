package placement

import (
	"fmt"
	"slices"
	"strings"
)

// Resize is a change of the CPU or memory requests of a pod that a kubelet has admitted.
type Resize struct {
	// Had is the request for which the kubelet has allocated resources, Wants the request in the
	// pod's spec.
	Had, Wants *Request
	// Swaps means that the resize changes the memory of a container that may swap, and whose
	// resizePolicy for memory is not RestartContainer.
	Swaps bool
	// Undecided means that Berth decides on the node but has not placed the pod.
	Undecided bool
	// Kept explains, if Berth decides on the node, why the scheduler makes no new decision for the
	// pod. It is "" if the scheduler makes one.
	Kept string
	// MilliCPU, and Memory in bytes, are the sums that the kubelet compares.
	MilliCPU, Memory ResizeSum
}

// ResizeSum has the requests of a node's pods for one resource, and the node's amount.
type ResizeSum struct {
	// Asked is the total request of the resized pod, Others the total of all other pods.
	Asked, Others int64
	// Allocatable is Node.status.allocatable.
	Allocatable int64
}

func (s ResizeSum) short() bool { return s.Asked > 0 && s.Asked > s.Allocatable-s.Others }

// ResizeOutcome is the result of a resize.
type ResizeOutcome uint8

const (
	// ResizeProceeds: the kubelet allocates the new amounts.
	ResizeProceeds ResizeOutcome = iota
	// ResizeDeferred: the pod keeps its allocation, and the kubelet tries again later.
	ResizeDeferred
	// ResizeInfeasible: the pod keeps its allocation, and the kubelet never tries this resize
	// again.
	ResizeInfeasible
	// ResizeRejected: the API server does not accept the change.
	ResizeRejected
	// ResizeUnknown: the answer cannot be predicted.
	ResizeUnknown
)

// String returns the outcome in lower case.
func (o ResizeOutcome) String() string {
	return [...]string{"proceeds", "deferred", "infeasible", "rejected", "unknown", "ResizeOutcome(?)"}[min(o, ResizeUnknown+1)]
}

// MarshalText implements encoding.TextMarshaler.
func (o ResizeOutcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// ResizeAnswer is an outcome with its cause.
type ResizeAnswer struct {
	Outcome ResizeOutcome `json:"outcome"`
	// Message explains the outcome, or is "". If the kubelet would write a message into the
	// condition PodResizePending, Message has the kubelet's words. If the API server rejects the
	// resize as too large, Message has the API server's words. All other messages are Berth's.
	Message string `json:"message,omitempty"`
}

// Resize predicts the kubelet's answer to a resize: handlePodResourcesResize, in kubelet.go (1.33),
// allocation/allocation_manager.go (1.34, 1.35) and allocation/handlers.go (since 1.36). The
// kubelet also defers a resize for reasons that no report contains, such as memory pressure. For a
// critical pod it evicts other pods first. On a node where Berth decides, the answer includes the
// scheduler's decision, which follows the kubelet's.
func (s *State) Resize(r *Resize) ResizeAnswer {
	m := s.m
	changed := r.changes(m.set.resizes.init)
	switch {
	case !changed.cpu && !changed.memory:
		return ResizeAnswer{}
	case m.Decides() && !r.Undecided && r.Kept != "":
		return ResizeAnswer{ResizeRejected, "Berth decides on this node, and makes no new decision for the pod: " + r.Kept}
	case m.Decides() && !r.Undecided && r.fraction():
		return ResizeAnswer{ResizeRejected, "where Berth decides, CPUs can only be resized from whole numbers to whole numbers"}
	case m.set.version >= V136 && (r.MilliCPU.Asked > r.MilliCPU.Allocatable || r.Memory.Asked > r.Memory.Allocatable):
		return ResizeAnswer{ResizeRejected, r.tooLarge()}
	case !m.set.resizes.on:
		return infeasible("InPlacePodVerticalScaling is disabled")
	case r.Swaps && changed.memory:
		return infeasible("In-place resize of containers with swap is not supported.")
	}
	if m.guaranteed(r.Wants) {
		if a := m.resizePinned(changed); a.Outcome != ResizeProceeds {
			return a
		}
	}
	switch {
	case m.set.version >= V136:
	case r.Memory.Asked > r.Memory.Allocatable:
		return infeasible(fmt.Sprintf("Node didn't have enough capacity: memory, requested: %d, capacity: %d", r.Memory.Asked, r.Memory.Allocatable))
	case r.MilliCPU.Asked > r.MilliCPU.Allocatable:
		return infeasible(fmt.Sprintf("Node didn't have enough capacity: cpu, requested: %d, capacity: %d", r.MilliCPU.Asked, r.MilliCPU.Allocatable))
	}
	var again ResizeAnswer
	if !m.Decides() { // otherwise the kubelet's managers assign nothing
		if again = s.admitResized(r.Wants); again.Outcome != ResizeProceeds {
			return again
		}
	}
	switch {
	case r.MilliCPU.short():
		return r.MilliCPU.deferred(cpuResource)
	case r.Memory.short():
		return r.Memory.deferred("memory")
	}
	if m.Decides() && !r.Undecided {
		return s.refitted(r.Wants)
	}
	return again
}

// refitted predicts the scheduler's answer to a resize that the kubelet has accepted.
func (s *State) refitted(wants *Request) ResizeAnswer {
	if !s.Has(wants.UID) {
		return ResizeAnswer{ResizeUnknown, "the node's report does not list the pod, so its resources are not known"}
	}
	var d Decision
	v := Refit(s, wants, &d)
	if v.OK() {
		return ResizeAnswer{}
	}
	return ResizeAnswer{ResizeDeferred, "container " + wants.Containers[v.Container].Name + ": its new size is not possible on its NUMA nodes: " + v.Detail.Text()}
}

// fraction reports whether a container whose CPUs change has or wants a fraction of a CPU, or no
// CPU.
func (r *Resize) fraction() bool {
	for i := range min(len(r.Had.Containers), len(r.Wants.Containers)) {
		had, wants := r.Had.Containers[i].MilliCPU, r.Wants.Containers[i].MilliCPU
		if had != wants && (had%1000 != 0 || wants%1000 != 0 || had == 0 || wants == 0) {
			return true
		}
	}
	return false
}

// infeasible returns ResizeInfeasible; message has the kubelet's words.
func infeasible(message string) ResizeAnswer { return ResizeAnswer{ResizeInfeasible, message} }

// resizePinned predicts the answer for a Guaranteed pod, with or without whole CPUs.
func (m *Model) resizePinned(changed resized) ResizeAnswer {
	static, memory := m.set.static, m.set.memory
	if m.set.version < V134 { // any change concerns both managers
		changed = resized{true, true}
	}
	switch {
	case changed.cpu && static && m.set.resizes.cpus:
		return ResizeAnswer{ResizeUnknown, "the kubelet's feature gate " + resizesCPUs.name + " is on: its decisions are not known"}
	case changed.memory && memory && m.set.resizes.memory:
		return ResizeAnswer{ResizeUnknown, "the kubelet's feature gate " + resizesMemory.name + " is on: its decisions are not known"}
	case changed.cpu && static && m.set.version < V134:
		return infeasible("Resize is infeasible for Guaranteed Pods alongside CPU Manager static policy")
	case changed.cpu && static:
		return infeasible(`Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`)
	case changed.memory && memory && m.set.version < V134:
		return infeasible("Resize is infeasible for Guaranteed Pods alongside Memory Manager static policy")
	case changed.memory && memory:
		return infeasible(`Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"`)
	}
	return ResizeAnswer{}
}

// admitResized admits the pod again with its new request, as a kubelet does. The managers keep the
// pod's allocations. Before 1.37, full-pcpus-only still requires as many free whole cores as a
// container has. Before 1.37, the kubelet also places a pod with spec.resources again, because
// AllocatePod ignores existing allocations. The messages for TopologyAffinityError are the
// kubelet's words.
func (s *State) admitResized(wants *Request) ResizeAnswer {
	if !s.Has(wants.UID) && s.m.holdsAny(wants) {
		return ResizeAnswer{ResizeUnknown, "the node's report does not list the pod, so its resources are not known"}
	}
	switch {
	case s.m.whole(wants) && s.m.set.version >= V137:
		return ResizeAnswer{} // the kubelet does not ask its managers again about a pod that they know
	}
	again := *wants
	again.Rules = Rules{}
	var d Decision
	v := Decide(s, &again, &d)
	once := s.m.whole(wants) && s.m.wholeCPUs(wants) > 0
	switch {
	case once && (v.OK() || v.Detail == DefectRestartRepeats):
		return ResizeAnswer{ResizeProceeds, "the kubelet also places the pod once more by spec.resources: its present CPUs are lost until the kubelet's state is removed (kubernetes#140989)"}
	case v.OK() || v.Detail == DefectRestartKills: // the kubelet itself does not refuse for DefectRestartKills
		return ResizeAnswer{}
	case v.Reason == TopologyAffinityError && s.m.whole(wants):
		return ResizeAnswer{ResizeDeferred, "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"}
	case v.Reason == TopologyAffinityError:
		return ResizeAnswer{ResizeDeferred, "Resources cannot be allocated with Topology locality"}
	case v.Reason == KubeletDefect:
		return ResizeAnswer{ResizeUnknown, v.Detail.Text()}
	}
	return ResizeAnswer{ResizeDeferred, v.Reason.String() + ": " + v.Detail.Text()}
}

// holdsAny reports whether the kubelet pins CPUs, memory or devices for the pod.
func (m *Model) holdsAny(r *Request) bool {
	if m.whole(r) && m.wholeCPUs(r) > 0 {
		return true
	}
	for c := range r.Containers {
		if m.holds(r, c) {
			return true
		}
	}
	return false
}

// tooLarge returns the message with which an API server since 1.36 rejects a resize that exceeds
// the node's allocatable resources (plugin/pkg/admission/podresize).
func (r *Resize) tooLarge() string {
	var parts []string
	if s := r.MilliCPU; s.Asked > s.Allocatable {
		parts = append(parts, fmt.Sprintf("cpu, requested: %d, allocatable: %d", s.Asked, s.Allocatable))
	}
	if s := r.Memory; s.Asked > s.Allocatable {
		parts = append(parts, fmt.Sprintf("memory, requested: %d, allocatable: %d", s.Asked, s.Allocatable))
	}
	return "node didn't have enough allocatable resources: " + strings.Join(parts, "; ")
}

// deferred returns ResizeDeferred with the message of lifecycle.InsufficientResourceError.
func (s ResizeSum) deferred(resource string) ResizeAnswer {
	return ResizeAnswer{ResizeDeferred, fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", resource, s.Asked, s.Others, s.Allocatable)}
}

// resized records which resources of a pod change.
type resized struct{ cpu, memory bool }

// changes compares the requests of all containers that can be resized.
func (r *Resize) changes(init bool) (out resized) {
	for i := range min(len(r.Had.Containers), len(r.Wants.Containers)) {
		had, wants := &r.Had.Containers[i], &r.Wants.Containers[i]
		if had.Kind == Init && !init {
			continue
		}
		out.cpu = out.cpu || had.MilliCPU != wants.MilliCPU
		out.memory = out.memory || had.Bytes("memory") != wants.Bytes("memory")
	}
	return out
}

// PinsAlike reports whether the CPU and memory managers treat two versions of a pod in the same
// way.
func (m *Model) PinsAlike(a, b *Request) bool {
	if len(a.Containers) != len(b.Containers) {
		return false
	}
	if (m.whole(a) || m.whole(b)) && (m.podCPUs(a) != m.podCPUs(b) || m.mem != nil && !slices.Equal(a.Level.Memory, b.Level.Memory)) {
		return false
	}
	for c := range a.Containers {
		if m.exclusiveCPUs(a, c) != m.exclusiveCPUs(b, c) {
			return false
		}
		if (m.pinsMemory(a, c) || m.pinsMemory(b, c)) && !slices.Equal(a.Containers[c].Memory, b.Containers[c].Memory) {
			return false
		}
	}
	return true
}

// GivesAsked reports whether a decision gives each container the number of exclusive CPUs that the
// request asks for. The numbers can differ if the pod was resized after the decision.
func (m *Model) GivesAsked(r *Request, d *Decision) bool {
	if m.whole(r) {
		given := wholeOf(d.Whole)
		return given.Len() == m.wholeCPUs(r)
	}
	for c := range r.Containers {
		at := slices.IndexFunc(d.Containers, func(g ContainerDecision) bool { return g.Name == r.Containers[c].Name })
		given := 0
		if at >= 0 {
			given = d.Containers[at].CPUs.Len()
		}
		if given != m.exclusiveCPUs(r, c) {
			return false
		}
	}
	return true
}
