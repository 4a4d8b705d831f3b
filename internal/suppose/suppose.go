// Package suppose is a node as it would be: pods are put on it that are not there, others are taken
// away, and what the node says to one more is asked. Nothing of it reaches the node.
package suppose

import (
	"slices"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
)

// Pod is one that is supposed to come to a node, or to leave it.
type Pod struct {
	// UID is that of a pod which is there; "" of one that is not.
	UID string
	// Request is what it asks when it comes, with a UID of its own; nil where no kubelet pins
	// anything for it.
	Request *placement.Request
	// Created is the second in which it counts as created when it comes.
	Created int64
	// Asks is what it asks for in all, Ports are those of the node that it wants.
	Asks  amounts.List
	Ports []amounts.Port
}

// Node is a node with pods that are supposed to have come, and without the ones that are supposed
// to have left. Put and Take undo each other. A Node may be copied while nothing is supposed about
// it yet.
type Node struct {
	// account is the node's ledger; nil where nothing can be promised, so that only pods go there
	// for which nothing is pinned.
	account *ledger.Node
	// room is what the node has beside its pods. It is the Node's own once something is supposed.
	room *amounts.Node
	own  bool

	come, away []*Pod // in order
}

// On returns a node on which nothing is supposed. account is nil where nothing can be promised.
// What is given is not changed.
func On(account *ledger.Node, room *amounts.Node) Node { return Node{account: account, room: room} }

// Put supposes that a pod comes, after the ones that were put before. One that was taken away is
// there after all.
func (n *Node) Put(p *Pod) {
	if !drop(&n.away, p) {
		n.come = append(n.come, p)
	}
	n.change()
	n.room.Add(p.Asks, p.Ports...)
}

// Take supposes that a pod leaves. One that was put there does not come.
func (n *Node) Take(p *Pod) {
	if !drop(&n.come, p) {
		n.away = append(n.away, p)
	}
	n.change()
	n.room.Remove(p.Asks, p.Ports...)
}

func drop(list *[]*Pod, p *Pod) bool {
	before := len(*list)
	*list = slices.DeleteFunc(*list, func(q *Pod) bool { return q == p })
	return len(*list) < before
}

// change makes the room the Node's own.
func (n *Node) change() {
	if !n.own {
		n.room, n.own = n.room.Clone(), true
	}
}

// Changed says whether anything is supposed.
func (n *Node) Changed() bool { return len(n.come)+len(n.away) > 0 }

// Came says whether a pod is supposed to have come.
func (n *Node) Came() bool { return len(n.come) > 0 }

// Room is what the node has beside the pods that are supposed to be there. Callers must not change
// it.
func (n *Node) Room() *amounts.Node { return n.room }

// Enough says whether the node has the amounts and the ports for one more pod.
func (n *Node) Enough(p *Pod) bool { return n.room.Short(p.Asks) == nil && n.room.Taken(p.Ports) == "" }

// Ask asks the node's ledger about one more pod. The ones that left are gone before the ones that
// came are admitted, in their order, and the pod comes last.
func (n *Node) Ask(p *Pod) ledger.Answer {
	if n.account == nil {
		return ledger.Answer{}
	}
	var t ledger.Trial
	for _, q := range n.away {
		if q.Request != nil {
			t.Without = append(t.Without, q.UID)
		}
	}
	for _, q := range n.come {
		if q.Request != nil {
			t.With = append(t.With, q.Request)
		}
	}
	return n.account.View().Ask(ledger.Question{Candidate: &ledger.Candidate{Request: p.Request, Created: p.Created}, Trial: &t})
}
