package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/parallel"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Claimed explains one of the pod's ResourceClaims: which devices it has or could get. As in the
// scheduler, all claims of a pod get their devices together or not at all.
type Claimed struct {
	// Name is the claim's name in spec.resourceClaims.
	Name string `json:"name"`
	// Claim is NAMESPACE/NAME of the ResourceClaim, or "" if the claim has no name yet. If the pod
	// does not exist, Template is the ResourceClaimTemplate from which the claim would be created.
	Claim    string `json:"claim,omitempty"`
	Template string `json:"template,omitempty"`
	// Asks is the pod's mode for its claims: "near" if it prefers devices near its CPUs, "required"
	// if it requires them, or "".
	Asks string `json:"asks,omitempty"`
	// Allocated means that the claim has devices.
	Allocated bool `json:"allocated"`
	// Message is the part of the explanation that does not depend on the node.
	Message string `json:"message,omitempty"`
	// Nodes are the nodes whose answer about the pod is Admits, Waits or Refuses, in the order of
	// their answers. If there are many, nodes with ResourceSlices come first, and More counts the
	// nodes that are not listed. If the claim is allocated, only the nodes with its devices are
	// listed. If the pod is bound, only its node is listed.
	Nodes []ClaimOnNode `json:"nodes,omitempty"`
	More  int           `json:"more,omitempty"`
}

// ClaimOnNode explains a claim on one node.
type ClaimOnNode struct {
	Node string `json:"node"`
	// Near means that all devices of the claim are, or could be, near. A device is near if it is on
	// the NUMA nodes of the CPUs and memory of the containers that use the claim, or if it has no
	// NUMA node.
	Near bool `json:"near"`
	// Message names the devices, or the reason why there are none.
	Message string `json:"message"`
	// NUMANodes are the devices that match the claim's requests, by NUMA node. They are listed only
	// if the claim has no devices yet.
	NUMANodes []ClaimOnNUMANode `json:"numaNodes,omitempty"`
	// lacks means that the scheduler would refuse the node because of the claim.
	lacks bool
}

// ClaimOnNUMANode has the devices of a NUMA node that match the requests of a claim.
type ClaimOnNUMANode struct {
	// NUMANode is "none" for devices without a NUMA node. It is "unknown" if the driver names a
	// NUMA node that the machine does not have.
	NUMANode string `json:"numaNode"`
	// Near means that these devices are near: the containers that use the claim have, or could
	// have, their CPUs and memory on this NUMA node, or the devices have no NUMA node.
	Near bool `json:"near"`
	// Free and Taken list the first few devices as driver/device; Taken adds the claim that has the
	// device. The counts include all devices.
	Free       []string `json:"free"`
	Taken      []string `json:"taken,omitempty"`
	FreeCount  int      `json:"freeCount"`
	TakenCount int      `json:"takenCount"`
	// Why explains why the free devices are not near.
	Why string `json:"why,omitempty"`
}

// Limits of an explanation.
const (
	maxClaimNodes   = 32
	maxDevicesNamed = 16
	claimsTimeout   = 10 * time.Second
)

// NoDevices reports whether the pod has a claim for which no node has devices. It ignores claims
// for which not all nodes were checked.
func (e *Explained) NoDevices() bool {
	return slices.ContainsFunc(e.Claims, func(c Claimed) bool {
		return len(c.Nodes) > 0 && c.More == 0 && !slices.ContainsFunc(c.Nodes, func(n ClaimOnNode) bool { return !n.lacks })
	})
}

func (e *Explained) explainClaims(ctx context.Context, c *survey.Cluster, s *survey.Survey, q *question) error {
	x, err := newClaimant(ctx, c, s, q)
	if x == nil || err != nil {
		return err
	}
	x.places(e.Node, e.Nodes)
	all, notes := x.explainAll(ctx)
	e.Claims, e.Notes = all, append(slices.Clone(e.Notes), notes...)
	return nil
}

// explainClaims explains the claims of a pod that does not exist. `answers` are the nodes' answers
// about the pod. templates come from the same files as the pod, and replace templates of the same
// name in the cluster.
func (f *Fitting) explainClaims(ctx context.Context, c *survey.Cluster, s *survey.Survey, q *question, answers []Answer, templates []resourcev1.ResourceClaimTemplate) error {
	x, err := newClaimant(ctx, c, s, q)
	if x == nil || err != nil {
		return err
	}
	known, notes, err := c.From.ClaimTemplates(ctx, q.pod.Namespace)
	if err != nil {
		return err
	}
	x.templates = map[string]*resourcev1.ResourceClaimTemplate{}
	for _, t := range known {
		x.templates[t.Name] = t
	}
	for i := range templates {
		if t := &templates[i]; cmp.Or(t.Namespace, c.Namespace) == q.pod.Namespace {
			x.templates[t.Name] = t
		}
	}
	x.places("", answers)
	all, more := x.explainAll(ctx)
	f.Claims, f.claimNotes = all, append(notes, more...)
	return nil
}

type claimant struct {
	survey    *survey.Survey
	question  *question
	mode      claims.Mode
	allocator *allocator
	handedOut *source.HandedOut
	nodes     []claimPlace
	// found has the pod's claims in the order of spec.resourceClaims. An element is nil if the
	// claim was not found.
	found []*resourcev1.ResourceClaim
	bound bool
	// extends means that drivers may provide extended resources that the pod requests. If a claim
	// is used for these resources, it is the last element of found. The element is nil for a pod
	// without a node, because this claim differs from node to node.
	extends bool
	// If the pod has no annotation for the mode, assumed is a note about the assumed mode.
	// Otherwise it is "".
	assumed string
	// templates are the templates of the pod's namespace, or nil if the pod exists.
	templates map[string]*resourcev1.ResourceClaimTemplate
}

// newClaimant reads the objects of Dynamic Resource Allocation. It returns nil if the pod requests
// nothing that DRA drivers provide.
func newClaimant(ctx context.Context, c *survey.Cluster, s *survey.Survey, q *question) (*claimant, error) {
	if !q.mayClaim() {
		return nil, nil //nolint:nilnil // most pods have none
	}
	h, err := c.From.HandedOut(ctx, q.pod.Namespace)
	if err != nil {
		return nil, err
	}
	return claimantWith(c, s, q, h, newAllocator(h, &c.Terms)), nil
}

// mayClaim reports whether drivers may provide devices for the pod.
func (q *question) mayClaim() bool { return len(q.pod.Spec.ResourceClaims) > 0 || q.extends() }

// extends reports whether drivers may provide extended resources that the pod requests.
func (q *question) extends() bool {
	for name, amount := range q.amounts {
		if amount > 0 && q.classes[corev1.ResourceName(name)] {
			return true
		}
	}
	return false
}

func claimantWith(c *survey.Cluster, s *survey.Survey, q *question, h *source.HandedOut, a *allocator) *claimant {
	mode, _ := c.Terms.ReadClaims(q.pod) // if there is an error, every node refuses the pod
	x := &claimant{survey: s, question: q, mode: mode, allocator: a, handedOut: h, extends: q.extends()}
	if q.pod.Annotations[wire.ClaimsAnnotation] == "" {
		x.assumed = fmt.Sprintf("the pod has no annotation %s, so the argument \"claims\" of Berth's plugin in scheduler profile %s decides; it cannot be read here, so this answer assumes %q (--claims changes that)",
			wire.ClaimsAnnotation, nameOfScheduler(q.pod), c.Terms.Claims)
	}
	return x
}

// explainAll explains each claim. The notes describe missing information.
func (x *claimant) explainAll(ctx context.Context) (all []Claimed, notes []string) {
	ctx, cancel := context.WithTimeout(ctx, claimsTimeout)
	defer cancel()
	all = x.findAll()
	x.explain(ctx, all)
	if notes = x.handedOut.Notes; x.assumed != "" && !x.bound {
		notes = append(slices.Clip(notes), x.assumed)
	}
	return all, notes
}

// findAll sets x.found to the claims of the pod. For a claim that it does not find, the result has
// the reason.
func (x *claimant) findAll() (all []Claimed) {
	of := x.question.pod.Spec.ResourceClaims
	x.found = nil
	for i := range of {
		all = append(all, Claimed{Name: of[i].Name, Asks: x.mode.String()})
		x.found = append(x.found, x.find(&of[i], &all[i]))
	}
	if !x.extends {
		return all
	}
	var c *resourcev1.ResourceClaim // nil for a pod without a node, because its claim differs from node to node
	if made := x.question.pod.Status.ExtendedResourceClaimStatus; x.bound {
		if made != nil {
			c = x.handedOut.Claim(x.question.pod.Namespace, made.ResourceClaimName)
		}
		if c == nil {
			return all // a device plugin provides the resources
		}
	}
	x.found = append(x.found, c)
	return append(all, Claimed{Name: claims.ForExtended, Asks: x.mode.String()})
}

// claimPlace is a node on which claims are explained. The field `first` has the NUMA nodes that the
// pod has there, or would get there if it had no claims. If known is false, first is not known, and
// why has the reason.
type claimPlace struct {
	*survey.NodeState
	known bool
	first claims.Lying
	why   string
	// slices and inventory have the node's devices, after a call of claimant.read.
	slices    []*resourcev1.ResourceSlice
	inventory *claims.Inventory
}

// read returns the devices of a node. It computes them only in the first call.
func (x *claimant) read(at *claimPlace) *claims.Inventory {
	if at.inventory == nil {
		at.slices = x.allocator.slicesOf(at.Object, at.Name)
		at.inventory = claims.Read(at.Name, knownMachine(at.NodeState), at.slices, &x.allocator.sources)
	}
	return at.inventory
}

const notCertain = "it is not certain which CPUs the pod would get there"

// places sets x.nodes to the nodes on which the claims are explained. The argument `on` is the
// pod's node, or "". `answers` are the nodes' answers about a pod without a node.
func (x *claimant) places(on string, answers []Answer) {
	if n := x.survey.States[on]; on != "" {
		x.bound = true
		if n != nil {
			x.nodes = []claimPlace{{NodeState: n, known: true, first: lies(n, x.question.pod)}}
		}
		return
	}
	for i := range answers {
		a := &answers[i]
		n := x.survey.States[a.Node]
		switch p := (claimPlace{NodeState: n}); a.Answer {
		case Admits:
			if p.first, p.known = wouldLie(n, x.question, x.mode); !p.known {
				p.why = notCertain
			}
			x.nodes = append(x.nodes, p)
		case Waits, Refuses:
			p.why = "the node does not take the pod now, regardless of its devices"
			x.nodes = append(x.nodes, p)
		}
	}
	if len(x.nodes) > maxClaimNodes {
		var bare []claimPlace // nodes without a slice come last
		x.nodes = slices.DeleteFunc(x.nodes, func(p claimPlace) bool {
			lacks := len(x.allocator.slicesOf(p.Object, p.Name)) == 0
			if lacks {
				bare = append(bare, p)
			}
			return lacks
		})
		x.nodes = append(x.nodes, bare...)
	}
}

// lies returns the NUMA nodes of a pod's containers on the pod's node: as reported, or as promised
// if no report lists the pod.
func lies(n *survey.NodeState, pod *corev1.Pod) claims.Lying {
	var d placement.Decision
	if p, _ := n.Reported(string(pod.UID)); p != nil {
		for i := range p.Containers {
			c := &p.Containers[i]
			one := placement.ContainerDecision{Name: c.Name, CPUs: c.CPUs, Memory: c.Memory, Shares: c.Shares}
			if n.Decides() && len(c.Shares) > 0 {
				one.Bounds = placement.BoundCPUs
			}
			d.Containers = append(d.Containers, one)
		}
	} else if p, found, err := wire.ReadPlacement(pod); found && err == nil {
		d = p.Decision
	}
	return claims.NUMAOf(&d, knownMachine(n))
}

// knownMachine returns the node's hardware, or nil if it is not known.
func knownMachine(n *survey.NodeState) *topology.Machine {
	if s := n.Spec(); s != nil && len(s.Machine.NUMANodes) > 0 {
		return s.Machine
	}
	return nil
}

// wouldLie returns the NUMA nodes that a pod's containers would get on a node that admits the pod,
// if the pod had no claims. The first result is nil if Berth does not decide about the pod there.
// The second result is false if the NUMA nodes are not known, or if the mode is claims.Required and
// the kubelet may choose other NUMA nodes.
func wouldLie(n *survey.NodeState, q *question, mode claims.Mode) (claims.Lying, bool) {
	if n.Account == nil || !q.hasSay(n) {
		return nil, true
	}
	var d placement.Decision
	a := n.Account.View().Decide(&ledger.Candidate{Request: q.request, Created: q.created}, &d)
	return claims.NUMAOf(&d, knownMachine(n)), a.OK() && (a.Exact || n.Decides() || mode != claims.Required)
}

// follows reports whether Berth decides on this node, and so can choose CPUs that are near the
// pod's devices.
func (x *claimant) follows(at *claimPlace) bool {
	return !x.bound && at.known && at.Decides() && knownMachine(at.NodeState) != nil && at.Account != nil && x.question.hasSay(at.NodeState)
}

// ways yields the possible placements of the pod on a node (claims.Ways), in the order in which the
// scheduler tries them. If the mode is claims.Free, there is only one placement. If the placement
// is not known, ways yields one placement without NUMA nodes.
func (x *claimant) ways(ctx context.Context, at *claimPlace) iter.Seq[claims.Lying] {
	q, m := x.question, knownMachine(at.NodeState)
	stock := func() *placement.Claimed {
		if x.mode == claims.Free || !x.follows(at) {
			return nil
		}
		return x.on(at).Counted(ctx)
	}
	lie := func(near *placement.Claimed) (claims.Lying, bool) {
		request, d := *q.request, placement.Decision{}
		request.Rules.Claimed = near
		a := at.Account.View().Decide(&ledger.Candidate{Request: &request, Created: q.created}, &d)
		return claims.NUMAOf(&d, m), a.OK()
	}
	return func(yield func(claims.Lying) bool) {
		tried := 0
		for way := range claims.Ways(at.first, x.mode, stock, lie) {
			if tried++; tried > claims.MaxWays || !yield(way.Lying) {
				return
			}
			if way.Near != nil {
				way.Near.Refute(way.Lying)
			}
		}
	}
}

// on returns the pod, its claims and the node's devices, in the form that package claims needs.
func (x *claimant) on(at *claimPlace) *claims.OnNode {
	a, inventory := x.allocator, x.read(at)
	n := &claims.OnNode{
		Pod: x.question.pod, Mode: x.mode, Extended: x.extended(at),
		Stock: claims.Stock{
			Inventory: inventory, Slices: at.slices, Selectors: a.selectors,
			Class: func(name string) *resourcev1.DeviceClass {
				class, _ := a.classes.Get(name)
				return class
			},
			Taken: func(id claims.DeviceID) bool {
				return structured.IsDeviceAllocated(structured.MakeDeviceID(id.Driver, id.Pool, id.Name), &a.state)
			},
		},
		Allocate: func(ctx context.Context, shown []*resourcev1.ResourceSlice, open []*resourcev1.ResourceClaim) ([]resourcev1.AllocationResult, string) {
			return a.allocate(ctx, at.NodeState, shown, open)
		},
	}
	for i := range x.question.pod.Spec.ResourceClaims {
		if c := x.found[i]; c != nil {
			n.Claims = append(n.Claims, claims.PodClaim{Ref: x.question.pod.Spec.ResourceClaims[i].Name, ResourceClaim: c})
			n.Whole = n.Whole || claims.TakesAll(c)
		}
	}
	return n
}

// extended returns the claim that the scheduler would make for extended resources on the node, or
// nil.
func (x *claimant) extended(at *claimPlace) *resourcev1.ResourceClaim {
	if !x.extends || x.bound || at.Object == nil {
		return nil
	}
	return claims.Extended(x.question.pod, func(name corev1.ResourceName) *resourcev1.DeviceClass {
		if has := at.Object.Status.Allocatable[name]; !has.IsZero() {
			return nil // a device plugin provides the resources
		}
		return x.allocator.extended.GetDeviceClass(name)
	})
}

const needsNone = "the pod needs no ResourceClaim for it"

// find returns the ResourceClaim for an entry of spec.resourceClaims. If there is none, it returns
// nil and sets the reason in out.
func (x *claimant) find(of *corev1.PodResourceClaim, out *Claimed) *resourcev1.ResourceClaim {
	if x.templates != nil && of.ResourceClaimTemplateName != nil {
		return x.made(of, out)
	}
	h := x.handedOut
	name, owned, err := resourceclaim.Name(x.question.pod, of)
	switch {
	case errors.Is(err, resourceclaim.ErrClaimNotFound):
		out.Message = "kube-controller-manager has not yet created the ResourceClaim from ResourceClaimTemplate " + *of.ResourceClaimTemplateName
		return nil
	case err != nil:
		out.Message = err.Error()
		return nil
	case name == nil:
		out.Message = needsNone
		return nil
	}
	out.Claim = x.question.pod.Namespace + "/" + *name
	c := h.Claim(x.question.pod.Namespace, *name)
	switch {
	case h.Claims == nil:
		out.Message = "ResourceClaims are not known"
		return nil
	case c == nil:
		out.Message = "there is no ResourceClaim " + out.Claim
		return nil
	case owned && !metav1.IsControlledBy(c, x.question.pod):
		out.Message = "ResourceClaim " + out.Claim + " was not created for this pod: want a claim that the pod controls"
		return nil
	}
	return c
}

// made returns the claim that kube-controller-manager would create from a template.
func (x *claimant) made(of *corev1.PodResourceClaim, out *Claimed) *resourcev1.ResourceClaim {
	namespace := x.question.pod.Namespace
	out.Template = namespace + "/" + *of.ResourceClaimTemplateName
	t := x.templates[*of.ResourceClaimTemplateName]
	if t == nil {
		out.Message = "there is no ResourceClaimTemplate " + out.Template
		return nil
	}
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: of.Name}, Spec: t.Spec.Spec}
}

func (x *claimant) explain(ctx context.Context, all []Claimed) {
	asked := make([]bool, len(all))
	for i, c := range x.found {
		asked[i] = (c != nil || i == len(x.question.pod.Spec.ResourceClaims)) && x.asks(c, &all[i])
	}
	if !slices.Contains(asked, true) {
		return
	}
	nodes := make([][]*ClaimOnNode, len(x.nodes))
	parallel.Do(len(x.nodes), func(i int) {
		nodes[i] = x.onNode(ctx, &x.nodes[i], asked, i < maxClaimNodes) // the best answers come first
	})
	for i := range all {
		for _, on := range nodes {
			switch {
			case !asked[i]:
			case on[i] == nil && !all[i].Allocated:
				all[i].More++
			case on[i] != nil:
				all[i].Nodes = append(all[i].Nodes, *on[i])
			}
		}
	}
}

// asks reports whether the nodes must be checked for devices that match the claim c. If not, it
// writes the reason into out. c is nil if the claim would differ from node to node.
func (x *claimant) asks(c *resourcev1.ResourceClaim, out *Claimed) bool {
	out.Allocated = c != nil && c.Status.Allocation != nil
	if c != nil && x.mode != claims.Free {
		out.Message = claims.Unserved(x.question.pod.UID, c)
	}
	why := ""
	switch {
	case x.allocator.slices == nil:
		why = "ResourceSlices are not known"
	case !out.Allocated && x.allocator.classes == nil:
		why = "DeviceClasses are not known"
	case !out.Allocated && x.bound:
		why = "it has no devices"
	case len(x.nodes) == 0 && !x.bound:
		why = "no node that pins anything for the pod could admit it"
	}
	out.Message = cmp.Or(out.Message, why)
	return why == ""
}

// findings describes the devices of a Judgement. If places is true, it describes only their
// positions, because the pod's NUMA nodes are not known.
func findings(j *claims.Judgement, places bool) (out []string) {
	for i := range j.Findings {
		f := &j.Findings[i]
		switch {
		case i == maxDevicesNamed:
			return append(out, "and "+wire.Counted(len(j.Findings)-i, "other device"))
		case places:
			out = append(out, fmt.Sprintf("device %s/%s is %s", f.Device.Driver, f.Device.Name, f.Place))
		default:
			out = append(out, f.String())
		}
	}
	return out
}

// unpinned explains, as the end of a sentence, why the position of the claim's devices does not
// matter, or returns "".
func (x *claimant) unpinned(of *claims.Claim) string {
	switch _, pinned := of.Wanted(""); {
	case len(of.Users) == 0:
		return "; no container uses the claim, so any device will do"
	case !pinned && x.mode != claims.Required:
		return "; the node pins no container that uses the claim, so any device will do"
	}
	return ""
}
