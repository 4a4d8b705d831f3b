package wake

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
)

// settle is the time after a pod's deletion from which a report that does not list it counts.
const settle = 5 * time.Second

// playedEdge is an Edge with a clock that the test sets. It makes calls in the test's goroutine, in
// order.
type playedEdge struct {
	now   time.Time
	timed []timedCall
	woken []Pod
}

type timedCall struct {
	at time.Time
	do func()
}

func (e *playedEdge) Now() time.Time { return e.now }

func (e *playedEdge) After(d time.Duration, do func()) {
	e.timed = append(e.timed, timedCall{e.now.Add(d), do})
}

func (e *playedEdge) Activate(pods []Pod) { e.woken = append(e.woken, pods...) }

// step advances the clock, and makes all calls that are due.
func (e *playedEdge) step(d time.Duration) {
	e.now = e.now.Add(d)
	due := func(c timedCall) bool { return !c.at.After(e.now) }
	for {
		i := slices.IndexFunc(e.timed, due)
		if i < 0 {
			return
		}
		next := e.timed[i]
		e.timed = slices.Delete(e.timed, i, i+1)
		next.do()
	}
}

// take returns the names of the pods that were woken since the last call.
func (e *playedEdge) take() (names []string) {
	for _, p := range e.woken {
		names = append(names, p.Name)
	}
	e.woken = nil
	return names
}

// cluster has nodes with their kubelets, and pods that wait for them.
type cluster struct {
	testing.TB
	edge    *playedEdge
	waiters *Waiters
	ledger  ledger.Ledger
	kubelet map[*ledger.Node]*kubelet
	nodes   map[string]*ledger.Node
	pods    map[string]*pod
}

// kubelet has the real state of a node, not what the scheduler knows.
type kubelet struct {
	model *placement.Model
	state *placement.State
	seq   int64
}

// pod waits for a node, has one, or had one.
type pod struct {
	Pod
	ledger.Candidate
}

func newCluster(t testing.TB) *cluster {
	c := &cluster{TB: t, edge: &playedEdge{now: time.Unix(1000, 0)}, kubelet: map[*ledger.Node]*kubelet{},
		nodes: map[string]*ledger.Node{}, pods: map[string]*pod{}}
	c.waiters = New(c.edge)
	return c
}

// twoSockets has two NUMA nodes of 8 CPUs. The first CPU is reserved.
const twoSockets = "package:2 numa:1 core:4 pu:2 mem:16Gi dist:10,21"

// addNode makes a node whose kubelet keeps each pod on one NUMA node.
func (c *cluster) addNode(name, machine string) *ledger.Node {
	c.Helper()
	model := made.Model(c, machine, placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "single-numa-node"})
	n := c.ledger.Open(new(ledger.ChangeCounter))
	c.nodes[name], c.kubelet[n] = n, &kubelet{model: model, state: model.NewState()}
	return n
}

// addPod makes a pod that requests this number of CPUs and was created at this second.
func (c *cluster) addPod(name string, cpus, created int64) *pod {
	r := &placement.Request{UID: name, Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: 1000 * cpus}}}
	p := &pod{Pod: Pod{UID: name, Namespace: "default", Name: name}, Candidate: ledger.Candidate{Request: r, Shape: c.ledger.Shape(r), Created: created}}
	c.pods[name] = p
	return p
}

// start makes the node's kubelet admit the pod, and the API show it there.
func (c *cluster) start(n *ledger.Node, p *pod) {
	c.Helper()
	k := c.kubelet[n]
	var d placement.Decision
	if v := placement.Decide(k.state, p.Request, &d); !v.OK() {
		c.Fatalf("%s: %+v", p.Name, v)
	}
	k.state.Commit(p.Request, &d)
	c.bind(n, p)
}

// bind makes the API show the pod on the node. Its kubelet has not seen the pod.
func (c *cluster) bind(n *ledger.Node, p *pod) {
	c.waiters.Done(p.UID)
	n.See(ledger.Sighting{UID: p.UID, Request: p.Request, Created: p.Created})
}

// end ends the pod on the node, and deletes it.
func (c *cluster) end(n *ledger.Node, p *pod) {
	n.Gone(p.UID, c.edge.now)
	c.kubelet[n].state.Release(p.UID)
	c.waiters.NodeChanged(n)
}

// accept makes the ledger read the node's report.
func (c *cluster) accept(n *ledger.Node) {
	c.Helper()
	k := c.kubelet[n]
	k.seq++
	snapshot := k.state.Snapshot()
	r, err := ledger.NewReport(k.seq, k.model, &snapshot, nil)
	if err != nil {
		c.Fatal(err)
	}
	n.Accept(r)
	n.ForgetGone(c.edge.now, settle)
}

// report makes a reliable node report.
func (c *cluster) report(n *ledger.Node) {
	c.Helper()
	c.accept(n)
	c.waiters.NodeChanged(n)
}

// fill fills the node with two pods.
func (c *cluster) fill(n *ledger.Node) (one, two *pod) {
	c.Helper()
	one, two = c.addPod("one", 7, 500), c.addPod("two", 8, 500)
	c.start(n, one)
	c.start(n, two)
	c.accept(n)
	return one, two
}

// fail plays an attempt to place the pod that fails because the node refuses it.
func (c *cluster) fail(n *ledger.Node, p *pod) {
	c.waiters.Add(p.Pod, &p.Candidate)
	c.waiters.Blame(p.UID, nil, []Node{n})
}
