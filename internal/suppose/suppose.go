// Package suppose answers "what if" questions about nodes: would a node admit one more pod if some
// pods were added to the node, and others removed? The changes are only supposed. The real node
// does not change.
package suppose

import (
	"slices"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
)

// Pod is a pod that is added to a node or removed from it.
type Pod struct {
	// UID is the UID of an existing pod; "" for a pod that does not exist yet.
	UID string
	// Candidate describes the pod to the node's ledger when the pod is added. It is nil if no
	// kubelet pins anything for the pod. For a pod that is removed, it only matters whether
	// Candidate is nil.
	Candidate *ledger.Candidate
	// Asks is the pod's total request. Ports are the host ports that it uses.
	Asks  amounts.List
	Ports []amounts.Port
}

// Node is a node with supposed changes. There are two ways to add a pod. Put does not ask the
// ledger: later answers assume that the node has admitted the pod. Promise reserves a place for the
// pod in a copy of the ledger at once, as the scheduler does in the ledger. Take removes a pod, or
// reverts Put. Withdraw reverts Promise. A Node without changes may be copied; otherwise use Clone.
type Node struct {
	// account is the node's ledger. It is nil if the scheduler can promise nothing on the node. Ask
	// then admits no pod.
	account *ledger.Node
	// room counts the node's amounts, which the ledger does not check. It is nil if the caller
	// checks amounts. From the first change on, the Node has its own copy of room.
	room *amounts.Node
	own  bool

	come, away []*Pod // the pods that Put added and that Take removed, in the order of the calls
	// cleared caches the ledger of Cleared. It is nil if Cleared must compute it.
	cleared *ledger.Node

	// fork is a copy of the account with the promised pods.
	fork     *ledger.Node
	promised []*Pod
	loose    bool
	// Wave is the ledger.Candidate.Wave of the pods in later calls of Promise.
	Wave int
}

// On returns a Node without changes. `account` is nil if the scheduler can promise nothing on the
// node. `room` is nil if the caller checks amounts and ports itself. The Node changes neither
// account nor room.
func On(account *ledger.Node, room *amounts.Node) Node { return Node{account: account, room: room} }

// Clone returns an independent copy with the same changes.
func (n *Node) Clone() Node {
	out := *n
	out.own = false
	out.come, out.away, out.promised = slices.Clone(n.come), slices.Clone(n.away), slices.Clone(n.promised)
	if n.own {
		out.change()
	}
	if n.fork != nil {
		out.fork = n.fork.Fork()
	}
	return out
}

// Put supposes that the node admits one more pod, after all pods that Put added earlier. If Take
// has removed the pod, Put only reverts Take.
func (n *Node) Put(p *Pod) {
	if !drop(&n.away, p) {
		n.come = append(n.come, p)
	}
	n.cleared = nil
	n.count(p)
}

// Take supposes that a pod leaves the node. If Put has added the pod, Take only reverts Put.
func (n *Node) Take(p *Pod) {
	if !drop(&n.come, p) {
		n.away = append(n.away, p)
	}
	n.cleared = nil
	n.discount(p)
}

// drop removes a pod from a list, and reports whether the list had it.
func drop(list *[]*Pod, p *Pod) bool {
	i := slices.IndexFunc(*list, func(q *Pod) bool { return q == p || q.UID != "" && q.UID == p.UID })
	if i >= 0 {
		*list = slices.Delete(*list, i, i+1)
	}
	return i >= 0
}

func (n *Node) count(p *Pod) {
	if n.change() {
		n.room.Add(p.Asks, p.Ports...)
	}
}

func (n *Node) discount(p *Pod) {
	if n.change() {
		n.room.Remove(p.Asks, p.Ports...)
	}
}

// change gives the Node its own copy of room. It returns false if the Node has no room.
func (n *Node) change() bool {
	if !n.own && n.room != nil {
		n.room, n.own = n.room.Clone(), true
	}
	return n.room != nil
}

// Promise adds a pod, and reserves a place for it in a copy of the ledger, after all pods in
// flight. d receives the decision. If the answer is not OK, nothing changes. If nothing is pinned
// for the pod, or the node has no ledger, Promise admits the pod without a decision. Changes by Put
// and Take do not affect the decision.
func (n *Node) Promise(p *Pod, d *placement.Decision) ledger.Answer {
	a := ledger.Answer{Outcome: ledger.Admitted}
	if n.Pins(p) {
		if n.fork == nil {
			n.fork = n.account.Fork()
		}
		c := *p.Candidate
		c.Loose, c.Wave = n.loose, n.Wave
		if a = n.fork.Reserve(&c, d); !a.OK() {
			return a
		}
		n.promised, n.cleared = append(n.promised, p), nil
	}
	n.count(p)
	return a
}

// Withdraw reverts Promise.
func (n *Node) Withdraw(p *Pod) {
	if n.Pins(p) {
		if !drop(&n.promised, p) {
			return // Promise was refused
		}
		n.fork.Forget(p.Candidate.Request.UID)
		n.cleared = nil
	}
	n.discount(p)
}

// Pins reports whether the node's ledger decides about the pod.
func (n *Node) Pins(p *Pod) bool { return n.account != nil && p.Candidate != nil }

// Promised returns the number of pods for which the ledger holds a place from Promise. Pods that
// Promise admitted without a decision do not count.
func (n *Node) Promised() int { return len(n.promised) }

// Loosen makes all promises, including later ones, cover only the admission and no particular CPUs
// (ledger.Candidate.Loose).
func (n *Node) Loosen() {
	n.loose, n.cleared = true, nil
	for _, p := range n.promised {
		n.fork.Loosen(p.Candidate.Request.UID)
	}
}

// Loose reports whether promises cover only the admission and no particular CPUs.
func (n *Node) Loose() bool { return n.loose }

// Cleared returns a new Node. Its ledger is a copy of this node's ledger, as it will be after all
// pods in flight were admitted and the pods that Take removed have left (ledger.Node.ForkWithout).
// Its amounts include all supposed changes. Cleared returns false if too much about the node is
// uncertain.
func (n *Node) Cleared() (Node, bool) {
	if n.account == nil {
		return On(nil, n.lend()), true
	}
	if n.cleared == nil {
		uids := make([]string, len(n.away))
		for i, p := range n.away {
			uids[i] = p.UID
		}
		account, ok := n.Account().ForkWithout(uids...)
		if !ok {
			return Node{}, false
		}
		n.cleared = account
	}
	return On(n.cleared, n.lend()), true
}

// lend returns room for use by another Node. From then on n does not change this room: it copies
// room before its next change.
func (n *Node) lend() *amounts.Node {
	n.own = false
	return n.room
}

// Without reports whether Take has removed the pod with this UID.
func (n *Node) Without(uid string) bool {
	return slices.ContainsFunc(n.away, func(p *Pod) bool { return p.UID == uid })
}

// Changed reports whether Put has added or Take has removed any pod.
func (n *Node) Changed() bool { return len(n.come)+len(n.away) > 0 }

// Came reports whether Put has added any pod.
func (n *Node) Came() bool { return len(n.come) > 0 }

// Room returns the amounts of the node with all supposed changes, or nil if the caller checks
// amounts. Callers must not change the result.
func (n *Node) Room() *amounts.Node { return n.room }

// Account returns the node's ledger with the promised pods, or nil. Callers must not change the
// result.
func (n *Node) Account() *ledger.Node {
	if len(n.promised) > 0 {
		return n.fork
	}
	return n.account
}

// Enough reports whether the node has enough amounts and free ports for one more pod.
func (n *Node) Enough(p *Pod) bool {
	return n.room == nil || n.room.Short(p.Asks) == nil && n.room.Taken(p.Ports) == ""
}

// Ask asks the node's ledger whether it would admit one more pod. The ledger assumes that first the
// pods leave that Take removed, then the node admits the pods that Put added, in the order of the
// calls, and then this pod arrives.
func (n *Node) Ask(p *Pod) ledger.Answer { return n.AskUnder(p.Candidate, &ledger.Trial{}) }

// AskUnder is Ask with the further changes in the argument `more`: the pods in more.Without also
// leave first, and the pods in more.With arrive after the pods that Put added.
func (n *Node) AskUnder(c *ledger.Candidate, more *ledger.Trial) ledger.Answer {
	if n.account == nil {
		return ledger.Answer{}
	}
	t := n.Trial()
	t.Without, t.With = append(t.Without, more.Without...), append(t.With, more.With...)
	return n.Account().View().Ask(ledger.Question{Candidate: c, Trial: &t})
}

// Trial returns the pods that Take removed and that Put added, if a ledger decides about them.
func (n *Node) Trial() (t ledger.Trial) {
	for _, p := range n.away {
		if p.Candidate != nil {
			t.Without = append(t.Without, p.UID)
		}
	}
	for _, p := range n.come {
		if p.Candidate != nil {
			t.With = append(t.With, p.Candidate.Request)
		}
	}
	return t
}
