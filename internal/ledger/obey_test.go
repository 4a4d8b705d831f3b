package ledger

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// obeying is the configuration of a node on which Berth decides.
var obeying = placement.Config{Authority: placement.AuthorityBerth, ReservedSystemCPUs: "0"}

// obeyed is a node that carries decisions out. Its scheduler learns about every change late.
type obeyed struct {
	t   *testing.T
	rng *rand.Rand
	m   *placement.Model
	// pools are the devices that Berth assigns on the node.
	pools []placement.DevicePool
	n     *Node
	now   time.Time
	seq   int64
	next  int

	requests map[string]*placement.Request
	// decided has the decision about each pod that is bound or may be bound. The twin counts these.
	decided                map[string]placement.Decision
	reserved, bound, shown []string
	// gone pods have left the API. through pods have also left the node.
	gone, through map[string]bool
	// runs has the pods that the agent finds. reports are in flight.
	runs    map[string]bool
	reports []*Report
}

func newObeyed(t *testing.T, seed uint64) *obeyed {
	rng := rand.New(rand.NewPCG(seed, 16))
	machine := []string{twoSockets, "package:2 numa:2 core:3 pu:1 mem:4Gi", "package:1 numa:2 core:4 pu:2 mem:8Gi"}[rng.IntN(3)]
	cfg := obeying
	pools := devicePools(rng)
	cfg.Devices = placement.DevicesOf(new(topology.Machine), pools)
	o := &obeyed{t: t, rng: rng, m: model(t, machine, cfg), pools: pools, now: time.Unix(0, 0), requests: map[string]*placement.Request{},
		decided: map[string]placement.Decision{}, gone: map[string]bool{}, through: map[string]bool{}, runs: map[string]bool{}}
	o.n = new(Ledger).Open(nil)
	o.n.Accept(o.report())
	return o
}

// devicePools returns up to two kinds of devices. Their order does not matter.
func devicePools(rng *rand.Rand) (pools []placement.DevicePool) {
	for k, name := range []string{"a.example/gpu", "b.example/nic"}[:rng.IntN(3)] {
		pool := placement.DevicePool{Resource: name, Decided: true}
		for i := range 1 + rng.IntN(4) {
			pool.Devices = append(pool.Devices, placement.Device{ID: fmt.Sprintf("0000:%d%d:00.0", k, i), HasTopology: true, NUMA: topology.NewNUMASet(topology.NUMAID(rng.IntN(2)))})
		}
		pools = append(pools, pool)
	}
	return pools
}

// report returns the agent's report about running pods. The health of devices changes.
func (o *obeyed) report() *Report {
	o.seq++
	var snap placement.Snapshot
	for _, p := range o.pools {
		p.Devices = slices.Clone(p.Devices)
		for i := range p.Devices {
			p.Devices[i].Unhealthy = o.rng.IntN(6) == 0
		}
		snap.Devices = append(snap.Devices, p)
	}
	for _, uid := range slices.Sorted(maps.Keys(o.runs)) {
		d := o.decided[uid]
		snap.Pods = append(snap.Pods, *d.Held())
	}
	r, err := NewReport(o.seq, o.m, &snap, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	return r
}

func (o *obeyed) request() *placement.Request {
	o.next++
	r := &placement.Request{UID: fmt.Sprint("p", o.next), Guaranteed: o.rng.IntN(4) > 0}
	for i := range 1 + o.rng.IntN(2) {
		r.Containers = append(r.Containers, placement.ContainerRequest{Name: fmt.Sprint("c", i),
			MilliCPU: []int64{500, 1000, 1500, 2000, 4000}[o.rng.IntN(5)],
			Memory:   []placement.MemoryRequest{{Resource: "memory", Bytes: uint64(1+o.rng.IntN(4)) << 28}}})
	}
	for _, p := range o.pools {
		if o.rng.IntN(2) == 0 {
			c := &r.Containers[o.rng.IntN(len(r.Containers))]
			c.Devices = append(c.Devices, placement.DeviceRequest{Resource: p.Resource, Count: int64(1 + o.rng.IntN(2))})
		}
	}
	r.Rules.Policy = []placement.Policy{placement.PolicyNone, placement.PolicyBestEffort, placement.PolicyRestricted, placement.PolicySingleNUMANode}[o.rng.IntN(4)]
	if o.rng.IntN(4) == 0 {
		r.Rules.CPUs = joint.Rules{Exclusive: joint.ExclusiveCore, ExclusiveHow: joint.Required}
	}
	return r
}

func pick(rng *rand.Rand, list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[rng.IntN(len(list))]
}

func drop(list []string, uid string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == uid })
}

// see shows the scheduler a bound pod as it is in the API.
func (o *obeyed) see(uid string, initial bool) {
	d := o.decided[uid]
	o.n.See(Sighting{UID: uid, Request: o.resized(uid), Created: 1, Turn: 1 + int64(slices.Index(o.bound, uid)), Inherited: initial,
		Promise: &Promise{Decision: d, Exact: true}})
}

// resized returns the pod's current request. Without Berth's policies a user may have resized the
// pod in place, which does not change its resources.
func (o *obeyed) resized(uid string) *placement.Request {
	r := *o.requests[uid]
	r.Containers = slices.Clone(r.Containers)
	for i := range r.Containers {
		r.Containers[i].MilliCPU = max(1, r.Containers[i].MilliCPU*int64(o.rng.IntN(4))/2)
	}
	return &r
}

func (o *obeyed) step() {
	switch o.rng.IntN(14) {
	case 0, 1, 2:
		r, d := o.request(), placement.Decision{}
		if a := o.n.Reserve(cand(r), &d); a.OK() {
			if !a.Exact || !a.Certain {
				o.t.Fatalf("%s: %+v, want an exact decision", r.UID, a)
			}
			o.requests[r.UID], o.decided[r.UID] = r, d.Clone()
			o.reserved = append(o.reserved, r.UID)
		}
	case 3, 4, 5:
		o.bind(pick(o.rng, o.reserved))
	case 6:
		if uid := pick(o.rng, o.reserved); uid != "" {
			o.n.Forget(uid)
			o.reserved = drop(o.reserved, uid)
			delete(o.decided, uid)
		}
	case 7:
		if uid := pick(o.rng, o.bound); uid != "" && !o.gone[uid] {
			o.see(uid, false)
			o.shown = append(o.shown, uid)
		}
	case 8:
		if uid := pick(o.rng, o.bound); uid != "" && !o.through[uid] {
			o.runs[uid] = true
		}
	case 9:
		if uid := pick(o.rng, o.shown); uid != "" && !o.gone[uid] {
			o.gone[uid] = true
			o.n.Gone(uid, o.now)
		}
	case 10:
		for uid := range o.gone {
			if !o.through[uid] && o.rng.IntN(2) == 0 {
				o.through[uid] = true
				delete(o.runs, uid)
			}
		}
	case 11:
		o.reports = append(o.reports, o.report())
	case 12:
		if len(o.reports) > 0 {
			for _, out := range o.n.Accept(o.reports[0]) {
				if !out.Kept {
					o.t.Fatalf("%s: promised %+v, found %+v", out.UID, out.Promised, out.Found)
				}
			}
			o.reports = o.reports[1:]
		}
	case 13:
		if o.rng.IntN(8) == 0 {
			o.restart()
		}
	}
}

func (o *obeyed) bind(uid string) {
	if uid == "" {
		return
	}
	var d placement.Decision
	p, err := o.n.Post(uid, &d)
	if reserved := o.decided[uid]; err != nil || !p.Answer.OK() || !p.Answer.Exact || !Same(&reserved, &d) {
		o.t.Fatalf("%s: posted %+v as %+v, %v, want what was reserved: %+v", uid, p.Answer, d, err, reserved)
	}
	o.reserved = drop(o.reserved, uid)
	o.bound = append(o.bound, uid)
}

// restart is a scheduler that starts again, with the pods in the API and the newest report.
func (o *obeyed) restart() {
	for _, uid := range o.reserved {
		delete(o.decided, uid)
	}
	o.n, o.reserved, o.shown, o.reports = new(Ledger).Open(nil), nil, nil, nil
	r := o.report()
	o.n.Accept(r)
	for _, uid := range o.bound {
		switch {
		case !o.gone[uid]:
			o.see(uid, true)
			o.shown = append(o.shown, uid)
		case !r.Has(uid):
			o.through[uid] = true // no data of it is left
		}
	}
}

// wantAccount compares the account with the twin: the resources of all pods with a decision that
// have not left.
func (o *obeyed) wantAccount() {
	check(o.t, o.n)
	snap, ok := o.n.View().Snapshot()
	if !ok {
		o.t.Fatal("no state")
	}
	held, devices := map[string]placement.PodAllocation{}, map[string]string{}
	var cpus topology.CPUSet
	for _, p := range snap.Pods {
		held[p.UID] = p
		own := topology.CPUSet{}
		for _, c := range p.Containers {
			own = own.Or(&c.CPUs)
		}
		for _, c := range p.Containers {
			for _, a := range c.Devices {
				for _, id := range a.IDs {
					if other, twice := devices[id]; twice {
						o.t.Fatalf("%s and %s have %s", other, p.UID, id)
					}
					devices[id] = p.UID
				}
			}
		}
		if both := own.And(&cpus); !both.IsEmpty() {
			o.t.Fatalf("%s: CPUs %s are given twice", p.UID, both)
		}
		cpus = cpus.Or(&own)
	}
	for uid, d := range o.decided {
		p, there := held[uid]
		if !there && !o.through[uid] {
			o.t.Fatalf("%s is bound, and its CPUs are free", uid)
		}
		if there && !placementSame(&p, d.Held()) {
			o.t.Fatalf("%s holds %+v, decided was %+v", uid, p, d)
		}
	}
}

func placementSame(a, b *placement.PodAllocation) bool {
	return slices.EqualFunc(a.Containers, b.Containers, func(x, y placement.ContainerAllocation) bool {
		return x.Name == y.Name && x.CPUs == y.CPUs && x.Exclusive == y.Exclusive && slices.Equal(x.Shares, y.Shares) && slices.Equal(x.Memory, y.Memory) &&
			slices.EqualFunc(x.Devices, y.Devices, sameDevices)
	})
}

// TestObeyingHistories: whatever happens, a bound pod keeps its resources until it has left, no
// other pod has them, and the account equals a new computation.
func TestObeyingHistories(t *testing.T) {
	for seed := range uint64(*runs) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			o := newObeyed(t, seed)
			for range 200 {
				o.step()
				o.wantAccount()
			}
			o.settle()
		})
	}
}

// settle ends all pods. The node is then empty.
func (o *obeyed) settle() {
	for _, uid := range o.reserved {
		o.n.Forget(uid)
	}
	for _, uid := range o.bound {
		if !o.gone[uid] {
			o.see(uid, false)
			o.n.Gone(uid, o.now)
		}
	}
	o.runs = map[string]bool{}
	o.n.Accept(o.report())
	o.n.ForgetGone(o.now.Add(time.Hour), time.Minute)
	if s, ok := o.n.View().Snapshot(); !ok || len(s.Pods) > 0 {
		o.t.Fatalf("%+v is left, %t", s.Pods, ok)
	}
}

// TestObeyingNodesReleaseByEvidence: a deletion releases nothing, and a report without the pod
// releases nothing while the API has the pod.
func TestObeyingNodesReleaseByEvidence(t *testing.T) {
	m := model(t, "package:1 numa:1 core:3 pu:1 mem:4Gi", obeying)
	report := func(seq int64, pods ...placement.PodAllocation) *Report {
		r, err := NewReport(seq, m, &placement.Snapshot{Pods: pods}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	n := new(Ledger).Open(nil)
	n.Accept(report(1))
	var d placement.Decision
	if a := n.Reserve(cand(cpus("a", 2)), &d); !a.OK() {
		t.Fatal(a)
	}
	post(t, n, "a")
	two, shown := cpus("b", 2), *d.Held()
	full := func(when string) {
		t.Helper()
		if a := n.View().Ask(Question{Candidate: cand(two)}); a.Outcome != Refused {
			t.Errorf("%s: %+v, want the CPUs held", when, a)
		}
	}
	full("posted")
	n.Accept(report(2, shown))
	full("shown")
	n.Accept(report(3))
	full("between two lives")
	n.Accept(report(4, shown))
	n.Gone("a", time.Unix(1, 0))
	full("gone from the API")
	n.Accept(report(5, shown))
	full("still on the node")
	n.Accept(report(6))
	if a := n.View().Ask(Question{Candidate: cand(two)}); !a.OK() {
		t.Errorf("gone from both: %+v", a)
	}
}

// TestObeyingNodesLetGoOfJobs: a pod that has succeeded or failed is released when a report does
// not list it, although the API keeps it.
func TestObeyingNodesLetGoOfJobs(t *testing.T) {
	m := model(t, "package:1 numa:1 core:3 pu:1 mem:4Gi", obeying)
	n := new(Ledger).Open(nil)
	report := func(seq int64, pods ...placement.PodAllocation) {
		r, err := NewReport(seq, m, &placement.Snapshot{Pods: pods}, nil)
		if err != nil {
			t.Fatal(err)
		}
		n.Accept(r)
	}
	report(1)
	var d placement.Decision
	n.Reserve(cand(cpus("job", 2)), &d)
	post(t, n, "job")
	s := Sighting{UID: "job", Request: cpus("job", 2), Turn: 1, Promise: &Promise{Decision: d.Clone(), Exact: true}, Mortal: true}
	n.See(s)
	report(2, *d.Held())
	s.Phase = Ended
	n.See(s)
	next := Question{Candidate: cand(cpus("next", 2))}
	if a := n.View().Ask(next); a.Outcome != Refused {
		t.Errorf("%+v, want it held until a report tells", a)
	}
	report(3)
	if a := n.View().Ask(next); !a.OK() {
		t.Errorf("%+v after the report", a)
	}
	n.See(s) // as after a change of its labels
	if a := n.View().Ask(next); !a.OK() {
		t.Errorf("%+v after it was seen again", a)
	}
	check(t, n)
}

// TestObeyingNodesKeepOffFoundCPUs: a pod that runs on other CPUs than decided keeps other pods off
// these CPUs. A promise of CPUs that another pod has is not posted.
func TestObeyingNodesKeepOffFoundCPUs(t *testing.T) {
	m := model(t, "package:1 numa:1 core:5 pu:1 mem:4Gi", obeying)
	n := new(Ledger).Open(nil)
	first, err := NewReport(1, m, &placement.Snapshot{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n.Accept(first)
	var d placement.Decision
	n.Reserve(cand(cpus("a", 1)), &d)
	post(t, n, "a")
	n.See(Sighting{UID: "a", Request: cpus("a", 1), Turn: 1, Promise: &Promise{Decision: d.Clone(), Exact: true}})
	b := placement.Decision{}
	n.Reserve(cand(cpus("b", 1)), &b)
	stray := *d.Held()
	stray.Containers = slices.Clone(stray.Containers)
	stray.Containers[0].CPUs = b.Containers[0].CPUs
	second, err := NewReport(2, m, &placement.Snapshot{Pods: []placement.PodAllocation{stray}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := n.Accept(second)
	if len(out) != 1 || out[0].Kept {
		t.Errorf("%+v, want one broken promise", out)
	}
	if p, err := n.Post("b", &b); err != nil || p.Answer.OK() {
		t.Errorf("%+v, %v: posted CPUs on which a was found", p, err)
	}
}

// TestObeyingNodesGiveDevices: no other pod gets the devices of a pod in flight. Evicted and ended
// pods release them, and no pod gets an unhealthy one. A scheduler that starts again counts them. A
// Binding with another pod's device is ignored.
func TestObeyingNodesGiveDevices(t *testing.T) {
	cfg := obeying
	pool := placement.DevicePool{Resource: "x/gpu", Decided: true, Devices: []placement.Device{{ID: "0000:18:00.0"}, {ID: "0000:19:00.0"}}}
	cfg.Devices = placement.DevicesOf(new(topology.Machine), []placement.DevicePool{pool})
	m := model(t, "package:1 numa:1 core:8 pu:1 mem:4Gi", cfg)
	report := func(seq int64, sick bool, pods ...placement.PodAllocation) *Report {
		p := pool
		p.Devices = slices.Clone(pool.Devices)
		p.Devices[1].Unhealthy = sick
		r, err := NewReport(seq, m, &placement.Snapshot{Devices: []placement.DevicePool{p}, Pods: pods}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	ask := func(uid string, n int64) *placement.Request {
		return &placement.Request{UID: uid, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: 100, Devices: []placement.DeviceRequest{{Resource: "x/gpu", Count: n}}}}}
	}
	n := new(Ledger).Open(nil)
	n.Accept(report(1, false))
	var a, b placement.Decision
	if got := n.Reserve(cand(ask("a", 1)), &a); !got.OK() || len(a.Containers[0].Devices) != 1 {
		t.Fatalf("%+v %+v", got, a)
	}
	post(t, n, "a")
	wantOutcome(t, "two of one that is left", n.View().Ask(Question{Candidate: cand(ask("two", 2))}), Refused)
	wantOutcome(t, "two, if a were evicted", n.View().Ask(Question{Candidate: cand(ask("two", 2)), Trial: &Trial{Without: []string{"a"}}}), Admitted)
	n.Accept(report(2, true, *a.Held()))
	wantOutcome(t, "the other is sick", n.View().Ask(Question{Candidate: cand(ask("one", 1))}), Refused)
	n.Accept(report(3, false, *a.Held()))
	if got := n.Reserve(cand(ask("b", 1)), &b); !got.OK() || b.Containers[0].Devices[0].IDs[0] == a.Containers[0].Devices[0].IDs[0] {
		t.Fatalf("%+v %+v beside %+v", got, b, a)
	}
	check(t, n)

	again := new(Ledger).Open(nil) // b was bound meanwhile, and no report has it
	again.Accept(report(3, false, *a.Held()))
	again.See(Sighting{UID: "b", Request: ask("b", 1), Turn: 1, Inherited: true, Promise: &Promise{Decision: b.Clone(), Exact: true}})
	wantOutcome(t, "after failover", again.View().Ask(Question{Candidate: cand(ask("one", 1))}), Refused)
	forged := b.Clone()
	forged.UID = "forged"
	again.See(Sighting{UID: "forged", Request: ask("forged", 1), Turn: 2, Inherited: true, Promise: &Promise{Decision: forged, Exact: true}})
	snap, _ := again.View().Snapshot()
	for _, p := range snap.Pods {
		if p.UID == "forged" && len(p.Containers[0].Devices) > 0 {
			t.Errorf("%+v has what b was given", p)
		}
	}
	again.Gone("b", time.Unix(1, 0))
	again.Accept(report(4, false, *a.Held()))
	again.ForgetGone(time.Unix(1000, 0), time.Minute)
	again.Gone("forged", time.Unix(1, 0))
	again.Accept(report(5, false, *a.Held()))
	again.ForgetGone(time.Unix(2000, 0), time.Minute)
	wantOutcome(t, "b has left", again.View().Ask(Question{Candidate: cand(ask("one", 1))}), Admitted)
	check(t, again)
}
