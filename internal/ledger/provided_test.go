package ledger

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/hint"
)

// seats provides four units of a resource at one place.
type seats struct{}

func (seats) Resource() string { return "x/seat" }

func (seats) Supply(*placement.KubeletView, *hint.Space) (placement.Supply, error) {
	return seats{}, nil
}

func (seats) Places() []placement.Place { return []placement.Place{{Name: "all", Capacity: 4}} }

func (seats) Hints(out hint.Set, free []uint64, n uint64) {
	if free[0] >= n {
		out.Add(1)
		out.Add(2)
		out.Add(3)
	}
}

func (seats) Allocate(take, _ []uint64, n uint64, _ hint.Mask) bool {
	take[0] = n
	return true
}

// TestProvidedIsHeldAndReleased: a provider's resources count from Reserve on, also for a scheduler
// that knows them only from Bindings, until the pod is gone and a report shows this.
func TestProvidedIsHeldAndReleased(t *testing.T) {
	cfg := obeying
	cfg.Providers = []placement.Provider{seats{}}
	m := model(t, twoSockets, cfg)
	seq := int64(0)
	report := func(pods ...placement.PodAllocation) *Report {
		seq++
		r, err := NewReport(seq, m, &placement.Snapshot{Pods: pods}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	asks := func(uid string, n int64) *placement.Request {
		return &placement.Request{UID: uid, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: 100,
			Devices: []placement.DeviceRequest{{Resource: "x/seat", Count: n}}}}}
	}
	n := new(Ledger).Open(nil)
	n.Accept(report())
	sightings := map[string]Sighting{}
	for i, uid := range []string{"a", "b"} {
		var d placement.Decision
		if a := n.Reserve(cand(asks(uid, 2)), &d); !a.OK() || !a.Exact {
			t.Fatalf("%s: %+v", uid, a)
		}
		if _, err := n.Post(uid, &d); err != nil {
			t.Fatal(err)
		}
		sightings[uid] = Sighting{UID: uid, Request: asks(uid, 2), Created: 1, Turn: int64(i + 1), Promise: &Promise{Decision: d.Clone(), Exact: true}}
	}
	ask := func(n *Node, count int64) Answer { return n.View().Ask(Question{Candidate: cand(asks("c", count))}) }
	full := func(n *Node, when string) {
		t.Helper()
		if a := ask(n, 1); a.Verdict.Detail != placement.NotProvided {
			t.Errorf("%s: %+v, want NotProvided", when, a)
		}
	}
	full(n, "reserved")
	after := new(Ledger).Open(nil)
	after.Accept(report())
	for _, s := range sightings {
		s.Inherited = true
		after.See(s)
	}
	full(after, "after a failover")
	shown := placement.PodAllocation{UID: "a", Containers: []placement.ContainerAllocation{{Name: "c"}}}
	after.Accept(report(shown))
	full(after, "with one of them in a report, which says nothing of providers")
	after.Gone("a", time.Unix(1, 0))
	full(after, "gone from the API alone")
	after.Accept(report())
	if a := ask(after, 2); !a.OK() {
		t.Errorf("gone from the report too: %+v", a)
	}
	if a := ask(after, 3); a.OK() {
		t.Error("the other pod's are given away")
	}
}
