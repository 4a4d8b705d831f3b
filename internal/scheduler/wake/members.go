package wake

import (
	"cmp"
	"time"

	"github.com/berth-dev/berth/internal/ledger"
)

// Node is a node that can be asked about pods. *ledger.Node implements it. Nodes are compared by
// identity.
type Node interface {
	// Shift returns the answer for the pod before the node's last change, and the answer now. The
	// outcome of before is Unreported if the earlier answer is not known.
	Shift(c *ledger.Candidate) (before, now ledger.Answer)
	// View returns the node's current state for further questions.
	View() ledger.View
}

// Pod identifies a pod that needs a node.
type Pod struct {
	UID, Namespace, Name string
	// Priority determines which pods are woken first if not all pods are woken.
	Priority int32
}

// class has the common properties of pods about which every node gives the same answer. It includes
// the namespace, so that namespaces can take turns.
type class struct {
	namespace string
	shape     ledger.Shape
	created   int64
}

// members are the pods of one class.
type members struct {
	class class
	place place // the place of the class in the ring
	// candidate is the candidate with which nodes are asked about the class. It is the candidate of
	// the pod that was tried last or, if that pod no longer waits, of any other pod of the class.
	// If a node has this pod in flight already, it answers about this pod, not about another pod of
	// the class.
	candidate *ledger.Candidate
	pods      map[string]*waiter // by UID
	// inLine means that the class is in again.line.
	inLine bool
}

type waiter struct {
	pod       Pod
	candidate *ledger.Candidate
	since     time.Time
	// blamed has the nodes that did not admit the pod. The value is true for nodes that only waited
	// for a report. A nil map stands for all nodes.
	blamed map[Node]bool
	// waitsFrom is the time since which every attempt has found a node that waits for a report. It
	// is zero if the last attempt found no node that waits.
	waitsFrom time.Time
	// temptedFrom is the time when the pod first skipped a node because a better node waits for a
	// report, or zero.
	temptedFrom time.Time
	// trying means that an attempt has begun and has not ended.
	trying bool
	// woken means that the pod was activated and has not been tried since.
	woken bool
}

// blames reports whether the node may be the reason why the pod waits. It returns true if n is nil.
func (w *waiter) blames(n Node) bool {
	if n == nil || w.blamed == nil {
		return true
	}
	_, ok := w.blamed[n]
	return ok
}

// reach is the set of pods in a class that a change of a node wakes.
type reach uint8

const (
	wakeNobody reach = iota
	// wakePerhaps is like wakeRoom, but within the budget maxAgain, because the node may have
	// admitted the pods before.
	wakePerhaps
	// wakeRoom wakes as many pods as the node has room for. It wakes the other pods later if there
	// is still room.
	wakeRoom
	// wakeWaited wakes the members that wait for a report of the node.
	wakeWaited
	// wakeLater wakes pods that are being tried, because their attempts may have missed the change.
	// The node's next report wakes the other pods.
	wakeLater
	// wakeAll wakes all members that blame the node. After NodeReturned, it wakes all members.
	wakeAll
)

// wakeBlaming wakes the members that blame the node. If r is wakeWaited, it wakes only members that
// wait for the node's report.
func (m *members) wakeBlaming(n Node, r reach, pods batch) {
	for _, p := range m.pods {
		if p.blames(n) && (r == wakeAll || p.blamed[n]) {
			pods.add(p)
		}
	}
}

// waitFor makes the node's next report wake the members. Members that are being tried are woken at
// once.
func (m *members) waitFor(n Node, pods batch) {
	for _, p := range m.pods {
		switch {
		case p.trying:
			pods.add(p)
		case p.blamed != nil:
			p.blamed[n] = true
		}
	}
}

// blame makes the members also blame a node that was not usable in their attempts, so that the
// node's next change wakes the members that this change does not wake.
func (m *members) blame(n Node) {
	for _, p := range m.pods {
		if _, known := p.blamed[n]; known || p.blamed == nil {
			continue
		}
		if len(p.blamed) >= maxBlamed {
			p.blamed = nil
			continue
		}
		p.blamed[n] = false
	}
}

// batch is a set of pods that are woken together, by UID.
type batch map[string]Pod

func (b batch) add(w *waiter) {
	w.woken = true
	b[w.pod.UID] = w.pod
}

// place is the position of a class in a ring. It does not change while the class is in the ring.
type place struct {
	// lane counts from 0. A namespace has at most one class in each lane.
	lane      int
	namespace string
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.lane, q.lane), cmp.Compare(p.namespace, q.namespace))
}

// start is a place before all places in a ring.
var start = place{lane: -1}
