package placement

import (
	"slices"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// decider decides which resources a pod gets on a node. admission predicts the kubelet's decision;
// jointAdmission makes Berth's.
type decider interface {
	// decide implements Decide for a valid request.
	decide(s *State, r *Request, d *Decision) Verdict
	// explain adds the details to out, the Refusal with the verdict v.
	explain(s *State, r *Request, out Refusal, v *Verdict) Refusal
	// elsewhere looks for a place that takes no kept CPUs (Keep). The caller has found that the
	// place from decide takes some.
	elsewhere(s *State, r *Request, d *Decision) (v Verdict, found bool)
}

// room is a decider with memory for a decision. Rooms come from a pool, so that an admission
// allocates nothing.
type room struct {
	decider decider
	own     Decision // for Admit, whose caller needs no Decision
}

func (m *Model) newDecider() decider {
	if m.obey != nil {
		return newJointAdmission(m)
	}
	return newAdmission(m)
}

// admission computes one admission of a kubelet. It changes only its copies of the state.
type admission struct {
	m *Model
	s *State
	r *Request
	d *Decision
	// held is the pod's current allocation if the kubelet admits a running pod again, as after a
	// restart. It is usually nil.
	held *PodAllocation
	// pods has the pods on the node. It is empty if the admission assumes an empty node.
	pods []podRef

	// managers are the kubelet's managers, in the order in which it calls them.
	managers [managers]manager
	cpus     cpuManager
	memory   memoryManager
	devices  deviceManager

	// lists[:used] are the hints for the current container or pod, and of[i] is the resource of
	// lists[i].
	lists []hint.List
	of    []string
	used  int
	merge merger

	chance bool
	// meanwhile are the events that happen during this admission. It is usually nil.
	meanwhile []Meanwhile
	step      int
	// rules are the rules that the node applies to the request. The caller sets rules before begin.
	rules Rules
	// whole means that the kubelet allocates spec.resources to the pod as a whole (Model.whole).
	whole bool
	empty Decision // for the admission to an empty node
}

func newAdmission(m *Model) *admission {
	ad := &admission{m: m}
	ad.cpus.ad, ad.memory.ad, ad.devices.ad = ad, ad, ad
	ad.managers = [...]manager{ofDevices: &ad.devices, ofCPUs: &ad.cpus, ofMemory: &ad.memory}
	if m.mem != nil {
		ad.memory.book = m.mem.NewBook()
	}
	if m.space != nil {
		ad.merge.init(m.space)
	}
	return ad
}

// begin prepares the admission. If empty is set, the admission assumes a node without pods, but
// with the reports of its device plugins.
func (ad *admission) begin(s *State, r *Request, d *Decision, empty bool) {
	ad.s, ad.r, ad.d, ad.chance = s, r, d, false
	ad.whole = r.PodLevel && ad.m.whole(r)
	books := s
	ad.held, ad.pods = nil, s.pods
	if empty {
		books, ad.pods = ad.m.empty, nil
	} else if len(s.pods) > 0 {
		ad.held = s.pod(r.UID)
	}
	ad.cpus.shared, ad.cpus.reusable = books.shared, topology.CPUSet{}
	if ad.m.mem != nil {
		ad.memory.book.CopyFrom(books.book)
		ad.memory.reuse.Reset()
	}
	ad.devices.begin(empty)
	if ad.held != nil {
		ad.dropLost()
	}
	d.begin(r)
}

// end drops the references to the caller's values, so that a pooled admission does not keep them in
// memory.
func (ad *admission) end() {
	ad.s, ad.r, ad.d, ad.held, ad.pods = nil, nil, nil, nil, nil
	for i := range ad.devices.slots {
		ad.devices.slots[i].pool = nil
	}
}

// begin clears the decision for the request and keeps the memory of its slices.
func (d *Decision) begin(r *Request) {
	n := len(r.Containers)
	d.UID, d.Whole = r.UID, nil
	d.Containers = slices.Grow(d.Containers[:0], n)[:n]
	for i := range d.Containers {
		d.Containers[i].empty(&r.Containers[i])
	}
}

// empty clears the decision for a container and keeps the memory of its slices.
func (c *ContainerDecision) empty(r *ContainerRequest) {
	c.Name, c.Kind, c.Hint = r.Name, r.Kind, Hint{Any: true}
	c.CPUs = topology.CPUSet{}
	c.Memory, c.Devices = c.Memory[:0], c.Devices[:0]
	c.Shares, c.Exclusive = c.Shares[:0], joint.Shareable
	c.Provided = c.Provided[:0]
	c.Bounds = 0
}

// heldBy returns the current allocation of container c, or nil.
func (ad *admission) heldBy(c int) *ContainerAllocation {
	if ad.held == nil {
		return nil
	}
	return ad.held.container(ad.r.Containers[c].Name)
}

// list adds a list of hints for a resource, and returns it for the caller to fill.
func (ad *admission) list(resource string) *hint.List {
	if ad.used == len(ad.lists) {
		ad.lists = append(ad.lists, ad.m.space.NewList())
		ad.of = append(ad.of, "")
	}
	ad.of[ad.used] = resource
	ad.used++
	return &ad.lists[ad.used-1]
}
