package wire

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/placement"
)

// Amounts are the CPU time and memory of one container.
type Amounts struct {
	MilliCPU int64
	Bytes    uint64
}

// DecidedAmounts returns the amounts that Berth's own decision gives a container.
func DecidedAmounts(c *placement.ContainerDecision) (a Amounts) {
	a.MilliCPU = 1000 * int64(c.CPUs.Len())
	for _, s := range c.Shares {
		a.MilliCPU += s.MilliCPU
	}
	for i := range c.Memory {
		if c.Memory[i].Resource == string(corev1.ResourceMemory) {
			a.Bytes += c.Memory[i].Bytes
		}
	}
	return a
}

// Resizes reports whether containers of this kind can be resized on nodes where Berth decides. Only
// init containers that run to completion cannot.
func Resizes(k placement.ContainerKind) bool { return k != placement.Init }

// asksOf returns the part of a decision that the admission policy placement-by-binding compares
// with the pod: "NAME MILLICPUm BYTES" for each app container and sidecar, joined by commas.
func asksOf(d *placement.Decision) string { return asksOfKinds(d, Resizes) }

// appAsks is like asksOf, but without sidecars. Release 0.2.0 writes this text.
func appAsks(d *placement.Decision) string {
	return asksOfKinds(d, func(k placement.ContainerKind) bool { return k == placement.App })
}

func asksOfKinds(d *placement.Decision, of func(placement.ContainerKind) bool) string {
	var parts []string
	for i := range d.Containers {
		c := &d.Containers[i]
		if !of(c.Kind) {
			continue
		}
		a := DecidedAmounts(c)
		parts = append(parts, fmt.Sprintf("%s %dm %d", c.Name, a.MilliCPU, a.Bytes))
	}
	return strings.Join(parts, ",")
}

// GenerationOf returns the generation of the pod's decision, or 0 if the pod has no decision. A
// decision without a number has generation 1. GenerationOf does not parse the rest of the
// annotation, so the result is only valid for a decision that ReadPlacement accepts.
func GenerationOf(pod *corev1.Pod) uint64 {
	text, found := pod.Annotations[PlacementAnnotation]
	if !found {
		return 0
	}
	_, rest, later := strings.Cut(text, `"gen":`)
	if !later {
		return 1
	}
	digits, _, _ := strings.Cut(rest, ",")
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 1
	}
	return n
}

// AllocatedTo returns the amounts that the kubelet has allocated to a container. The result told is
// false if the pod's status does not have the amounts.
func AllocatedTo(pod *corev1.Pod, container string) (milliCPU int64, bytes uint64, told bool) {
	list := allocatedOf(pod, container)
	cpu, memory := list[corev1.ResourceCPU], list[corev1.ResourceMemory]
	return cpu.MilliValue(), uint64(max(0, memory.Value())), list != nil
}

// Unresizable explains why Berth makes no new decision for a placed pod after a resize. It returns
// "" if Berth makes a new decision. The admission policy placed-pods-keep-requests refuses resizes
// for the same reasons.
func Unresizable(pod *corev1.Pod) string {
	bound, _ := ReadBoundFor(pod)
	_, koordinator := pod.Annotations[KoordinatorStatusAnnotation]
	switch {
	case bound.Reservation != "":
		return "it uses a Reservation"
	case koordinator:
		return KoordinatorStatusAnnotation + " says where it runs"
	case pod.Status.QOSClass != corev1.PodQOSGuaranteed:
		return "its QoS class is not Guaranteed"
	case pod.Spec.Resources != nil:
		return "it has spec.resources"
	}
	return ""
}

// ResizeCondition is the condition of a pod that was resized on a node where Berth decides. It is
// True if the pod has a decision for the new amounts, and False while the resize is deferred.
const ResizeCondition corev1.PodConditionType = "berth.dev/resize"
