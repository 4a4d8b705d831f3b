package nodes

import (
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/placement"
)

// AnswerKind is the kind of a node's answer.
type AnswerKind uint8

const (
	// NoAnswer is the kind of the zero PackedAnswer: nothing is known.
	NoAnswer AnswerKind = iota
	// AtBest: the node has not been asked. If it admits the pod, its rank is not better than this.
	AtBest
	// Takes: the node admits the pod, and there is nothing to wait for.
	Takes
	// TakesRoughly: the node admits the pod, but a patient pod waits for certain CPUs.
	TakesRoughly
	// Waits: the answer depends on the node's next report.
	Waits
	// Refuses: the node refuses, and evictions may help.
	Refuses
	// RefusesEmpty: the node refuses even if it is empty.
	RefusesEmpty
	// KeepsOff: the node refuses because of places that are held. Evictions may help.
	KeepsOff
)

// PackedAnswer is a node's answer in 64 bits: the count of the node's changes has 32, the kind 4,
// the score 8, reason and detail 8 each. The score of Waits is its ledger.Wait. An admission and
// AtBest have the rank of the node, with 20 bits of tier instead of reason and detail.
type PackedAnswer uint64

// Positions of kind and score.
const (
	scoreAt = rank.TierBits
	kindAt  = scoreAt + 8
)

// Pack returns the packed form of an answer that a node gave at this count of its changes. An
// admission has no rank.
func Pack(count uint32, a *ledger.Answer) PackedAnswer {
	return packed(count, kindOf(a), uint8(a.Wait), uint32(a.Verdict.Reason)<<8|uint32(a.Verdict.Detail))
}

func packAdmission(count uint32, k AnswerKind, r rank.Rank) PackedAnswer {
	return packed(count, k, r.Score, uint32(r.Tier))
}

func packed(count uint32, k AnswerKind, score uint8, rest uint32) PackedAnswer {
	return PackedAnswer(count)<<32 | PackedAnswer(k)<<kindAt | PackedAnswer(score)<<scoreAt | PackedAnswer(rest)
}

// at returns the answer with the given counter of changes.
func (p PackedAnswer) at(count uint32) PackedAnswer { return p&(1<<32-1) | PackedAnswer(count)<<32 }

func (p PackedAnswer) count() uint32 { return uint32(p >> 32) }

// Kind returns the kind of the answer.
func (p PackedAnswer) Kind() AnswerKind { return AnswerKind(p >> kindAt & 0xf) }

// Wait returns why the node Waits.
func (p PackedAnswer) Wait() ledger.Wait { return ledger.Wait(uint8(p >> scoreAt)) }

// Why returns why the node refuses.
func (p PackedAnswer) Why() (placement.Reason, placement.Detail) {
	return placement.Reason(p >> 8), placement.Detail(p)
}

// rank returns the rank of a node that admits the pod, or the best rank that it could have.
func (p PackedAnswer) rank() rank.Rank {
	return rank.Rank{Tier: rank.Tier(p) & rank.LastTier, Score: uint8(p >> scoreAt)}
}

// Admits reports whether the node admits the pod.
func (p PackedAnswer) Admits() bool { return p.Kind() == Takes || p.Kind() == TakesRoughly }

func kindOf(a *ledger.Answer) AnswerKind {
	switch {
	case a.OK() && !a.Exact && !a.Amounts && !a.Verdict.Random: // of amounts nobody is ever certain
		return TakesRoughly
	case a.OK():
		return Takes
	case a.Outcome == ledger.Waiting:
		return Waits
	case a.Held:
		return KeepsOff
	case a.Outcome == ledger.Refused && a.Verdict.Scarcity == placement.Unresolvable:
		return RefusesEmpty
	case a.Outcome == ledger.Refused:
		return Refuses
	default:
		return NoAnswer
	}
}
