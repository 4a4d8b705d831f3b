package survey

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Pod has the CPUs, memory and devices that a pod has or was promised.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	Node      string `json:"node,omitempty"`
	// State is "pending", "in flight" (bound and not yet in a report), "gone", or the state in the
	// report: "admitted", "ended", "refused" or "unknown". The Pod object can also show that the
	// state is "ended" or "refused". A Pod that stands for a Reservation's resources has the state
	// "held" and no namespace.
	State string `json:"state"`
	// NUMANodes and CPUs are the NUMA nodes and CPUs that the pod has, or was promised if it is in
	// flight.
	NUMANodes string `json:"numaNodes,omitempty"`
	CPUs      string `json:"cpus,omitempty"`
	// UnknownCPUs is the number of the pod's exclusive CPUs if their ids are not known, because the
	// node's report has only amounts.
	UnknownCPUs int `json:"unknownCPUs,omitempty"`
	// Certainty, Guarantee and Outcome are "" for a pod without a promise.
	Certainty string `json:"certainty,omitempty"`
	Guarantee string `json:"guarantee,omitempty"`
	// Outcome is the result of comparing promise and report.
	Outcome string `json:"outcome,omitempty"`
	// Resize is the state of an unfinished in-place resize, or nil.
	Resize *Resizing `json:"resize,omitempty"`
	// Alignment is the spread of the pod's NUMA nodes, or "" if it has none.
	Alignment topology.Spread `json:"alignment,omitempty"`
	// Containers has the containers to which these NUMANodes and CPUs belong.
	Containers []Container `json:"containers,omitempty"`
	Error      string      `json:"error,omitempty"`
}

// Values of Pod.State that do not come from a report.
const (
	StatePending  = "pending"
	StateInFlight = "in flight"
	// StateGone is the state of a pod that a watch saw deleted.
	StateGone = "gone"
)

// Pods has the CPUs, memory and devices of the cluster's pods.
type Pods struct {
	Pods []Pod
	// Notes describe data that could not be read or understood.
	Notes []string

	survey *Survey
}

// Pods returns the pods of the namespace that could be pinned. The argument `only` is the name of
// one pod, or "" for all pods. Pods returns this pod even if it could not be pinned.
func (c *Cluster) Pods(ctx context.Context, only string) (*Pods, error) {
	s, err := c.Survey(ctx, "")
	if err != nil {
		return nil, err
	}
	read, err := c.From.PodsIn(ctx, c.Namespace, only)
	if err != nil {
		return nil, err
	}
	all := s.podsOf(read, only)
	if only == "" && c.Namespace == metav1.NamespaceAll {
		all = append(all, s.heldPods()...)
	}
	if only != "" && len(all) == 0 {
		return nil, c.noPod(c.Namespace, only)
	}
	return &Pods{Pods: all, Notes: s.Notes, survey: s}, nil
}

func (c *Cluster) noPod(namespace, name string) error {
	return fmt.Errorf("no pod %s in namespace %s at %s", name, namespace, c.Where)
}

// podsOf returns the summaries of the pods that could be pinned, sorted by namespace and name. If
// the argument `only` is not "", it omits no pod.
func (s *Survey) podsOf(pods []corev1.Pod, only string) []Pod {
	all := []Pod{}
	for i := range pods {
		if sum, pinned := s.Pod(&pods[i]); pinned || only != "" {
			all = append(all, sum)
		}
	}
	slices.SortFunc(all, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Pod returns the summary of a pod. It also reports whether the pod could be pinned, has a
// placement that pins it, or cannot be read.
func (s *Survey) Pod(pod *corev1.Pod) (Pod, bool) {
	if wire.OfReservation(pod) {
		return s.heldPod(pod), true
	}
	out := Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName, State: StatePending}
	ask, err := wire.ReadBound(pod)
	if err != nil {
		out.Error = err.Error()
		return out, true
	}
	n := s.States[pod.Spec.NodeName]
	p, found, err := wire.ReadPlacement(pod)
	if err != nil {
		out.Error, found = err.Error(), false
	}
	if pod.Spec.NodeName == "" {
		return out, ask.Request.Pinnable()
	}
	out.State, out.Resize = StateInFlight, n.resizing(pod)
	if found {
		promise := n.promise(&p, &ask.Request)
		if out.Guarantee = promise.Guarantee; promise.Pins() {
			out.Certainty = promise.Certainty
		}
		if outcome := n.outcome(pod, &p); promise.Pins() || outcome == PromiseRefused {
			out.Outcome = outcome
		}
		out.hold(promise.NUMANodes, promise.Containers)
		out.Alignment = n.Machine().Spread(n.promisedNodes(&p))
	}
	h := n.holding(string(pod.UID), s.Now)
	switch {
	case wire.Refused(pod):
		out.State, out.Alignment = StateRefused, ""
		out.hold("", nil)
	case h != nil && h.State == StateAdmitted && n.coarse() && len(h.Containers) == 0:
		out.State = h.State // the report counts the pod without its CPUs
		if !found {
			out.hold("", n.countUnknown(nil, &ask.Request))
		}
	case h != nil && h.State != StateAbsent:
		out.State, out.Alignment = h.State, h.Alignment
		if out.hold(h.NUMANodes, h.Containers); found && h.State == StateAdmitted {
			out.addProvided(&p.Decision)
		}
	case wire.Ending(pod):
		out.State, out.Alignment = StateEnded, ""
		out.hold("", nil)
	}
	return out, found && pins(&p.Decision) || ask.Request.Pinnable() || err != nil
}

// pins reports whether a decision gives a pod exclusive CPUs or devices, or binds it to NUMA nodes.
func pins(d *placement.Decision) bool {
	return slices.ContainsFunc(d.Containers, func(c placement.ContainerDecision) bool {
		return !c.CPUs.IsEmpty() || len(c.Devices) > 0 || c.Bounds != 0
	})
}

// addProvided adds the amounts of providers' resources. Only the decision that is stored with the
// Binding has these amounts.
func (p *Pod) addProvided(d *placement.Decision) {
	for i := range p.Containers {
		c := &p.Containers[i]
		if at := slices.IndexFunc(d.Containers, func(o placement.ContainerDecision) bool { return o.Name == c.Name }); at >= 0 {
			c.addProvided(d.Containers[at].Provided)
		}
	}
}

func (p *Pod) hold(numa string, containers []Container) {
	var cpus []string
	for i := range containers {
		if containers[i].CPUs != "" {
			cpus = append(cpus, containers[i].CPUs)
		}
	}
	p.NUMANodes, p.CPUs, p.Containers = numa, strings.Join(cpus, ";"), containers
	var unknown placement.Peak[int]
	for i := range containers {
		unknown.Add(kindNamed[containers[i].Kind], containers[i].UnknownCPUs)
	}
	p.UnknownCPUs = unknown.Most()
}
