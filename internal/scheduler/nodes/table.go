package nodes

import (
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Table lists every known node. It is safe for concurrent use.
type Table struct {
	clock clock.WithDelayedExecution
	// staleAfter is the time without a heartbeat after which a node is not reliable.
	staleAfter time.Duration

	ledger ledger.Ledger
	kinds  nodestate.Kinds
	// Demand computes the demand for nodes from the pods with devices.
	Demand nodestate.Demand

	// byObject lets Filter and Score, which look up thousands of nodes per pod, avoid the lock and
	// the hashing of names.
	byObject byObject
	// obeying is the number of nodes on which Berth decides.
	obeying atomic.Int64
	// numbers counts the node numbers that were ever assigned (hotFields.number).
	numbers atomic.Int32

	mu     sync.RWMutex
	byName map[string]*Node
	vacant []place // places of nodes that are gone
	// unproven counts the nodes that only a pod's spec.nodeName has mentioned.
	unproven int
}

// maxUnproven is the maximum number of nodes that only a pod's spec.nodeName has mentioned, because
// a tenant may write any name into this field. It is higher than the number of nodes in a cluster,
// because the watch may at first show pods before reports.
const maxUnproven = 1 << 14

// place is a free node number, with the last change count of the node that had the number. Answer
// tables may still have answers of that node, so the next node with the number starts with a higher
// count.
type place struct {
	number int
	count  uint32
}

// NewTable returns a table without nodes. A node is unusable if its agent has been silent for
// longer than staleAfter. The parameter providers has the placement providers of every node.
func NewTable(c clock.WithDelayedExecution, staleAfter time.Duration, providers ...placement.Provider) *Table {
	t := &Table{clock: c, staleAfter: staleAfter, byName: map[string]*Node{}}
	t.kinds.Providers = providers
	t.byObject.init()
	return t
}

// Named returns the named node, and creates it if necessary.
func (t *Table) Named(name string) *Node {
	t.mu.RLock()
	found := t.byName[name]
	t.mu.RUnlock()
	if found != nil {
		return found
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if found = t.byName[name]; found == nil {
		found = t.open(name)
		t.byName[name] = found
	}
	return found
}

// Known returns the named node, or nil.
func (t *Table) Known(name string) *Node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byName[name]
}

// ofPod returns the node that a pod names, and creates it if necessary. It returns nil if there are
// already maxUnproven nodes that only pods have mentioned. The ledger then learns of the pod when a
// report lists it.
func (t *Table) ofPod(name string) *Node {
	if found := t.Known(name); found != nil {
		return found
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := t.byName[name]; found != nil || t.unproven >= maxUnproven {
		return found
	}
	made := t.open(name)
	made.unproven = true
	t.unproven++
	t.byName[name] = made
	return made
}

// prove records that something other than a pod's spec.nodeName has mentioned the node.
func (t *Table) prove(n *Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.unproven {
		n.unproven = false
		t.unproven--
	}
}

// Of returns the node of an object in the scheduler's snapshot. It is faster than Named.
func (t *Table) Of(object *corev1.Node) *Node {
	if found := t.byObject.find(object); found != nil {
		return found
	}
	found := t.Named(object.Name)
	t.prove(found)
	t.byObject.add(object, found)
	return found
}

// OfEach stores the result of Of for each object in found, which must be as long as objects. It is
// faster than single calls of Of, because its memory accesses overlap.
func (t *Table) OfEach(objects []*corev1.Node, found []*Node) {
	all := *t.byObject.slots.Load()
	for i, object := range objects {
		found[i] = all.at(all.place(object)).Load()
	}
	for i, object := range objects {
		if n := found[i]; n == nil || n.hot.object.Load() != object {
			found[i] = t.Of(object)
		}
	}
}

// open makes a node. The caller holds the lock.
func (t *Table) open(name string) *Node {
	made := &Node{name: name, trouble: unreported}
	if last := len(t.vacant) - 1; last >= 0 {
		made.hot.number = int32(t.vacant[last].number)
		made.hot.changes.StartAt(t.vacant[last].count + 1)
		t.vacant = t.vacant[:last]
	} else {
		made.hot.number = t.numbers.Add(1) - 1
	}
	made.hot.troubled.Store(true)
	made.account = t.ledger.Open(&made.hot.changes)
	return made
}

// All yields every node that exists when All is called.
func (t *Table) All(yield func(*Node) bool) {
	t.mu.RLock()
	all := make([]*Node, 0, len(t.byName))
	for _, n := range t.byName {
		all = append(all, n)
	}
	t.mu.RUnlock()
	for _, n := range all {
		if !yield(n) {
			return
		}
	}
}

// Obeying reports whether Berth decides on any node. If Berth decides on no node, it ignores pods
// for which no kubelet pins anything, unless they request a specific number of NUMA nodes or
// exclusive NUMA nodes.
func (t *Table) Obeying() bool { return t.obeying.Load() > 0 }

// countObeying adds the node to the count if Berth decides there, and removes it otherwise. The
// caller holds Feed.reports.
func (t *Table) countObeying(n *Node) {
	obeys := n.Obeys()
	switch {
	case obeys == n.obeying:
		return
	case obeys:
		t.obeying.Add(1)
	default:
		t.obeying.Add(-1)
	}
	n.obeying = obeys
}

// largeTable is the minimum number of nodes of a large cluster.
const largeTable = 256

// Large reports whether the cluster is so large that every Query may use estimates.
func (t *Table) Large() bool { return t.Size() >= largeTable }

// Size returns the largest number of nodes that the table has ever had at one time.
func (t *Table) Size() int { return int(t.numbers.Load()) }

// Candidate returns the pod in the form in which the ledger is asked about it.
func (t *Table) Candidate(pod *corev1.Pod, r *placement.Request) ledger.Candidate {
	return ledger.Candidate{Request: r, Shape: t.ledger.Shape(r), Created: pod.CreationTimestamp.Unix(), Mortal: wire.Mortal(pod)}
}

// Unusable returns the reason why the node's report is not reliable now, or nil.
func (t *Table) Unusable(n *Node) *nodestate.Unusable {
	if n.hot.trusted(since(t.clock.Now()), t.staleAfter) {
		return nil
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.trouble != nil {
		return n.trouble
	}
	return silent
}

// Silence returns how long the node's agent has been silent. It is 0 if the node needs no
// heartbeats, and the age of this process if the node has never reported.
func (t *Table) Silence(n *Node) time.Duration {
	return max(0, since(t.clock.Now())-time.Duration(n.hot.heard.Load()))
}

// DoubtSilent corrects the times of heartbeats after a start. Without it, all heartbeats that
// existed at the start would count as just sent. If the time in a node's newest heartbeat, by the
// agent's clock, is more than staleAfter ago, the agent counts as silent since that time. If the
// agent is alive and only its clock is slow, its next heartbeat soon ends this.
func (t *Table) DoubtSilent() {
	now := t.clock.Now()
	for n := range t.All {
		n.mu.RLock()
		renewed := n.renewed
		n.mu.RUnlock()
		if !renewed.IsZero() && !n.amounts.inUse.Load() && now.Sub(renewed) > t.staleAfter {
			n.noteHeartbeat(renewed)
		}
	}
}
