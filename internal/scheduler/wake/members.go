package wake

import (
	"cmp"
	"time"

	"github.com/berth-dev/berth/internal/ledger"
)

// Node has the questions of this package to a node; *ledger.Node implements it. Nodes are compared
// by identity.
type Node interface {
	// Shift returns the answer for the pod, and the answer before the last change.
	Shift(c *ledger.Candidate) (before, now ledger.Answer)
	// View answers for the pod, and counts how many such pods the node would take.
	View() ledger.View
}

// Pod identifies a pod that needs a node.
type Pod struct {
	UID, Namespace, Name string
	// Priority determines the order of waking if not all pods are woken.
	Priority int32
}

// class has the common properties of pods that get the same answers. Pods of two namespaces are
// never in one class, so that each namespace has its turn.
type class struct {
	namespace string
	shape     ledger.Shape
	created   int64
}

// members are the pods of one class.
type members struct {
	class class
	place place // in the ring
	// candidate belongs to the pod that was tried last, if it still waits. A node that has this pod
	// in flight would take the candidate for the pod itself.
	candidate *ledger.Candidate
	pods      map[string]*waiter // by UID
}

// waiter is a pod that wants a node.
type waiter struct {
	pod       Pod
	candidate *ledger.Candidate
	since     time.Time
	// blamed are the nodes that did not admit the pod. The value is true for nodes that only waited
	// for a report. nil means any node.
	blamed map[Node]bool
	// waitsFrom is the time from which every attempt has found some node that waits; zero: the last
	// attempt found none.
	waitsFrom time.Time
	// temptedFrom is the time when the pod first skipped a node for a better one that waits, or
	// zero.
	temptedFrom time.Time
	// trying: no end of its attempt is known.
	trying bool
	// woken: it was activated and has not been tried since.
	woken bool
}

// blames reports whether the node can be the reason why the pod waits; nil stands for any node.
func (w *waiter) blames(n Node) bool {
	if n == nil || w.blamed == nil {
		return true
	}
	_, ok := w.blamed[n]
	return ok
}

// reach is which pods of a class a change of a node wakes.
type reach uint8

const (
	wakeNobody reach = iota
	// wakePerhaps: as wakeRoom, as the budget allows: the node may have taken them before.
	wakePerhaps
	// wakeRoom: as many as the node has room for, and the others while these leave some.
	wakeRoom
	// wakeWaited: members that wait for a report of the node.
	wakeWaited
	// wakeLater wakes pods on trial, which may not know the node. It wakes the others when the node
	// has an answer.
	wakeLater
	// wakeAll: all.
	wakeAll
)

// wakeBlaming wakes the members that blame the node, or with wakeWaited only those that wait for
// its report.
func (m *members) wakeBlaming(n Node, r reach, pods batch) {
	for _, p := range m.pods {
		if p.blames(n) && (r == wakeAll || p.blamed[n]) {
			pods.add(p)
		}
	}
}

// waitFor makes the members wait for the node too. It wakes pods on trial.
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

// blame makes the members blame the node too, because they could not ask it. Pods that are not
// woken now are woken when the node changes.
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

// batch holds pods that are woken together, by UID.
type batch map[string]Pod

func (b batch) add(w *waiter) {
	w.woken = true
	b[w.pod.UID] = w.pod
}

// place is the position of a class in a ring. The class keeps it while it is in the ring.
type place struct {
	// lane counts from 0. A namespace has at most one class in each lane.
	lane      int
	namespace string
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.lane, q.lane), cmp.Compare(p.namespace, q.namespace))
}

// start is before every place in a ring.
var start = place{lane: -1}
