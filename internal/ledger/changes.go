package ledger

import (
	"math"
	"sync/atomic"
)

// ChangeCounter shows without a lock whether a stored answer of a Node is still valid: Count must
// be unchanged and, if the answer is valid only for candidates that come after the pods in flight
// (Sample.Lasts), Follows must be true. A valid answer is only a hint. Before a caller acts on an
// answer, it must ask again, for example with Reserve.
type ChangeCounter struct {
	// state has the count in its upper half, and the StateID in its lower half. The StateID is 0
	// until a caller asks for it at this count.
	state atomic.Uint64
	// newest is the second in which the newest pod in flight was created. It is beforeAll if there
	// is no such pod, and afterAll until the pods in flight are known.
	newest atomic.Int64
	// flight is the number of pods in flight that could be pinned.
	flight atomic.Int32
	// unshown is the result of View.UnshownCPUs(nil) after the last change.
	unshown atomic.Int32
}

// beforeAll is earlier, and afterAll later, than every second in which a pod was created.
const (
	beforeAll = math.MinInt64
	afterAll  = math.MaxInt64
)

func (c *ChangeCounter) setFlight(newest int64, flight int) {
	c.newest.Store(newest)
	c.flight.Store(int32(flight))
}

// Count returns the number of changes.
func (c *ChangeCounter) Count() uint32 { return uint32(c.state.Load() >> 32) }

// Load returns the count, and the StateID if it is known.
func (c *ChangeCounter) Load() (count uint32, id StateID) {
	v := c.state.Load()
	return uint32(v >> 32), StateID(v)
}

// Bump counts a change. Earlier answers are no longer valid.
func (c *ChangeCounter) Bump() {
	for {
		old := c.state.Load()
		if c.state.CompareAndSwap(old, (old>>32+1)<<32) {
			return
		}
	}
}

// StartAt sets the first count.
func (c *ChangeCounter) StartAt(count uint32) { c.state.Store(uint64(count) << 32) }

// identify stores the StateID, unless the count has changed.
func (c *ChangeCounter) identify(count uint32, id StateID) {
	c.state.CompareAndSwap(uint64(count)<<32, uint64(count)<<32|uint64(id))
}

// Follows reports whether a pod that was created at this time (Unix time) comes last: in every
// possible order, the kubelet admits it after all pods in flight.
func (c *ChangeCounter) Follows(created int64) bool { return created > c.newest.Load() }

// InFlight returns the number of pods in flight that could be pinned, as of the last answer. If
// Berth decides, it returns 0, because new pods do not have to wait for pods in flight.
func (c *ChangeCounter) InFlight() int { return int(c.flight.Load()) }

// Unshown returns the result of View.UnshownCPUs(nil) as of the last change.
func (c *ChangeCounter) Unshown() int { return int(c.unshown.Load()) }
