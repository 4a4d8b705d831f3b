package survey

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corehelpers "k8s.io/component-helpers/resource"

	"github.com/berth-dev/berth/internal/wire"
)

// amounts are what a pod asks for in all, as the plugin NodeResourcesFit counts it
// (framework.PodRequests).
type amounts corev1.ResourceList

func amountsOf(pod *corev1.Pod) amounts {
	return amounts(corehelpers.PodRequests(pod, corehelpers.PodResourcesOptions{UseStatusResources: true}))
}

// names returns the resources that are asked for, ascending.
func (a amounts) names() []corev1.ResourceName {
	names := slices.Sorted(maps.Keys(a))
	return slices.DeleteFunc(names, func(r corev1.ResourceName) bool { q := a[r]; return q.IsZero() })
}

// lacking says what the node will never have enough of; "" where there is nothing like that, or
// where the node does not say.
func (a amounts) lacking(node *corev1.Node) string {
	if node == nil || len(node.Status.Allocatable) == 0 {
		return ""
	}
	for _, r := range a.names() {
		asked, has := a[r], node.Status.Allocatable[r]
		if has.Cmp(asked) < 0 {
			return fmt.Sprintf("the node has %s %s in all, %s asked", amountText(r, &has), r, amountText(r, &asked))
		}
	}
	return ""
}

// beside leaves out what Dynamic Resource Allocation provides in the node's stead: an extended
// resource that a device class stands for and no device plugin of the node offers
// (NodeResourcesFit, shouldDelegateResourceToDRA).
func (a amounts) beside(classes map[corev1.ResourceName]bool, node *corev1.Node) amounts {
	if len(classes) == 0 || node == nil {
		return a
	}
	out := amounts{}
	for r, q := range a {
		if has := node.Status.Allocatable[r]; has.Sign() > 0 || !classes[r] {
			out[r] = q
		}
	}
	return out
}

// foreign says whether there is a resource among the amounts that is none of Kubernetes' own, be it
// a device plugin's or one that a device class stands for.
func (a amounts) foreign() bool {
	return slices.ContainsFunc(a.names(), func(r corev1.ResourceName) bool { return strings.Contains(string(r), "/") })
}

// short says what the node has not enough of beside the pods that are bound to it; "" as in
// lacking.
func (a amounts) short(node *corev1.Node, bound []*corev1.Pod) string {
	if node == nil || len(node.Status.Allocatable) == 0 {
		return ""
	}
	free, running := node.Status.Allocatable.DeepCopy(), int64(0)
	for _, pod := range bound {
		if wire.Ended(pod) {
			continue
		}
		running++
		for r, q := range amountsOf(pod) {
			left := free[r]
			left.Sub(q)
			free[r] = left
		}
	}
	if most, told := node.Status.Allocatable[corev1.ResourcePods]; told && running >= most.Value() {
		return fmt.Sprintf("it has %d pods, and takes no more than %s", running, most.String())
	}
	for _, r := range a.names() {
		asked, left := a[r], free[r]
		if left.Cmp(asked) >= 0 {
			continue
		}
		if left.Sign() < 0 {
			left = resource.Quantity{}
		}
		return fmt.Sprintf("%s %s left beside what its pods ask for, %s asked", amountText(r, &left), r, amountText(r, &asked))
	}
	return ""
}

// amountText writes an amount as people do: CPUs and devices as numbers, bytes with a unit.
func amountText(r corev1.ResourceName, q *resource.Quantity) string {
	if r == corev1.ResourceMemory || r == corev1.ResourceEphemeralStorage || strings.HasPrefix(string(r), corev1.ResourceHugePagesPrefix) {
		return ExactBytes(uint64(q.Value()))
	}
	return q.String()
}
