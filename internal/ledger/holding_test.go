package ledger

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

const oneNode = "package:1 numa:1 core:4 pu:1 mem:4Gi"

// hold finds resources for the request and holds them.
func hold(t *testing.T, n *Node, r *placement.Request) *placement.PodAllocation {
	t.Helper()
	var d placement.Decision
	if a := n.Reserve(cand(r), &d); !a.OK() {
		t.Fatalf("%s: %+v", r.UID, a)
	}
	h := Holding{UID: r.UID, Request: r, Held: d.Held()}
	n.Hold(h)
	return h.Held
}

// decided returns all CPUs of a decision.
func decided(d *placement.Decision) (cpus topology.CPUSet) {
	for i := range d.Containers {
		cpus = cpus.Or(&d.Containers[i].CPUs)
	}
	return cpus
}

// TestOwnersReuseInPlace: other pods do not get held resources. Owners get them, one after another,
// and the resources are held again when a report shows that an owner has left.
func TestOwnersReuseInPlace(t *testing.T) {
	m := model(t, "package:1 numa:1 core:6 pu:1 mem:4Gi", obeying)
	report := func(seq int64, pods ...placement.PodAllocation) *Report {
		r, err := NewReport(seq, m, &placement.Snapshot{Pods: pods}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	n := new(Ledger).Open(nil)
	n.Accept(report(1))
	place := hold(t, n, cpus("held", 3)).Containers[0].CPUs
	if a := n.View().Ask(Question{Candidate: cand(cpus("x", 3))}); a.Outcome != Refused {
		t.Errorf("a stranger for 3 CPUs of which 2 are free: %+v", a)
	}
	var one, two, three placement.Decision
	if a := n.ReserveOwner(cand(share("a", 2)), "held", &one); !a.OK() || !a.Exact {
		t.Fatalf("the first owner: %+v", a)
	}
	if a := n.ReserveOwner(cand(share("b", 1)), "held", &two); !a.OK() {
		t.Fatalf("the second owner: %+v", a)
	}
	first, second := decided(&one), decided(&two)
	if both := first.Or(&second); both != place {
		t.Errorf("owners have %s and %s, held was %s", first, second, place)
	}
	if a := n.ReserveOwner(cand(share("c", 1)), "held", &three); a.OK() {
		t.Errorf("a third owner gets %s of nothing", decided(&three))
	}
	check(t, n)
	post(t, n, "a")
	n.Accept(report(2, *one.Held()))
	n.Gone("a", n.outlook.facts.pods.byUID["a"].goneAt)
	if a := n.ReserveOwner(cand(share("c", 2)), "held", &three); a.OK() {
		t.Errorf("the API says that a is gone, and c gets %s", decided(&three))
	}
	n.Accept(report(3))
	if a := n.ReserveOwner(cand(share("c", 2)), "held", &three); !a.OK() || decided(&three) != first {
		t.Errorf("a has left: %+v, %s, want %s", a, decided(&three), first)
	}
	n.Forget("c")
	n.Forget("b")
	if !n.Release("held") {
		t.Error("nothing was held")
	}
	if a := n.View().Ask(Question{Candidate: cand(cpus("x", 5))}); !a.OK() {
		t.Errorf("after all: %+v", a)
	}
	check(t, n)
}

// share returns an owner with n CPUs, and for each CPU with an eighth of the memory of cpus.
func share(uid string, n int64) *placement.Request {
	r := cpus(uid, n)
	for i := range r.Containers {
		for k := range r.Containers[i].Memory {
			r.Containers[i].Memory[k].Bytes = uint64(n) * (r.Containers[i].Memory[k].Bytes / 8)
		}
	}
	return r
}

// TestOwnersGetWhatIsHeldOrNothing: an owner gets neither more CPUs than are held nor CPUs of
// another kind. If a resource is not held at all, the owner gets it from the node.
func TestOwnersGetWhatIsHeldOrNothing(t *testing.T) {
	m := model(t, "package:1 numa:1 core:6 pu:1 mem:4Gi", obeying)
	r, err := NewReport(1, m, &placement.Snapshot{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := new(Ledger).Open(nil)
	n.Accept(r)
	bare := cpus("held", 2)
	bare.Containers[0].Memory = nil
	place := hold(t, n, bare).Containers[0].CPUs
	var d placement.Decision
	if a := n.ReserveOwner(cand(share("a", 3)), "held", &d); a.Outcome != Refused {
		t.Errorf("more than is held: %+v", a)
	}
	half := share("a", 1)
	half.Containers[0].MilliCPU = 500
	if a := n.ReserveOwner(cand(half), "held", &d); a.Outcome != Refused {
		t.Errorf("a share of CPUs that are held: %+v", a)
	}
	alone := share("a", 1)
	alone.Rules.CPUs = joint.Rules{Exclusive: joint.ExclusiveCore, ExclusiveHow: joint.Required}
	if a := n.ReserveOwner(cand(alone), "held", &d); a.Outcome != Refused {
		t.Errorf("exclusive, where what is held is not: %+v", a)
	}
	if a := n.ReserveOwner(cand(share("a", 2)), "held", &d); !a.OK() || decided(&d) != place || len(d.Containers[0].Memory) == 0 {
		t.Errorf("with memory of the node: %+v, %+v", a, d)
	}
	if a := n.ReserveOwner(cand(share("a", 1)), "nothing", &d); a.OK() {
		t.Errorf("nothing is held: %+v", a)
	}
	check(t, n)
}

// TestOwnersMayWithholdByThemselves: a Reservation may keep CPUs idle that it does not request. An
// owner may keep them idle if its own namespace may do this. Otherwise it must request them too.
func TestOwnersMayWithholdByThemselves(t *testing.T) {
	m := model(t, "package:1 numa:1 core:3 pu:2 mem:4Gi", obeying)
	r, err := NewReport(1, m, &placement.Snapshot{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	asking := func(uid string, cpus int64, may bool) *placement.Request {
		r := share(uid, cpus)
		r.Rules.CPUs = joint.Rules{Exclusive: joint.ExclusiveCore, ExclusiveHow: joint.Required}
		r.Rules.MayWithhold = may
		return r
	}
	for held := range int64(2) {
		for more := range 2 {
			n := new(Ledger).Open(nil)
			n.Accept(r)
			place := asking("held", 1+held, true)
			var d placement.Decision
			if a := n.Reserve(cand(place), &d); !a.OK() {
				t.Fatalf("the place: %+v", a)
			}
			n.Hold(Holding{UID: "held", Request: place, Held: d.Held(), More: more > 0})
			if a := n.ReserveOwner(cand(asking("a", 1, false)), "held", &d); a.OK() {
				t.Errorf("%d CPUs held, an owner that may not withhold has %s", 1+held, decided(&d))
			}
			if a := n.ReserveOwner(cand(asking("b", 1+held, true)), "held", &d); !a.OK() {
				t.Errorf("%d CPUs held, an owner that may withhold: %+v", 1+held, a)
			}
			check(t, n)
		}
	}
}

// TestHoldingsOnKubeletNodes: where the kubelet decides, no CPUs are held. A pod is admitted only
// if the held request would still be admitted after it.
func TestHoldingsOnKubeletNodes(t *testing.T) {
	m := model(t, "package:1 numa:2 core:3 pu:1 mem:4Gi", placement.Config{
		CPUManagerPolicy: "static", TopologyManagerPolicy: "single-numa-node", ReservedSystemCPUs: "0",
	})
	r, err := NewReport(1, m, &placement.Snapshot{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := new(Ledger).Open(nil)
	n.Accept(r)
	hold(t, n, cpus("held", 3)) // NUMA node 1
	if a := n.View().Ask(Question{Candidate: cand(cpus("x", 3))}); !a.Held || a.Outcome != Refused {
		t.Errorf("a stranger in its place: %+v", a)
	}
	small := cpus("y", 2)
	if a := n.View().Ask(Question{Candidate: cand(small)}); !a.OK() {
		t.Errorf("a stranger beside it: %+v", a)
	}
	var d placement.Decision
	if a := n.Reserve(cand(cpus("z", 3)), &d); a.OK() {
		t.Errorf("reserved in its place: %+v", a)
	}
	if a := n.View().Ask(Question{Candidate: cand(cpus("x", 3)), Trial: &Trial{Without: []string{"nobody"}}}); a.OK() {
		t.Errorf("on trial: %+v", a)
	}
	fork := n.Fork()
	if a := fork.View().Ask(Question{Candidate: cand(cpus("x", 3))}); a.OK() {
		t.Errorf("on a fork: %+v", a)
	}
	if a := n.ReserveOwner(cand(cpus("own", 3)), "held", &d); !a.OK() {
		t.Errorf("the owner: %+v", a)
	}
	n.Forget("own")
	n.Release("held")
	if a := n.View().Ask(Question{Candidate: cand(cpus("x", 3))}); !a.OK() {
		t.Errorf("released: %+v", a)
	}
	check(t, n)
}

// TestHoldingsAmongPodsOfManyOrders: if the pods in flight can arrive in too many orders to try, a
// pod is admitted only if there is room for it, for them and for the held request in every order.
func TestHoldingsAmongPodsOfManyOrders(t *testing.T) {
	n := open(t, newKubelet(t, model(t, "package:1 numa:1 core:32 pu:1 mem:64Gi", placement.Config{
		CPUManagerPolicy: "static", TopologyManagerPolicy: "best-effort", ReservedSystemCPUs: "0",
	})))
	loose := func(uid string, count int64) *Candidate {
		return &Candidate{Request: cpus(uid, count), Created: 7, Loose: true}
	}
	var d placement.Decision
	for i, count := range []int64{5, 4, 3, 2, 1} {
		if a := n.Reserve(loose(fmt.Sprint("p", i), count), &d); !a.OK() {
			t.Fatalf("p%d: %+v", i, a)
		}
	}
	if n.outlook.afterReserved().why != ManyOrders {
		t.Fatal("not too many orders: the test shows nothing")
	}
	n.Hold(Holding{UID: "held", Request: cpus("held", 8)})
	for count, want := range map[int64]Outcome{8: Admitted, 9: Waiting} { // 31 CPUs - 15 - 8 = 8
		if a := n.View().Ask(Question{Candidate: loose("x", count)}); a.Outcome != want {
			t.Errorf("%d CPUs: %+v, want %v", count, a, want)
		}
	}
	n.Release("held")
	if a := n.View().Ask(Question{Candidate: loose("x", 16)}); !a.OK() {
		t.Errorf("released: %+v", a)
	}
	check(t, n)
}

// TestADisplacedHoldingKeepsNobodyOff: if another pod has a Reservation's resources, the
// Reservation keeps no pod off.
func TestADisplacedHoldingKeepsNobodyOff(t *testing.T) {
	m := model(t, oneNode, placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0"})
	r, err := NewReport(1, m, &placement.Snapshot{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := new(Ledger).Open(nil)
	n.Accept(r)
	n.Hold(Holding{UID: "held", Request: cpus("held", 40)})
	if a := n.View().Ask(Question{Candidate: cand(cpus("x", 3))}); !a.OK() {
		t.Errorf("%+v", a)
	}
	m = model(t, oneNode, obeying)
	if r, err = NewReport(1, m, &placement.Snapshot{}, nil); err != nil {
		t.Fatal(err)
	}
	n = new(Ledger).Open(nil)
	n.Accept(r)
	var d placement.Decision
	n.Reserve(cand(share("a", 2)), &d)
	n.Hold(Holding{UID: "forged", Held: d.Held()})
	if why, known := n.View().Displaced("forged"); why == "" || !known {
		t.Errorf("CPUs of another pod are held: %q, %t", why, known)
	}
	check(t, n)
}

// heldOnes holds and releases resources in a random history of a node on which Berth decides.
type heldOnes struct {
	*obeyed
	held   map[string]placement.PodAllocation
	owners map[string][]string
	// more means that owners may request more than is held.
	more bool
}

func (o *heldOnes) step() {
	switch o.rng.IntN(8) {
	case 0:
		r, d := o.request(), placement.Decision{}
		if a := o.n.Reserve(cand(r), &d); a.OK() {
			o.held[r.UID] = *d.Held()
			o.n.Hold(Holding{UID: r.UID, Request: r, Held: d.Held(), More: o.more})
		}
	case 1, 2:
		if uid := pick(o.rng, slices.Sorted(maps.Keys(o.held))); uid != "" {
			r, d := o.request(), placement.Decision{}
			if a := o.n.ReserveOwner(cand(r), uid, &d); a.OK() {
				o.requests[r.UID], o.decided[r.UID] = r, d.Clone()
				o.reserved = append(o.reserved, r.UID)
				o.owners[uid] = append(o.owners[uid], r.UID)
			}
		}
	case 3:
		if uid := pick(o.rng, slices.Sorted(maps.Keys(o.held))); uid != "" && o.rng.IntN(3) == 0 {
			o.n.Release(uid)
			delete(o.held, uid)
			delete(o.owners, uid)
		}
	default:
		before := o.n
		o.obeyed.step()
		if o.n != before { // the scheduler was restarted
			for uid, p := range o.held {
				o.n.Hold(Holding{UID: uid, Held: &p, Owners: o.owners[uid], More: o.more})
			}
		}
	}
}

// wantHeld fails if a pod other than an owner has held resources, or if held resources are
// displaced.
func (o *heldOnes) wantHeld() {
	o.wantAccount() // this finds CPUs that two pods have
	for uid, place := range o.held {
		if why, _ := o.n.View().Displaced(uid); why != "" {
			o.t.Fatalf("%s is displaced: %s", uid, why)
		}
		for pod, d := range o.decided {
			cpus := decided(&d)
			if o.through[pod] || slices.Contains(o.owners[uid], pod) {
				continue
			}
			for _, c := range place.Containers {
				if both := c.CPUs.And(&cpus); !both.IsEmpty() && o.older(uid, pod) {
					o.t.Fatalf("%s has CPUs %s, which %s holds", pod, both, uid)
				}
				if id := sharedDevice(&c, &d); id != "" && o.older(uid, pod) {
					o.t.Fatalf("%s has device %s, which %s holds", pod, id, uid)
				}
			}
		}
	}
}

// sharedDevice returns a device that both have; "" for none.
func sharedDevice(c *placement.ContainerAllocation, d *placement.Decision) string {
	for _, held := range c.Devices {
		for i := range d.Containers {
			for _, given := range d.Containers[i].Devices {
				for _, id := range given.IDs {
					if held.Resource == given.Resource && slices.Contains(held.IDs, id) {
						return id
					}
				}
			}
		}
	}
	return ""
}

// older reports whether the resources were held before the decision about the pod. Numbers only
// grow.
func (o *heldOnes) older(held, pod string) bool {
	var a, b int
	fmt.Sscanf(held, "p%d", &a)
	fmt.Sscanf(pod, "p%d", &b)
	return a < b
}

// TestHeldHistories: resources are held and released, are partly used, and survive restarts. No CPU
// is given twice, and no held CPU is given to a pod that is no owner.
func TestHeldHistories(t *testing.T) {
	for seed := range uint64(*runs) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			o := &heldOnes{newObeyed(t, seed), map[string]placement.PodAllocation{}, map[string][]string{}, seed%2 == 1}
			o.rng = rand.New(rand.NewPCG(seed, 7))
			for range 200 {
				o.step()
				o.wantHeld()
			}
			for uid := range o.held {
				o.n.Release(uid)
			}
			o.settle()
		})
	}
}

// TestOwnersThatAskForMore: if the Reservation allows it, an owner gets the rest of the held
// resources and the remainder from the node, on the same NUMA node if it wants one. Nothing is
// given twice, and the part of the Reservation is released to it.
func TestOwnersThatAskForMore(t *testing.T) {
	m := model(t, "package:2 numa:1 core:8 pu:1 mem:8Gi", obeying)
	open := func() *Node {
		n := new(Ledger).Open(nil)
		r, err := NewReport(1, m, &placement.Snapshot{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		n.Accept(r)
		return n
	}
	single := func(r *placement.Request) *placement.Request {
		r.Rules = placement.Rules{Policy: placement.PolicySingleNUMANode, Scope: placement.PodScope}
		return r
	}
	bare := func(uid string, n int64) *placement.Request { // it gets CPU time, because it requests no memory
		r := cpus(uid, n)
		r.Containers[0].Memory, r.Guaranteed = nil, false
		return r
	}
	for name, c := range map[string]struct {
		place, owner *placement.Request
		more, once   bool
		before       *placement.Request // of a stranger
		ok           bool
		all          bool // it gets all resources of the place
	}{
		"more, and the node has it":       {single(share("held", 4)), single(share("a", 6)), true, false, nil, true, true},
		"Restricted":                      {single(share("held", 4)), single(share("a", 6)), false, false, nil, false, false},
		"less than is held":               {single(share("held", 4)), single(share("a", 2)), true, false, nil, true, false},
		"more than the NUMA node has":     {single(share("held", 4)), single(share("a", 9)), true, false, nil, false, false},
		"more than is left there":         {single(share("held", 4)), single(share("a", 6)), true, false, single(share("x", 3)), false, false},
		"on two NUMA nodes":               {share("held", 4), share("a", 10), true, false, nil, true, true},
		"time is held, CPUs are wanted":   {bare("held", 4), share("a", 4), true, false, nil, false, false},
		"the same, and it is the last":    {bare("held", 4), share("a", 4), true, true, nil, true, false},
		"CPUs are held, time is wanted":   {share("held", 4), bare("a", 4), true, false, nil, false, false},
		"the same, and that is the last":  {share("held", 4), bare("a", 4), true, true, nil, true, false},
		"more time than is held":          {bare("held", 4), bare("a", 6), true, false, nil, true, false},
		"time beyond what the node gives": {bare("held", 4), bare("a", 40), true, true, nil, false, false},
	} {
		n := open()
		var d placement.Decision
		if c.before != nil {
			if a := n.Reserve(cand(c.before), &d); !a.OK() {
				t.Fatalf("%s: %+v", name, a)
			}
		}
		if a := n.Reserve(cand(c.place), &d); !a.OK() {
			t.Fatalf("%s: %+v", name, a)
		}
		h := Holding{UID: "held", Request: c.place, Held: d.Held(), More: c.more, Once: c.once}
		n.Hold(h)
		place := decided(&d)
		a := n.ReserveOwner(cand(c.owner), "held", &d)
		if a.OK() != c.ok {
			t.Errorf("%s: %+v, want ok %t", name, a, c.ok)
			continue
		}
		if got := decided(&d); c.all && !place.IsSubsetOf(&got) {
			t.Errorf("%s: it has CPUs %s, and %s are held", name, got, place)
		}
		check(t, n)
		n.Forget("a")
		if left := n.View().holdings(); len(left) != 1 || allOf(left[0].Held) != place {
			t.Errorf("%s: when it has gone %+v is held, want CPUs %s", name, left, place)
		}
		check(t, n)
	}
}

// allOf returns all CPUs of an allocation.
func allOf(p *placement.PodAllocation) (cpus topology.CPUSet) {
	for i := range p.Containers {
		cpus = cpus.Or(&p.Containers[i].CPUs)
	}
	return cpus
}

// holdings returns the remaining resources for further owners, by UID.
func (v View) holdings() []Holding {
	n := v.n
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]Holding, 0, len(n.outlook.facts.holdings))
	for _, h := range n.outlook.facts.holdings {
		left := h.Holding
		if n.outlook.facts.decides() && h.Held != nil {
			left.Held = n.outlook.facts.rest(h)
		}
		out = append(out, left)
	}
	return out
}
