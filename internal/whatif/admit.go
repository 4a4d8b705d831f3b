package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Placed has the resources that one pod got, or the reason why it was refused.
type Placed struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	Admitted  bool   `json:"admitted"`
	// NUMANodes lists the NUMA nodes of the pod's exclusive resources, such as "0-1"; "" if the pod
	// has no exclusive resources.
	NUMANodes  string             `json:"numaNodes"`
	Containers []survey.Container `json:"containers,omitempty"`
	// Shares explains why containers of the pod get no exclusive CPUs. It is empty if all get some,
	// or if the node pins nothing.
	Shares []string `json:"shares,omitempty"`
	// Random means that the kubelet picks devices at random, so Containers is one of several
	// possible results.
	Random  bool     `json:"random,omitempty"`
	Refusal *Refused `json:"refusal,omitempty"`
}

func (p *Placed) pins() bool {
	return slices.ContainsFunc(p.Containers, func(c survey.Container) bool {
		return c.CPUs != "" || len(c.Memory) > 0 || len(c.Devices) > 0
	})
}

type ask struct {
	pod     *corev1.Pod
	request placement.Request
	said    wire.Said
	amounts amounts.List
	// classes are the requested resources of device classes. They are not in amounts, because
	// kube-scheduler claims such devices, and the kubelet does not count them.
	classes []string
}

func read(pod *corev1.Pod) (a ask, err error) {
	a.pod = pod
	read, err := wire.ReadPod(pod)
	if err = cmp.Or(err, read.RulesErr); err != nil {
		return a, err
	}
	a.request, a.said = read.Request, read.Said
	a.amounts = wire.ReadAmounts(pod)
	for name := range a.amounts {
		if strings.HasPrefix(name, resourcev1.ResourceDeviceClassPrefix) {
			a.classes = append(a.classes, name)
			delete(a.amounts, name)
		}
	}
	slices.Sort(a.classes)
	return a, nil
}

// Admit decides whether the node admits the pod. If so, Admit assigns the pod's resources. The
// error means that the pod is invalid. A pod with a node has the amounts that its kubelet has
// allocated, which differ from its spec while a resize waits.
func (n *Node) Admit(pod *corev1.Pod) (Placed, error) {
	if pod.Spec.NodeName != "" {
		pod = wire.Allocated(pod)
	}
	a, err := read(pod)
	if err != nil {
		return Placed{}, err
	}
	n.doubts(&a)
	return n.admit(&a), nil
}

// admit first applies the rules of schedulers (refusedBefore), because a kubelet receives a pod
// only after its scheduler has accepted the node. Then it applies the kubelet's admission handlers
// in the order of NewMainKubelet: resource managers, then predicates (refusedAfter).
func (n *Node) admit(a *ask) Placed {
	out := Placed{Name: a.pod.Name, Namespace: a.pod.Namespace}
	if out.Refusal = n.refusedBefore(a); out.Refusal != nil {
		return out
	}
	if held, ok := n.state.Pod(a.request.UID); ok { // the pod is in the checkpoints, and its old resources must not count twice
		n.totals.Remove(heldBy(&held))
	}
	var got placement.Decision
	verdict := n.take(&a.request, &got)
	if !verdict.OK() {
		why := placement.Advise(n.state, &a.request, func(r *placement.Request, empty bool) bool {
			totals := n.totals
			if empty {
				totals = n.counted()
			}
			return totals.Short(query.Instead(a.amounts, &a.request, r)) == nil
		})
		why.Rule = a.said.In(why.Rule)
		out.Refusal = &Refused{Refusal: why, Reason: why.Reason.String(), Detail: why.Detail.String(), Rule: why.Rule, Advice: a.said.In(why.Advice())}
		return out
	}
	if out.Refusal = n.refusedAfter(a); out.Refusal != nil {
		n.state.Release(a.request.UID)
		return out
	}
	n.totals.Add(a.amounts, wire.PortsOf(a.pod)...)
	n.named(a)
	out.Admitted, out.NUMANodes, out.Random = true, verdict.NUMA.String(), verdict.Random
	for i := range got.Containers {
		out.Containers = append(out.Containers, survey.ContainerOf(n.machine, &got.Containers[i]))
	}
	out.Shares = n.shares(a, &got)
	return out
}

// shares explains why containers of an admitted pod get no exclusive CPUs.
func (n *Node) shares(a *ask, got *placement.Decision) []string {
	whole := func(c placement.ContainerRequest) bool { return c.Guaranteed && c.MilliCPU%1000 == 0 }
	pins := got.Whole != nil || slices.ContainsFunc(got.Containers, func(c placement.ContainerDecision) bool { return !c.CPUs.IsEmpty() })
	switch {
	case n.pinsNothing():
		return nil // assumptions has added a note
	case n.config.CPUManagerPolicy != "static":
		return []string{"the kubelet gives no exclusive CPUs, because its cpuManagerPolicy is none"}
	case a.request.PodLevel && pins:
		return nil // the other containers share the pod's own CPUs
	case a.request.PodLevel && a.request.Level.Guaranteed && a.request.Level.MilliCPU%1000 != 0 && (n.model.PlacesWholes() || !slices.ContainsFunc(a.request.Containers, whole)):
		return []string{fmt.Sprintf("spec.resources: %dm is not a whole number of CPUs, so the pod gets no exclusive CPUs", a.request.Level.MilliCPU)}
	case a.request.PodLevel && a.request.Level.Guaranteed:
		return []string{"the pod gets no exclusive CPUs, because " + wire.OnlyWholes}
	case a.request.PodLevel, !a.request.Guaranteed:
		return []string{fmt.Sprintf("the pod is not Guaranteed (%s), so it gets no exclusive CPUs and no pinned memory", cmp.Or(wire.NotGuaranteed(a.pod), "its status says so"))}
	}
	return survey.Fractions(&a.request)
}

// take decides whether the node admits a pod, and assigns its resources to it. If the pod is
// refused, take releases the resources that some of its containers got before the refusal, because
// they would affect later pods.
func (n *Node) take(r *placement.Request, d *placement.Decision) placement.Verdict {
	v := placement.Decide(n.state, r, d)
	n.state.Commit(r, d)
	if !v.OK() {
		n.state.Release(r.UID)
	}
	return v
}

// refusedBefore returns the reason why a scheduler does not bind the pod to the node, or nil.
func (n *Node) refusedBefore(a *ask) *Refused {
	if why := wire.Unmet(n.model, &a.request); why != "" && !n.spec.NoGuard {
		return n.refuse(a, PolicyNotKept, a.said.In(why))
	}
	if missing := n.missing(&a.request); missing != "" && !n.spec.IgnoreMissingDevices {
		return n.refuse(a, NotOffered, "no device plugin of this node offers "+missing+amounts.Meant(missing, n.offered()...)+
			", so no scheduler sends the pod there, unless a DeviceClass provides it; see --device and --ignore-missing-devices")
	}
	return nil
}

func (n *Node) offered() (names []string) {
	for _, pool := range n.state.Snapshot().Devices {
		names = append(names, pool.Resource)
	}
	return names
}

// missing returns the first requested resource that no device plugin of the node offers, or "". The
// kubelet would ignore the request for it.
func (n *Node) missing(r *placement.Request) string {
	pools := n.state.Snapshot().Devices
	for i := range r.Containers {
		for _, d := range r.Containers[i].Devices {
			offered := slices.ContainsFunc(pools, func(p placement.DevicePool) bool { return p.Resource == d.Resource })
			if !offered && !d.Claimed && d.Count > 0 {
				return d.Resource
			}
		}
	}
	return ""
}

// refusedAfter repeats the checks of predicateAdmitHandler.Admit (pkg/kubelet/lifecycle) on a Linux
// node. It returns nil if the pod passes them.
func (n *Node) refusedAfter(a *ask) *Refused {
	const linux, label = "linux", corev1.LabelOSStable
	pod := a.pod
	switch asked, labelled := pod.Labels[label]; {
	case labelled && asked != linux:
		return n.refuse(a, "PodOSSelectorNodeLabelDoesNotMatch",
			"Failed to admit pod as the `kubernetes.io/os` label doesn't match node label")
	case pod.Spec.OS != nil && pod.Spec.OS.Name != linux:
		return n.refuse(a, "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
	}
	if s := n.totals.Short(a.amounts); s != nil {
		return n.refuseShort(a, s)
	}
	if asked, set := pod.Spec.NodeSelector[label]; set && asked != linux {
		return n.refuse(a, "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector")
	}
	if taken := n.totals.Taken(wire.PortsOf(a.pod)); taken != "" {
		return n.refuse(a, "NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports: "+taken)
	}
	return nil
}

func (n *Node) refuseShort(a *ask, s *amounts.Shortage) *Refused {
	r := n.refuse(a, s.Reason(), s.Message())
	r.Shortage, r.Advice, r.Scarcity = s, s.Advice(), placement.Resolvable.String()
	if s.Unresolvable() {
		r.Scarcity = placement.Unresolvable.String()
	}
	return r
}

// doubts adds to n.Notes which parts of the pod are not checked.
func (n *Node) doubts(a *ask) {
	spec := &a.pod.Spec
	who := "pod " + a.pod.Name + ": "
	if len(spec.ResourceClaims) > 0 {
		n.note(who + "spec.resourceClaims are not looked at: the node's devices of Dynamic Resource Allocation are not known")
	}
	for _, name := range a.classes {
		n.note(who + name + " is not looked at: the node's devices of Dynamic Resource Allocation are not known")
	}
	selects := len(spec.NodeSelector) > 0 || spec.Affinity != nil && spec.Affinity.NodeAffinity != nil
	if _, system := spec.NodeSelector[corev1.LabelOSStable]; selects && !(system && len(spec.NodeSelector) == 1) {
		n.note(who + "node selectors and affinity are not looked at: the node's labels are not known")
	}
	noImage := func(c corev1.Container) bool { return c.Image == "" }
	if slices.ContainsFunc(spec.InitContainers, noImage) || slices.ContainsFunc(spec.Containers, noImage) {
		n.note("containers without an image are included, but the API server would refuse them")
	}
	for _, what := range unseen(a.pod) {
		n.note(who + what)
	}
	for _, name := range a.unlooked(n.totals) {
		n.note(who + name + " is not looked at: it is not known how much of it the node has")
	}
}

// unseen describes requirements of a pod that this package does not check. They may exclude nodes,
// or prevent the pod's start.
func unseen(pod *corev1.Pod) (notes []string) {
	if volumes := query.TyingVolumes(pod); len(volumes) > 0 {
		notes = append(notes, "volumes are not looked at, and may tie it to certain nodes: "+strings.Join(volumes, ", "))
	}
	if affinity := pod.Spec.Affinity; affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil) || len(pod.Spec.TopologySpreadConstraints) > 0 {
		notes = append(notes, "affinity to other pods and spreading are not looked at: there is one node")
	}
	return notes
}

// unlooked returns the requested resources whose amount on the node is unknown. It omits memory,
// because the method assumptions has added a note about memory.
func (a *ask) unlooked(totals *amounts.Node) (names []string) {
	for name, amount := range a.amounts {
		if _, told := totals.Allocatable(name); amount > 0 && !told && name != amounts.Memory {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Values of Refused.Reason for pods that never reach the kubelet, because Berth's scheduler
// (PolicyNotKept) or every scheduler (NotOffered) rejects the node for them.
const (
	PolicyNotKept = "PolicyNotKept"
	NotOffered    = "NotOffered"
)

// Refused is the reason why a pod is refused: a refusal of the placement engine, or a rule that
// does not concern NUMA nodes.
type Refused struct {
	// Reason, Detail and Rule describe the refusal in words. Detail is "" unless the engine refuses
	// the pod.
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
	Rule   string `json:"rule"`
	placement.Refusal
	// Advice is the advice for users, or "" if there is none.
	Advice string `json:"advice,omitempty"`
	// Shortage is the resource of which the whole node has too little, or nil.
	Shortage *amounts.Shortage `json:"shortage,omitempty"`
}

func (n *Node) refuse(a *ask, reason, rule string) *Refused {
	r := &Refused{Refusal: placement.Refusal{UID: a.request.UID}, Reason: reason, Rule: rule}
	r.Policy, r.Scope = cmp.Or(n.config.TopologyManagerPolicy, "none"), n.config.TopologyManagerScope
	return r
}

// String returns the refusal in one line.
func (r *Refused) String() string {
	switch {
	case r.Refusal.Reason != placement.Admitted:
		return r.Refusal.String()
	case r.Shortage != nil:
		return r.Shortage.Text() + " (" + r.Reason + ")"
	}
	return r.Rule + " (" + r.Reason + ")"
}

// Table returns the complete refusal, for users.
func (r *Refused) Table() string {
	if r.Refusal.Reason != placement.Admitted {
		return r.Refusal.Table()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.Reason, r.Rule)
	if r.Shortage != nil {
		fmt.Fprintf(&b, "%s, %s\n", r.Shortage.Text(), placement.RemovingPods(r.Scarcity))
	}
	return b.String()
}
