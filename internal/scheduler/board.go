package scheduler

import (
	"sync"
	"sync/atomic"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/placement"
)

// board is what the nodes last said to pods of one shape, a word for each node, so that Filter and
// Score of a large cluster read along a few pages of memory, without a lock. A word holds while the
// node's counter has not moved on.
//
// Before that it holds what one of the nodes with the same standing said, so that a shape that is
// new is put to a few nodes only. A node of a standing that is not there, or is none, has a word of
// its own.
type board struct {
	// words are by the nodes' numbers. Nodes that came later have none.
	words []atomic.Uint64
	// common is a direct-mapped cache. The slot is the low bits of the state's id; the entry holds
	// the id where others hold the change count. Its length is a power of two, and a collision
	// overwrites.
	common []atomic.Uint64
}

// commonOf returns what nodes of a standing say; nothing for none.
func (b *board) commonOf(s ledger.StateID) word {
	w := word(b.common[int(s)&(len(b.common)-1)].Load())
	if s == 0 || ledger.StateID(w.beat()) != s {
		return 0
	}
	return w
}

// noteCommon notes what nodes of a standing say.
func (b *board) noteCommon(s ledger.StateID, w word) {
	b.common[int(s)&(len(b.common)-1)].Store(uint64(w.at(uint32(s))))
}

// newBoard makes a board with room for count nodes.
func newBoard(count int) *board {
	common := minCommon
	for common < count/2 {
		common *= 2
	}
	return &board{words: make([]atomic.Uint64, count+count/8), common: make([]atomic.Uint64, common)}
}

// minCommon is the least number of places for standings.
const minCommon = 64

// sayings are how a node answers.
type saying uint8

const (
	// saysNothing is the zero word.
	saysNothing saying = iota
	// saysYes admits the pod and leaves nothing to wait for.
	saysYes
	// saysYesRoughly admits the pod, but a patient one waits to be certain of the CPUs.
	saysYesRoughly
	saysWait
	saysNo
	// saysNever refuses even when the node is empty.
	saysNever
)

// word is an answer in 64 bits: beat 32, saying 8, score 8, reason 8, detail 8. The score of
// saysWait is its ledger.Wait. An admission has the rank of the node: its tier in place of reason
// and detail.
type word uint64

func newWord(beat uint32, s saying, score int64, v *placement.Verdict) word {
	return word(beat)<<32 | word(s)<<24 | word(score&0xff)<<16 | word(uint8(v.Reason))<<8 | word(uint8(v.Detail))
}

// newAdmission is newWord for an admission.
func newAdmission(beat uint32, s saying, r rank.Rank) word {
	return word(beat)<<32 | word(s)<<24 | word(r.Score)<<16 | word(r.Tier)
}

// at returns the word with another beat.
func (w word) at(beat uint32) word { return w&(1<<32-1) | word(beat)<<32 }

func (w word) beat() uint32   { return uint32(w >> 32) }
func (w word) saying() saying { return saying(w >> 24) }
func (w word) score() int64   { return int64(w >> 16 & 0xff) }

// rank is that of a node that admits the pod.
func (w word) rank() rank.Rank { return rank.Rank{Tier: rank.Tier(w), Score: uint8(w >> 16)} }

// admits says whether the node takes the pod.
func (w word) admits() bool { return w.saying() == saysYes || w.saying() == saysYesRoughly }

// status says a word as the framework wants it.
func (w word) status(patient bool) *fwk.Status {
	switch w.saying() {
	case saysYes:
		return nil
	case saysYesRoughly:
		if patient {
			return fwk.NewStatus(fwk.Pending, waitCertainty)
		}
		return nil
	case saysWait:
		return waits(ledger.Wait(w.score()))
	case saysNo, saysNever:
		return refuses(placement.Reason(w>>8), placement.Detail(w), w.saying() == saysNever)
	default:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, unreported.Text)
	}
}

// sayingOf puts an answer into a word.
func sayingOf(a *ledger.Answer) saying {
	switch {
	case a.OK() && !a.Exact && !a.Verdict.Random:
		return saysYesRoughly
	case a.OK():
		return saysYes
	case a.Outcome == ledger.Waiting:
		return saysWait
	case a.Outcome == ledger.Refused && a.Verdict.Scarcity == placement.Unresolvable:
		return saysNever
	case a.Outcome == ledger.Refused:
		return saysNo
	default:
		return saysNothing
	}
}

// boards holds the boards of the shapes that were asked about last. The zero value is empty and
// ready.
type boards struct {
	mu      sync.Mutex
	byShape map[ledger.Shape]*board
}

// maxBoards bounds how many shapes have boards. With more, all begin anew.
const maxBoards = 64

// of returns the board of a shape, with room for count nodes.
func (b *boards) of(shape ledger.Shape, count int) *board {
	b.mu.Lock()
	defer b.mu.Unlock()
	if found := b.byShape[shape]; found != nil && len(found.words) >= count {
		return found
	}
	if b.byShape == nil || len(b.byShape) >= maxBoards {
		b.byShape = map[ledger.Shape]*board{}
	}
	made := newBoard(count)
	b.byShape[shape] = made
	return made
}

// front is what is read of a node for every pod. All of it lies side by side.
type front struct {
	ledger.ChangeCounter
	// heard is when the last sign of life of the agent was received, since the beginning of our
	// clock.
	heard atomic.Int64
	// troubled says that the node cannot be predicted, whatever its counter shows: node.trouble has
	// the reason.
	troubled atomic.Bool
	// number is the node's place on boards.
	number int
}

// began is the beginning of our clock: Time.Sub of two readings of this process is steady when the
// wall clock jumps.
var began = time.Now()

// since is the time on our clock.
func since(now time.Time) time.Duration { return now.Sub(began) }

// alive says whether the agent gave a sign of life lately.
func (f *front) alive(now, staleAfter time.Duration) bool {
	return now-time.Duration(f.heard.Load()) <= staleAfter
}

// trusted says whether the node can be predicted.
func (f *front) trusted(now, staleAfter time.Duration) bool {
	return !f.troubled.Load() && f.alive(now, staleAfter)
}
