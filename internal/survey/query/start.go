package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// StartNode is the current state of a node with a reliable report. A simulation starts from it.
type StartNode struct {
	Name    string
	Object  *corev1.Node
	Machine *topology.Machine
	Model   *placement.Model
	// State has the resources of the node's pods. All pods in flight count as admitted, and pods
	// that have ended or are being deleted have no resources. The caller may change it.
	State *placement.State
	// Has lists the node's allocatable amounts.
	Has amounts.List
	// Pods omits pods that have ended or are being deleted. It also omits pods of DaemonSets,
	// static pods, stand-ins for Reservations, and unreadable pods. Kept is the sum of the requests
	// of the pods of these four kinds.
	Pods []StartPod
	Kept amounts.List
}

// StartPod is a pod on a StartNode.
type StartPod struct {
	Pod  *corev1.Pod
	Asks amounts.List
	// Request is the pod's request, as the placement engine reads it.
	Request placement.Request
	// Stays is the reason why `berth defrag` would not move the pod, or "".
	Stays string
}

// Start returns the nodes that accept new pods, sorted by name, and a note for each other node.
func Start(ctx context.Context, c *survey.Cluster, s *survey.Survey) (all []StartNode, notes []string) {
	budgets, err := c.From.Budgets(ctx)
	if err != nil {
		notes = append(notes, fmt.Sprintf("PodDisruptionBudgets could not be read, so no pod counts as protected by one: %v", err))
	}
	may := mover{priority: gangfit.SystemCritical, budgets: readBudgets(budgets), now: s.Now}
	for _, name := range s.Names() {
		n := s.States[name]
		why := closed(n)
		if why == "" {
			one, err := startOf(n, may)
			if err == nil {
				all = append(all, one)
				continue
			}
			why = err.Error()
		}
		notes = append(notes, fmt.Sprintf("node %s is left out: %s", name, why))
	}
	return all, notes
}

// closed explains why new pods may not go to the node, or returns "".
func closed(n *survey.NodeState) string {
	switch {
	case n.Trouble != nil:
		return n.Trouble.Message
	case n.Object == nil || len(n.Object.Status.Allocatable) == 0:
		return "its allocatable amounts are not known"
	case n.Object.Spec.Unschedulable:
		return "it is cordoned"
	}
	for _, t := range n.Object.Spec.Taints {
		domain, _, _ := strings.Cut(t.Key, "/")
		if t.Effect != corev1.TaintEffectPreferNoSchedule && (domain == "node.kubernetes.io" || domain == "node-role.kubernetes.io" || gangs.Closes(t)) {
			return "it has the taint " + t.Key
		}
	}
	return ""
}

func startOf(n *survey.NodeState, may mover) (out StartNode, err error) {
	snap := n.Snapshot()
	out = StartNode{Name: n.Name, Object: n.Object, Machine: n.Machine(), Model: n.Reading.Kind.Model, Kept: amounts.List{}}
	if out.State, err = out.Model.StateOf(&snap); err != nil {
		return out, err
	}
	out.Has, _ = nodestate.Allocatable(n.Object)
	for _, pod := range n.Bound {
		if wire.Ended(pod) || pod.DeletionTimestamp != nil {
			out.State.Release(string(pod.UID))
			continue
		}
		ask, err := wire.ReadPod(pod)
		owner := metav1.GetControllerOf(pod)
		if err != nil || owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node") || wire.OfReservation(pod) {
			for resource, amount := range wire.ReadAmounts(pod) {
				out.Kept[resource] += amount
			}
			continue
		}
		may.schedulers = []string{pod.Spec.SchedulerName}
		one := StartPod{Pod: pod, Asks: wire.ReadAmounts(pod), Request: ask.Request, Stays: may.stays(pod, n)}
		if one.Stays == "" && len(ofPod(may.budgets, pod)) > 0 {
			one.Stays = "a PodDisruptionBudget covers it"
		}
		out.Pods = append(out.Pods, one)
	}
	return out, nil
}

// Waiting returns the pods of all namespaces that wait for a node, the oldest first.
func Waiting(ctx context.Context, c *survey.Cluster) ([]corev1.Pod, error) {
	pods, err := c.From.PodsIn(ctx, metav1.NamespaceAll, "")
	if err != nil {
		return nil, err
	}
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		return p.Spec.NodeName != "" || wire.Ended(&p) || p.DeletionTimestamp != nil || len(p.Spec.SchedulingGates) > 0
	})
	slices.SortStableFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return pods, nil
}
