package gangs

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/wire"
)

// closing are taints that Kubernetes, Cluster Autoscaler and Karpenter set on nodes that are not
// ready or that they remove.
var closing = []string{
	corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeOutOfService,
	corev1.TaintNodeNetworkUnavailable, corev1.TaintNodeDiskPressure, corev1.TaintNodePIDPressure,
	"node.cloudprovider.kubernetes.io/uninitialized", "ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/unregistered",
}

// Open reports whether a node accepts new pods. It returns false if the node is cordoned, has no
// allocatable resources, is not ready, or is being removed.
func Open(n *corev1.Node) bool {
	return !n.Spec.Unschedulable && len(n.Status.Allocatable) > 0 && !slices.ContainsFunc(n.Spec.Taints, Closes)
}

// Closes reports whether the taint means that its node is not ready or is being removed.
func Closes(t corev1.Taint) bool {
	return t.Effect != corev1.TaintEffectPreferNoSchedule && slices.Contains(closing, t.Key)
}

// RoomOn counts the resources of a cluster. It ignores nodes that are not Open, the pods on these
// nodes, and pods that have ended. The function `as` returns a pod's Occupant, in which RoomOn sets
// the field Asks.
func RoomOn(nodes []*corev1.Node, pods []*corev1.Pod, as func(*corev1.Pod) gangfit.Occupant) *gangfit.Room {
	room, open := new(gangfit.Room), map[string]bool{}
	for _, n := range nodes {
		if open[n.Name] = Open(n); open[n.Name] {
			room.Offer(wire.ReadResources(n.Status.Allocatable))
		}
	}
	for _, p := range pods {
		if open[p.Spec.NodeName] && !wire.Ended(p) {
			o := as(p)
			o.Asks = wire.ReadAmounts(p)
			room.Take(&o)
		}
	}
	return room
}

// Admission configures when a group with minResources is admitted, and which resources are then
// kept for it. The zero value means the defaults.
type Admission struct {
	// Gate is resources (the default) or none. With resources, a group is admitted if its
	// minResources are free, or if the eviction of pods of lower priority could free them. With
	// none, every group is admitted.
	Gate string `json:"gate,omitempty"`
	// The gate multiplies the nodes' resources by OvercommitFactor. Default 1.
	OvercommitFactor float64 `json:"overcommitFactor,omitempty"`
	// KeepFor is the time after the admission of a group in which other groups with minResources
	// cannot count on the resources that the group does not use yet. Default 5m; negative means no
	// time.
	KeepFor metav1.Duration `json:"keepFor,omitempty"`
}

// The values of Admission.Gate.
const (
	GateResources = "resources"
	GateNone      = "none"
)

// maxOvercommit and maxKeepFor are the largest valid values of OvercommitFactor and KeepFor. Useful
// values are smaller.
const (
	maxOvercommit = 1000
	maxKeepFor    = 24 * time.Hour
)

// FillIn gives each field that is not set its default.
func (a *Admission) FillIn() {
	a.Gate = cmp.Or(a.Gate, GateResources)
	a.OvercommitFactor = cmp.Or(a.OvercommitFactor, 1)
	a.KeepFor.Duration = cmp.Or(a.KeepFor.Duration, 5*time.Minute)
}

// Check returns an error if a field is invalid. Call FillIn before Check.
func (a *Admission) Check() error {
	switch {
	case a.Gate != GateResources && a.Gate != GateNone:
		return fmt.Errorf("admission.gate: %q: want %s or %s", a.Gate, GateResources, GateNone)
	case !(a.OvercommitFactor >= 1 && a.OvercommitFactor <= maxOvercommit):
		return fmt.Errorf("admission.overcommitFactor: %v: want 1 to %d", a.OvercommitFactor, maxOvercommit)
	case a.KeepFor.Duration > maxKeepFor:
		return fmt.Errorf("admission.keepFor: %s: want at most %s", a.KeepFor.Duration, maxKeepFor)
	}
	return nil
}

// NotLetIn reports whether a PodGroup with this phase is not admitted yet. Berth does not change
// the phase of an admitted group to such a phase.
func NotLetIn(phase string) bool { return phase == "" || phase == "Pending" }
