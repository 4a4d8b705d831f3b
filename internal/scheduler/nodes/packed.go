package nodes

import (
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/placement"
)

// AnswerKind is the kind of a node's answer.
type AnswerKind uint8

const (
	// NoAnswer is the kind of the zero PackedAnswer, which means that the answer is not known.
	NoAnswer AnswerKind = iota
	// AtBest means that the node has not been asked. The answer contains the best rank that the
	// node could have.
	AtBest
	// Takes means that the node admits the pod, and that waiting would not improve the answer.
	Takes
	// TakesRoughly means that the node admits the pod, but that only its next report will show
	// which CPUs the pod gets.
	TakesRoughly
	// Waits means that the answer depends on the node's next report.
	Waits
	// Refuses means that the node refuses the pod, and that evictions may help.
	Refuses
	// RefusesEmpty means that the node would refuse the pod even if no other pod were on the node.
	RefusesEmpty
	// KeepsOff means that the node refuses the pod because of resources that are held for other
	// pods. Evictions may help.
	KeepsOff
)

// PackedAnswer is a node's answer in 64 bits: 32 for the node's change count, 4 for the kind, 8 for
// the score, and 8 each for reason and detail. If the kind is Waits, the score is the ledger.Wait.
// Admissions and AtBest have the rank of the node, with a tier of 20 bits instead of reason and
// detail.
type PackedAnswer uint64

// The positions of kind and score in a PackedAnswer, in bits.
const (
	scoreAt = rank.TierBits
	kindAt  = scoreAt + 8
)

// Pack returns the packed form of an answer that a node gave at the given change count. It does not
// set the rank of an admission.
func Pack(count uint32, a *ledger.Answer) PackedAnswer {
	return packed(count, kindOf(a), uint8(a.Wait), uint32(a.Verdict.Reason)<<8|uint32(a.Verdict.Detail))
}

func packAdmission(count uint32, k AnswerKind, r rank.Rank) PackedAnswer {
	return packed(count, k, r.Score, uint32(r.Tier))
}

func packed(count uint32, k AnswerKind, score uint8, rest uint32) PackedAnswer {
	return PackedAnswer(count)<<32 | PackedAnswer(k)<<kindAt | PackedAnswer(score)<<scoreAt | PackedAnswer(rest)
}

func (p PackedAnswer) at(count uint32) PackedAnswer { return p&(1<<32-1) | PackedAnswer(count)<<32 }

func (p PackedAnswer) count() uint32 { return uint32(p >> 32) }

// Kind returns the kind of the answer.
func (p PackedAnswer) Kind() AnswerKind { return AnswerKind(p >> kindAt & 0xf) }

// Wait returns the reason why the node must report first. It is defined only for answers of kind
// Waits.
func (p PackedAnswer) Wait() ledger.Wait { return ledger.Wait(uint8(p >> scoreAt)) }

// Why returns the reason why the node refuses the pod. It is defined only for refusals.
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
	case a.OK() && !a.Exact && !a.Amounts && !a.Verdict.Random: // with only amounts, CPUs are never certain
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
