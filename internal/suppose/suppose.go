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
	// Candidate is what a ledger is asked when it comes; nil where no kubelet pins anything for it.
	// When a pod leaves, only whether it is nil matters.
	Candidate *ledger.Candidate
	// Asks is what it asks for in all, Ports are those of the node that it wants.
	Asks  amounts.List
	Ports []amounts.Port
}

// Node is a node with pods that are supposed to have come, and without the ones that are supposed
// to have left. A pod comes in one of two ways. Put asks nobody: the node answers about one more
// pod as if it had admitted this one. Promise makes the ledger give the pod its place at once, as
// the scheduler does. Put and Take undo each other, and so do Promise and Withdraw. A Node may be
// copied while nothing is supposed about it yet; later, Clone does that.
type Node struct {
	// account is the node's ledger; nil where nothing can be promised, so that only pods go there
	// for which nothing is pinned.
	account *ledger.Node
	// room is what the node has beside its pods; nil where somebody else looks at that. It is the
	// Node's own once something is supposed.
	room *amounts.Node
	own  bool

	come, away []*Pod // in order
	// cleared is the account without the ones that are away, once somebody asked for it.
	cleared *ledger.Node

	// fork is the account with the pods that are promised a place there.
	fork     *ledger.Node
	promised []*Pod
	loose    bool
	// Wave is that of the pods that are promised a place from now on (ledger.Candidate).
	Wave int
}

// On returns a node on which nothing is supposed. account is nil where nothing can be promised, and
// room where somebody else looks at amounts and ports. What is given is not changed.
func On(account *ledger.Node, room *amounts.Node) Node { return Node{account: account, room: room} }

// Clone returns a node on which the same is supposed.
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

// Put supposes that a pod comes, after the ones that were put before. One that was taken away is
// there after all.
func (n *Node) Put(p *Pod) {
	if !drop(&n.away, p) {
		n.come = append(n.come, p)
	}
	n.cleared = nil
	n.count(p)
}

// Take supposes that a pod leaves. One that was put there does not come.
func (n *Node) Take(p *Pod) {
	if !drop(&n.come, p) {
		n.away = append(n.away, p)
	}
	n.cleared = nil
	n.discount(p)
}

// drop takes a pod out of a list, and says whether it was there.
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

// change makes the room the Node's own, and says whether there is one.
func (n *Node) change() bool {
	if !n.own && n.room != nil {
		n.room, n.own = n.room.Clone(), true
	}
	return n.room != nil
}

// Promise supposes that a pod comes, and makes the ledger promise it a place after everything in
// flight: d is what it gets. Where the answer is not OK, nothing is supposed. A pod for which
// nothing is pinned, or on a node where nothing can be, is admitted, and d is left alone. The
// ledger does not count pods that were put, and counts the ones that were taken.
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

// Withdraw supposes that a pod that was promised a place does not come.
func (n *Node) Withdraw(p *Pod) {
	if n.Pins(p) {
		if !drop(&n.promised, p) {
			return // it was refused
		}
		n.fork.Forget(p.Candidate.Request.UID)
		n.cleared = nil
	}
	n.discount(p)
}

// Pins reports whether the node's ledger has a say about the pod.
func (n *Node) Pins(p *Pod) bool { return n.account != nil && p.Candidate != nil }

// Promised is how many pods the ledger has promised a place.
func (n *Node) Promised() int { return len(n.promised) }

// Loosen promises pods that they are admitted, but no CPUs (ledger.Candidate): the ones that have a
// promise, and the ones that get one from now on.
func (n *Node) Loosen() {
	n.loose, n.cleared = true, nil
	for _, p := range n.promised {
		n.fork.Loosen(p.Candidate.Request.UID)
	}
}

// Loose reports whether pods are promised admission, but no CPUs.
func (n *Node) Loose() bool { return n.loose }

// Cleared is the node once everything in flight has been admitted and the ones that were taken have
// left, with nothing supposed beside (ledger.ForkWithout). It returns false where too much is open
// to tell what will be free then.
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

// lend returns the room for somebody else to keep: the Node copies it before its next change.
func (n *Node) lend() *amounts.Node {
	n.own = false
	return n.room
}

// Without reports whether the pod was taken.
func (n *Node) Without(uid string) bool {
	return slices.ContainsFunc(n.away, func(p *Pod) bool { return p.UID == uid })
}

// Changed reports whether any pod was put or taken.
func (n *Node) Changed() bool { return len(n.come)+len(n.away) > 0 }

// Came reports whether any pod was put.
func (n *Node) Came() bool { return len(n.come) > 0 }

// Room is what the node has beside the pods that are supposed to be there. Callers must not change
// it.
func (n *Node) Room() *amounts.Node { return n.room }

// Account is the node's ledger, with the pods that were promised a place; nil where there is none.
// Callers must not change it.
func (n *Node) Account() *ledger.Node {
	if len(n.promised) > 0 {
		return n.fork
	}
	return n.account
}

// Enough reports whether the node has the amounts and the ports for one more pod.
func (n *Node) Enough(p *Pod) bool {
	return n.room == nil || n.room.Short(p.Asks) == nil && n.room.Taken(p.Ports) == ""
}

// Ask asks the node's ledger about one more pod. The ones that were taken are gone before the ones
// that were put are admitted, in their order, and the pod comes last.
func (n *Node) Ask(p *Pod) ledger.Answer { return n.AskUnder(p.Candidate, &ledger.Trial{}) }

// AskUnder is Ask where more is assumed: what the trial takes away is gone with the ones that were
// taken, and what it adds comes after the ones that were put.
func (n *Node) AskUnder(c *ledger.Candidate, more *ledger.Trial) ledger.Answer {
	if n.account == nil {
		return ledger.Answer{}
	}
	t := n.Trial()
	t.Without, t.With = append(t.Without, more.Without...), append(t.With, more.With...)
	return n.Account().View().Ask(ledger.Question{Candidate: c, Trial: &t})
}

// Trial is the pods that were taken and put, as far as the ledger has to know of them.
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
