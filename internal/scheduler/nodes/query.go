package nodes

import (
	"time"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/placement"
)

// Query asks nodes about one pod, in one attempt to place it.
type Query struct {
	Candidate ledger.Candidate

	table   *Table
	scoring *rank.Scoring
	// setting adjusts a node's rank to the demand for the node's devices.
	setting rank.Setting
	// answers has the nodes' answers for the pod's shape (ledger.Shape). It is nil if the pod has
	// rules of its own, because the nodes must then be asked about the pod itself.
	answers *answerTable
	// amid has the nodes' answers or estimates for the pod's batch (type batch). Unlike the answers
	// in the field answers, they may be used even if the kubelet could admit the pod before pods in
	// flight. amid is nil if answers is nil or Share was not called.
	amid *answerTable
	// begun is the start of the attempt, as the time since the package variable began.
	begun time.Duration
	// nominated is the node to which the pod is nominated, or "".
	nominated string
}

// Profile has the data that the queries of one scheduler profile share. Profiles do not share
// stored answers, because the answers contain ranks.
type Profile struct {
	Table   *Table
	Scoring rank.Scoring
	answers Answers[ledger.Shape]
	amid    Answers[batch]
}

// Begin starts an attempt to place the candidate. The parameter nominated is the node to which the
// pod is nominated, or "".
func (p *Profile) Begin(c ledger.Candidate, nominated string) Query {
	q := Query{Candidate: c, table: p.Table, scoring: &p.Scoring, setting: p.Scoring.Setting(c.Request.AsksDevices()), begun: since(p.Table.clock.Now()), nominated: nominated}
	if c.Request.Rules.Own() == (placement.Rules{}) {
		q.answers = p.answers.of(c.Shape, p.Table.Size())
	}
	return q
}

// Share makes the query use and store answers for the candidate's batch. It does nothing if the
// nodes must be asked about the pod itself.
func (q *Query) Share(p *Profile) {
	if c := &q.Candidate; q.answers != nil {
		q.amid = p.amid.of(batch{c.Shape, c.Created, c.Loose}, p.Table.Size())
	}
}

// Refused forgets the node's answer for the batch after Reserve has refused the pod.
func (q *Query) Refused(n *Node) {
	if q.amid != nil {
		q.amid.noteNode(n.Number(), 0)
	}
}

// Recall returns a stored answer for the pod if there is a valid one: the node's answer to a pod of
// the same shape or batch, or the answer of another node in the same state.
func (q *Query) Recall(n *Node) (PackedAnswer, bool) {
	p, ok := q.recall(n)
	return p, ok && p.Kind() != AtBest
}

// Foresee does not ask the node. It returns the stored answer if there is a valid one. Otherwise it
// computes the best rank that the node could have, and returns and stores it as an answer of kind
// AtBest. It returns false if it can do neither.
func (q *Query) Foresee(n *Node) (PackedAnswer, bool) {
	if p, ok := q.recall(n); ok || q.answers == nil || !n.hot.trusted(q.begun, q.table.staleAfter) {
		return p, ok
	}
	o := n.outline()
	if o == nil || !n.hot.changes.Follows(q.Candidate.Created) {
		return 0, false
	}
	r, _ := q.scoring.Bound(o, q.Candidate.Request)
	p := packAdmission(o.Count, AtBest, r)
	q.answers.noteNode(n.Number(), p)
	return p, true
}

func (q *Query) recall(n *Node) (PackedAnswer, bool) {
	if q.answers == nil || !n.hot.trusted(q.begun, q.table.staleAfter) {
		return 0, false
	}
	count, id := n.hot.changes.Load()
	p := q.answers.ofState(id)
	if p.Kind() == NoAnswer {
		p = q.answers.ofNode(n.Number())
		if p.count() != count {
			return q.recallAmid(n)
		}
	}
	if q.holds(n, p, count) {
		return p.at(count), true
	}
	return q.recallAmid(n)
}

// recallAmid returns the node's stored answer for the pod's batch. It returns false if there is no
// valid answer, or if the pod is nominated to the node.
func (q *Query) recallAmid(n *Node) (PackedAnswer, bool) {
	if q.amid == nil {
		return 0, false
	}
	p := q.amid.ofNode(n.Number())
	known := p.Kind() != NoAnswer && p.count() == n.hot.changes.Count()
	return p, known && n.name != q.nominated // compare the name last, because it is not in hotFields
}

// holds reports whether p, an answer for the pod's shape, is valid for the pod. The parameter count
// is the node's change count when the caller looked up p; p is not valid if the node has changed
// since.
func (q *Query) holds(n *Node, p PackedAnswer, count uint32) bool {
	return p.Kind() != NoAnswer && n.hot.changes.Follows(q.Candidate.Created) && n.hot.changes.Count() == count
}

// Ask asks the node, unless another node in the same state has answered. It stores the answer if
// other queries can use it.
func (q *Query) Ask(n *Node) PackedAnswer {
	var stamp ledger.Stamp
	if q.answers != nil {
		stamp = n.account.View().Stamp()
		if p := q.answers.ofState(stamp.State); q.holds(n, p, stamp.Count) {
			return p.at(stamp.Count)
		}
	}
	s := n.account.View().Sample(ledger.Question{Candidate: &q.Candidate, Estimate: q.Estimates(n) && n.name != q.nominated})
	if q.Candidate.Loose && !s.Answer.Certain { // a loose pod gets no promise, so certainty does not matter
		s.Answer.Certain, s.Lasts = true, false
	}
	p := q.pack(n, &s)
	if (s.Repeats || s.Estimated && q.table.Large()) && q.amid != nil {
		q.amid.noteNode(n.Number(), p)
	}
	if s.Lasts && q.answers != nil {
		q.answers.noteNode(n.Number(), p)
		if n.still(&stamp) {
			q.answers.noteState(stamp.State, p)
		}
	}
	return p
}

// Confirm checks a stored answer by which the node admits the pod. If the answer may be an estimate
// and ask is true, Confirm asks the node for the exact answer, and stores a refusal. The result
// takes means that the node admits the pod, and the result estimated means that the stored answer
// may have been an estimate.
func (q *Query) Confirm(n *Node, ask bool) (takes, estimated bool) {
	switch {
	case n.hot.changes.Follows(q.Candidate.Created) || n.name == q.nominated || !q.Estimates(n):
		return true, false
	case !ask:
		return true, true
	}
	s := n.account.View().Sample(ledger.Question{Candidate: &q.Candidate})
	if !s.Answer.OK() && s.Repeats && q.amid != nil {
		q.amid.noteNode(n.Number(), Pack(s.Count, &s.Answer))
	}
	return s.Answer.OK(), true
}

// Estimates reports whether the node may answer with an estimate, which assumes that the kubelet
// admits pods in the order of Reserve. If Reserve refuses the pod after an estimate, the pod should
// be tried again at once.
func (q *Query) Estimates(n *Node) bool {
	return q.table.Large() || q.Candidate.Loose && !rank.IsBusy(n.hot.changes.InFlight())
}

func (q *Query) pack(n *Node, s *ledger.Sample) PackedAnswer {
	p := Pack(s.Count, &s.Answer)
	if !p.Admits() {
		return p
	}
	kind := p.Kind()
	if s.Estimated {
		kind = Takes
	}
	return packAdmission(s.Count, kind, q.rankBy(n, &s.Answer))
}

// rankBy returns the rank of a node whose answer a admits the pod.
func (q *Query) rankBy(n *Node, a *ledger.Answer) rank.Rank {
	o := rank.OfferOf(n.account, q.Candidate.Request, a, n.Machine())
	return q.scoring.Rank(&o)
}

// Rank returns the rank of a node that has admitted the pod, or the worst rank if the node now
// refuses the pod. Unlike the ranks in stored answers, which nodes with equal states share, this
// rank also depends on the demand for the node and on the number of its pods in flight.
func (q *Query) Rank(n *Node) rank.Rank {
	p, ok := q.Recall(n)
	if !ok {
		p = q.Ask(n)
	}
	return q.RankOf(n, p)
}

// OrderOf returns RankOf as a number. A better rank has a smaller number.
func (q *Query) OrderOf(n *Node, p PackedAnswer) uint32 { return q.scoring.Order(q.RankOf(n, p)) }

// RankOf returns the same rank as Rank, computed from the answer p that the node has just given.
// For an answer of kind AtBest, it returns the best rank that the node can have.
func (q *Query) RankOf(n *Node, p PackedAnswer) rank.Rank {
	if !p.Admits() && p.Kind() != AtBest {
		return rank.Rank{Tier: rank.LastTier}
	}
	r := q.setting.Rank(p.rank(), n.demand())
	r.Score = q.scoring.Busy(r.Score, n.hot.changes.InFlight())
	return r
}

// Better returns a waiting node that probably has a better tier than the chosen node, because the
// pod would get fewer NUMA nodes there or strand fewer devices. It returns nil if there is no such
// node.
func (q *Query) Better(chosen *Node, waiting []*Node) *Node {
	if len(waiting) == 0 {
		return nil
	}
	a := chosen.account.View().Ask(ledger.Question{Candidate: &q.Candidate})
	if !a.OK() {
		return nil
	}
	has := rank.OfferOf(chosen.account, q.Candidate.Request, &a, chosen.Machine())
	if has.Reach.Len() < 2 && has.Stranded == 0 {
		return nil
	}
	tier := q.setting.Rank(q.scoring.Rank(&has), chosen.demand()).Tier
	for _, n := range waiting {
		spare, ok := n.account.View().Hope(&q.Candidate)
		hope := rank.Offer{Spare: spare, Asked: q.Candidate.Request.CPUs(), Machine: n.Machine()}
		less := spare.Reach.Len() < has.Reach.Len() || spare.Stranded < has.Stranded
		if ok && less && q.setting.Rank(q.scoring.Rank(&hope), n.demand()).Tier < tier {
			return n
		}
	}
	return nil
}

// RankOn returns the rank of a node by the answer of account, a fork of the node's account. It uses
// no stored answers, and the score is not lowered for nodes with many pods in flight.
func (q *Query) RankOn(n *Node, account *ledger.Node) rank.Rank {
	a := account.View().Ask(ledger.Question{Candidate: &q.Candidate})
	if !a.OK() {
		return rank.Rank{Tier: rank.LastTier}
	}
	o := rank.OfferOf(account, q.Candidate.Request, &a, n.Machine())
	return q.setting.Rank(q.scoring.Rank(&o), n.demand())
}
