package query

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corehelpers "k8s.io/component-helpers/resource"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Change is a new request of one container for one resource, for a resize in place.
type Change struct {
	// Container may be "" if only one container of the pod can be resized.
	Container string
	Resource  corev1.ResourceName
	Amount    resource.Quantity
}

// Resized is the predicted result of a resize in place.
type Resized struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Node      string `json:"node"`
	// Kubelet is the release of the node's kubelet; "" if it is not known.
	Kubelet string `json:"kubelet,omitempty"`
	// Changes describes each changed amount: the amount that the kubelet has allocated, and the new
	// request.
	Changes []string `json:"changes"`
	placement.ResizeAnswer
	// Then describes the consequence of the outcome.
	Then  string   `json:"then"`
	Notes []string `json:"notes,omitempty"`
}

var thens = map[placement.ResizeOutcome]string{
	placement.ResizeProceeds:   "the kubelet allocates the new amounts",
	placement.ResizeDeferred:   "the pod keeps what it had, and the kubelet tries again",
	placement.ResizeInfeasible: "the pod keeps what it had",
	placement.ResizeRejected:   "the API server does not accept the change",
	placement.ResizeUnknown:    "no answer can be given",
}

// Resize predicts the answer to an in-place resize of a bound pod.
func Resize(ctx context.Context, b Base, namespace, name string, changes []Change) (*Resized, error) {
	pod, err := b.PodNamed(ctx, namespace, name)
	switch {
	case err != nil:
		return nil, err
	case pod.Spec.NodeName == "":
		return nil, fmt.Errorf("pod %s/%s: it has no node yet: want a running pod; a pending pod can be created again with other requests", pod.Namespace, pod.Name)
	case wire.Ending(pod):
		return nil, fmt.Errorf("pod %s/%s: it has ended or is being deleted: want a running pod", pod.Namespace, pod.Name)
	}
	wants, err := resizedTo(pod, changes)
	if err != nil {
		return nil, err
	}
	s, err := b.Survey(ctx, pod.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	out := &Resized{Name: pod.Name, Namespace: pod.Namespace, Node: pod.Spec.NodeName, Changes: survey.ChangesText(wire.Allocated(pod), wants), Notes: s.Notes}
	n := s.States[pod.Spec.NodeName]
	if spec := n.Spec(); spec != nil {
		out.Kubelet = spec.KubeletVersion
	}
	out.ResizeAnswer = cmp.Or(unresizable(pod, wants), resize(n, pod, wants))
	out.Then = thens[out.Outcome]
	if n != nil && n.Trouble != nil && out.Message != n.Trouble.Message {
		out.Notes = append(slices.Clone(out.Notes), "node "+n.Name+": "+n.Trouble.Message)
	}
	if mightSwap(pod, wants) && out.Outcome != placement.ResizeRejected {
		out.Notes = append(slices.Clone(out.Notes), "the resize is infeasible if the kubelet has memorySwap.swapBehavior LimitedSwap: set the container's resizePolicy RestartContainer for memory")
	}
	return out, nil
}

// resizedTo returns the pod with changed requests. If a limit equals the request, it changes the
// limit, too.
func resizedTo(pod *corev1.Pod, changes []Change) (*corev1.Pod, error) {
	wants := pod.DeepCopy()
	for _, change := range changes {
		c, err := survey.ContainerNamed(wants, change.Container)
		if err != nil {
			return nil, err
		}
		at := fmt.Sprintf("pod %s/%s: --resize %s:%s=%s: ", pod.Namespace, pod.Name, c.Name, change.Resource, &change.Amount)
		limit, limited := c.Resources.Limits[change.Resource]
		asked, requested := c.Resources.Requests[change.Resource]
		if !requested {
			asked = limit
		}
		switch {
		case limited && limit.Cmp(asked) == 0:
			c.Resources.Limits[change.Resource] = change.Amount
		case limited && limit.Cmp(change.Amount) < 0:
			return nil, fmt.Errorf("%swant no more than the container's limit, %s", at, &limit)
		}
		if c.Resources.Requests == nil {
			c.Resources.Requests = corev1.ResourceList{}
		}
		c.Resources.Requests[change.Resource] = change.Amount
	}
	return wants, nil
}

// unresizable returns the answer if every API server would reject the change (ValidatePodResize of
// pkg/apis/core/validation), and otherwise the zero answer.
func unresizable(pod, wants *corev1.Pod) placement.ResizeAnswer {
	switch _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; {
	case static:
		return placement.ResizeAnswer{Outcome: placement.ResizeRejected, Message: "static pods cannot be resized"}
	case wire.QOSOf(pod) != wire.QOSOf(wants):
		return placement.ResizeAnswer{Outcome: placement.ResizeRejected, Message: "Pod QOS Class may not change as a result of resizing"}
	}
	if why := beyondPod(wants); why != "" {
		return placement.ResizeAnswer{Outcome: placement.ResizeRejected, Message: why}
	}
	return placement.ResizeAnswer{}
}

// beyondPod returns the API server's words about containers that ask for more than spec.resources
// (validatePodResourceConsistency of pkg/apis/core/validation), or "".
func beyondPod(pod *corev1.Pod) string {
	own := pod.Spec.Resources
	if own == nil {
		return ""
	}
	bare := corev1.Pod{Spec: pod.Spec}
	bare.Spec.Resources = nil
	sums := corehelpers.AggregateContainerRequests(wire.WithRequests(&bare), corehelpers.PodResourcesOptions{})
	for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if most, sum := own.Requests[name], sums[name]; !most.IsZero() && sum.Cmp(most) > 0 {
			return fmt.Sprintf("spec.resources.requests[%s]: %s: must be greater than or equal to aggregate container requests of %s", name, &most, &sum)
		}
		for _, c := range pod.Spec.Containers {
			if most, limit := own.Limits[name], c.Resources.Limits[name]; !most.IsZero() && limit.Cmp(most) > 0 {
				return fmt.Sprintf("container %s: limit of %s %s: must be less than or equal to pod limits of %s", c.Name, name, &limit, &most)
			}
		}
	}
	return ""
}

// resize predicts the answer of the kubelet of n, the pod's node.
func resize(n *survey.NodeState, pod, wants *corev1.Pod) placement.ResizeAnswer {
	unknown := func(why string) placement.ResizeAnswer {
		return placement.ResizeAnswer{Outcome: placement.ResizeUnknown, Message: why}
	}
	switch {
	case n == nil || n.Reading == nil:
		return unknown("there is no report of node " + pod.Spec.NodeName + "")
	case n.Reading.Unusable != nil:
		return unknown(n.Trouble.Message)
	}
	had, err := wire.ReadBound(pod)
	if err != nil {
		return unknown(err.Error())
	}
	asks, err := wire.ReadPod(wants)
	if err != nil {
		return unknown(err.Error())
	}
	snap, model := n.Snapshot(), n.Reading.Kind.Model
	state, err := model.StateOf(&snap)
	if err != nil {
		return unknown(err.Error())
	}
	p, placed, err := wire.ReadPlacement(pod)
	r := placement.Resize{Had: &had.Request, Wants: &asks.Request, Undecided: !placed || err == nil && p.Authority != placement.AuthorityBerth}
	r.MilliCPU, r.Memory = resizeSums(n, wants)
	if r.Kept = wire.Unresizable(pod); r.Kept == "" && p.Koordlet {
		r.Kept = "koordlet carries its decision out"
	}
	for i := range min(len(r.Had.Containers), len(r.Wants.Containers)) {
		h, w := &r.Had.Containers[i], &r.Wants.Containers[i]
		if r.Kept == "" && !wire.Resizes(h.Kind) && (h.MilliCPU != w.MilliCPU || h.Bytes("memory") != w.Bytes("memory")) {
			r.Kept = "init containers keep their resources"
		}
	}
	return state.Resize(&r)
}

// resizeSums returns three amounts of CPU and of memory: the request of the resized pod, the sum
// that the kubelet has allocated to all other pods of the node, and the node's allocatable amount.
func resizeSums(n *survey.NodeState, wants *corev1.Pod) (cpu, memory placement.ResizeSum) {
	bare := *wants
	bare.Status.ContainerStatuses, bare.Status.InitContainerStatuses, bare.Status.Resources, bare.Status.AllocatedResources = nil, nil, nil, nil
	asked, others := wire.ReadAmounts(&bare), amounts.List{}
	for _, pod := range n.Bound {
		if pod.UID != wants.UID && !wire.Ended(pod) && !wire.OfReservation(pod) {
			for name, amount := range wire.ReadAmounts(wire.Allocated(pod)) {
				others[name] += amount
			}
		}
	}
	all, told := nodestate.Allocatable(n.Object)
	of := func(name string) placement.ResizeSum {
		if !told {
			return placement.ResizeSum{Asked: asked[name], Allocatable: math.MaxInt64}
		}
		return placement.ResizeSum{Asked: asked[name], Others: others[name], Allocatable: all[name]}
	}
	return of(amounts.CPU), of(amounts.Memory)
}

// mightSwap reports whether a kubelet with LimitedSwap gives swap to a container whose memory
// changes (GetContainerSwapBehavior of pkg/kubelet/kuberuntime).
func mightSwap(pod, wants *corev1.Pod) bool {
	if wire.QOSOf(pod) != corev1.PodQOSBurstable {
		return false
	}
	had := wire.Allocated(pod)
	for _, c := range wire.Containers(wants) {
		before, _ := survey.ContainerNamed(had, c.Name)
		was, now := before.Resources.Requests.Memory(), c.Resources.Requests.Memory()
		restarts := slices.ContainsFunc(c.ResizePolicy, func(p corev1.ContainerResizePolicy) bool {
			return p.ResourceName == corev1.ResourceMemory && p.RestartPolicy == corev1.RestartContainer
		})
		swaps := func(c *corev1.Container) bool {
			return c.Resources.Requests.Memory().Cmp(*c.Resources.Limits.Memory()) != 0
		}
		if was.Cmp(*now) != 0 && !restarts && (swaps(before) || swaps(c)) {
			return true
		}
	}
	return false
}
