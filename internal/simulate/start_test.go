package simulate

import (
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// startOf returns a start with the current cluster and its pods.
func startOf(t *testing.T, c *numa, nodes []trace.Node, on map[int32]auditedPod) *Start {
	t.Helper()
	var out []StartNode
	for i := range nodes {
		k := c.kinds[i]
		n := StartNode{Node: nodes[i], Machine: k.machine, Model: k.model, State: c.states[i].Clone(), KeptCPU: threads * trace.Thousandths, KeptMiB: reservedMiB}
		for pod := range int32(1000) {
			p, ok := on[pod]
			if !ok || p.node != i {
				continue
			}
			n.Pods = append(n.Pods, StartPod{UID: c.uid(pod), Request: *p.shape.ask, MilliCPU: p.shape.MilliCPU, MiB: p.shape.MiB, GPUs: p.shape.GPUs, Left: int64(pod % 3 * 700)})
		}
		out = append(out, n)
	}
	s, err := NewStart(out)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// someStart returns nodes with pods, and the cluster from which they come.
func someStart(t *testing.T, rng *rand.Rand, overlay string) (*Start, *numa, []trace.Pod) {
	t.Helper()
	nodes, pods, ground := someNUMA(t, rng, overlay)
	all, of := shapes(pods)
	c, on := ground(nodes, false).(*numa), map[int32]auditedPod{}
	for i := range pods {
		var l Look
		node, s := rng.Intn(len(nodes)), &all[of[i]]
		if c.Look(node, s, &l) && !c.Put(node, int32(i), s, -1).Refused {
			on[int32(i)] = auditedPod{node, s}
		}
	}
	return startOf(t, c, nodes, on), c, pods
}

// TestStart: a start gives the same answers as the cluster from which it was made. When its pods
// are gone, it equals an empty one.
func TestStart(t *testing.T) {
	rng, stood := rand.New(rand.NewSource(9)), 0
	for _, overlay := range append(overlayNames(), overlayNames()...) {
		s, before, pods := someStart(t, rng, overlay)
		all, _ := shapes(pods)
		c := s.Ground(s.Nodes(), false).(*numa)
		empty := s.Ground(s.Nodes(), false).(*numa)
		for i := range s.pods {
			empty.Take(int(s.pods[i].node), int32(i), s.pods[i].shape())
		}
		stood += len(s.pods)
		for node := range s.nodes {
			for i := range all {
				if got, want := c.Lacks(node, &all[i]), before.Lacks(node, &all[i]); got != want {
					t.Fatalf("%s: node %d lacks %d for %+v, before %d", overlay, node, got, all[i], want)
				}
				if got, want := c.Free(node, true), before.Free(node, true); got != want {
					t.Fatalf("%s: node %d has %d of GPUs, before %d", overlay, node, got, want)
				}
			}
			if got, want := string(empty.states[node].AppendStateKey(nil)), string(before.kinds[node].empty.AppendStateKey(nil)); got != want {
				t.Fatalf("%s: node %d is not empty when all have gone", overlay, node)
			}
			if n := &s.nodes[node]; empty.nodes[node].cpu != n.MilliCPU-n.KeptCPU || empty.Free(node, true) != int64(1000*n.GPUs) {
				t.Fatalf("%s: node %d has %+v when all have gone", overlay, node, empty.nodes[node])
			}
		}
	}
	if stood < 100 {
		t.Errorf("only %d pods in the starts: the test has seen little", stood)
	}
}

// TestFromStart: running pods continue, and end at their time. The same seed gives the same result.
func TestFromStart(t *testing.T) {
	s, _, pods := someStart(t, rand.New(rand.NewSource(10)), "sockets/restricted")
	strategies, err := StrategiesOf(strategies(), "StockMost", "Berth")
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		pods[i].Timed, pods[i].Deleted = true, 300
	}
	for _, times := range []*trace.Times{nil, {}, comeAndGo(s.Nodes(), pods, 0.5, 2*time.Hour)} {
		e := Experiment{Nodes: s.Nodes(), Pods: pods, Strategies: strategies, Seeds: []int64{1, 2}, Ground: s.Ground, Start: s, Times: times}
		first, err := e.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if again, err := e.Run(t.Context()); err != nil || !reflect.DeepEqual(first, again) {
			t.Errorf("%+v: %v: a second run has another result", times, err)
		}
		stood := s.served()
		for i := range first {
			r := &first[i]
			if times == nil && r.Aligned < percent(stood.GPUs.Aligned, trace.CapacityOf(e.Nodes, true)) {
				t.Errorf("%s: %v percent aligned, and %d were at the start", r.Strategy, r.Aligned, stood.GPUs.Aligned)
			}
			if times == nil {
				continue
			}
			if r.Timed.Course[0].InUse != round(percent(stood.GPUs.Served, trace.CapacityOf(e.Nodes, true))) || r.Timed.GPUs.Served > r.Timed.GPUs.Asked {
				t.Errorf("%s: %+v, %+v at the start", r.Strategy, r.Timed, stood)
			}
		}
	}
}

// TestBadStart: the error names the node.
func TestBadStart(t *testing.T) {
	k := laidNode(t, &trace.Node{Name: "n", MilliCPU: 64000, MiB: 65536}, "sockets/restricted")
	state := k.Model.NewState()
	pool := placement.DevicePool{Resource: gpuResource}
	for i := range trace.MaxGPUs + 1 {
		pool.Devices = append(pool.Devices, placement.Device{ID: fmt.Sprintf("%03d", i)})
	}
	state.SetPool(pool)
	if _, err := NewStart([]StartNode{{Node: trace.Node{Name: "big"}, Machine: k.Machine, Model: k.Model, State: state}}); err == nil || !strings.Contains(err.Error(), "node big: 65 healthy devices of") {
		t.Error(err)
	}
}

// TestStartKinds: nodes are of the same kind if only the ids of their devices differ. They are not
// if devices of a pool are on other NUMA nodes.
func TestStartKinds(t *testing.T) {
	k := laidNode(t, &trace.Node{Name: "n", MilliCPU: 64000, MiB: 65536}, "sockets/restricted")
	var nodes []StartNode
	for i, numa := range []topology.NUMASet{topology.NewNUMASet(0), topology.NewNUMASet(0), topology.NewNUMASet(1)} {
		state := k.Model.NewState()
		state.SetPool(placement.DevicePool{Resource: "example.com/nic", Devices: []placement.Device{{ID: fmt.Sprint("nic-", i), NUMA: numa, HasTopology: true}}})
		nodes = append(nodes, StartNode{Node: trace.Node{Name: fmt.Sprint("n", i)}, Machine: k.Machine, Model: k.Model, State: state})
	}
	s, err := NewStart(nodes)
	if err != nil {
		t.Fatal(err)
	}
	if s.kinds[0] != s.kinds[1] || s.kinds[0] == s.kinds[2] {
		t.Errorf("kinds %d, %d and %d: want two equal kinds and a different one", s.kinds[0].id, s.kinds[1].id, s.kinds[2].id)
	}
}

// TestOtherResources: huge pages and devices other than GPUs are used and released, in the state of
// the node's kubelet too.
func TestOtherResources(t *testing.T) {
	const nic, huge = "rdma/hca", "hugepages-1Gi"
	list := trace.Node{Name: "n", MilliCPU: 64000, MiB: 64 << 10}
	k := laidNode(t, &list, "sockets/single-numa-node")
	state := k.Model.NewState()
	state.SetPool(placement.DevicePool{Resource: nic, Preference: placement.SortedPreference, Devices: []placement.Device{
		{ID: "a", HasTopology: true, NUMA: topology.NewNUMASet(0)}, {ID: "b", HasTopology: true, NUMA: topology.NewNUMASet(1)}}})
	s, err := NewStart([]StartNode{{Node: list, Machine: k.Machine, Model: k.Model, State: state, Others: map[string]int64{nic: 3}, KeptOthers: map[string]int64{nic: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	all, _ := shapes([]trace.Pod{
		{MilliCPU: 1000, MiB: 1, Others: map[string]int64{nic: 1}}, {MilliCPU: 1000, MiB: 1, Others: map[string]int64{nic: 2}},
		{MilliCPU: 1000, MiB: 1, Others: map[string]int64{huge: 1 << 30}}, {MilliCPU: 1000, MiB: 1},
	})
	if len(all) != 4 {
		t.Fatalf("%d shapes, want 4: requests for other resources are part of the shape", len(all))
	}
	one, both, pages := &all[0], &all[1], &all[2]
	for range 2 { // each cluster of the start begins with the same state
		c := s.Ground(s.Nodes(), false).(*numa)
		lacks := func(when string, s *Shape, want Lack) {
			if got := c.Lacks(0, s); got != want {
				t.Errorf("%s: lacks %d, want %d", when, got, want)
			}
		}
		lacks("empty, one NIC", one, LacksNothing)
		lacks("empty, a NIC of each NUMA node", both, LacksNUMANodes)
		lacks("empty, huge pages", pages, LacksMemory)
		before := string(c.AppendKey(nil, 0))
		for pod := range int32(2) {
			if c.Put(0, pod, one, -1).Refused {
				t.Fatal("the kubelet refuses it")
			}
		}
		lacks("full", one, LacksGPUs)
		if string(c.AppendKey(nil, 0)) == before {
			t.Error("a node without NICs is like one with NICs")
		}
		c.Take(0, 0, one)
		lacks("one has gone", one, LacksNothing)
		c.Take(0, 1, one)
		if string(c.AppendKey(nil, 0)) != before {
			t.Error("the node is not as before when the pod is on it again")
		}
	}
}
