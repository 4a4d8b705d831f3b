package gangs

import "time"

// Phase is a scheduler's action for a gang. Users see a Stage.
type Phase string

// The phases.
const (
	// Incomplete: the gang cannot be tried for a reason other than room. For example, pods are
	// missing, or its object is missing or wrong.
	Incomplete Phase = "incomplete"
	// Unconfirmed: its object may be older than its members and is read again, or it is not known
	// if a member has ended or is gone.
	Unconfirmed Phase = "unconfirmed"
	// BackedOff: a plan was not possible, or was dropped. The gang is not tried before NotBefore.
	BackedOff Phase = "backed off"
	// Parked: it did not fit. It is not tried before the cluster has changed in a way that could
	// help.
	Parked Phase = "parked"
	// Ready: its first member is tried, and plans for all.
	Ready Phase = "ready"
	// Reserved: all places of a plan are reserved. Its members are in their scheduling cycles, or
	// in Permit.
	Reserved Phase = "reserved"
	// Binding: all members of the plan have passed Permit.
	Binding Phase = "binding"
	// Settled: the minimum has nodes, or no longer needs them. Other members are placed one by one.
	Settled Phase = "settled"
	// Ending: it was not whole in time, and its bound members are being deleted.
	Ending Phase = "ending"
)

// Progress is the stored state of a gang between events. The zero value is a gang that has not been
// tried.
type Progress struct {
	Wait
	// Doing is Reserved, Binding or Ending, or "". If it is "", Phase computes the phase.
	Doing Phase
	// Whole: the minimum had nodes once.
	Whole bool
	// Open means that the members beyond the minimum are placed one by one.
	Open bool
	// Lacking means that at the last attempt only capacity was missing, and no pod was evicted.
	Lacking bool
	// Complete is the time since when only room is missing, or zero.
	Complete time.Time
	// Together is the time when the plan is dropped, unless all its members have reached Permit.
	Together time.Time
	// Deadline is the time when the bound members are deleted, unless the gang is whole. It is zero
	// if none is bound.
	Deadline time.Time

	failures int // in a row
	// say is the time when users are told why the gang is not tried. tellMates is the time when its
	// members are told that it does not fit, if that is still so. Zero means never.
	say, tellMates time.Time
}

// Conditions are the state of a gang's members and of its object.
type Conditions struct {
	// Members counts all members, Waiting those without a node.
	Members, Waiting int
	// Blocked is the reason why the gang cannot be tried, whatever room there is, or "".
	Blocked string
	// Settled: the minimum has nodes, or need not have them.
	Settled bool
	// Stale means that its object may be older than its members, or that a member may be gone.
	Stale bool
	// Disagree: its members contradict each other.
	Disagree bool
}

// Phase returns the phase of a gang under these conditions.
func (p *Progress) Phase(c *Conditions, now time.Time) Phase {
	switch {
	case p.Planned():
		return p.Doing
	case c.Blocked != "":
		return Incomplete
	case p.Doing == Ending:
		return Ending
	case c.Stale:
		return Unconfirmed
	case now.Before(p.NotBefore):
		return BackedOff
	case p.Why != "":
		return Parked
	case c.Settled:
		return Settled
	default:
		return Ready
	}
}

// Planned reports whether a plan is reserved.
func (p *Progress) Planned() bool { return p.Doing == Reserved || p.Doing == Binding }

// LacksRoom reports whether a gang lacks only room to get its nodes.
func (p *Progress) LacksRoom(c *Conditions) bool {
	return p.Lacking && !p.Planned() && !c.Settled
}

// again returns the time for the next Looked, if no event comes before, or zero.
func (p *Progress) again(c *Conditions, now time.Time) (at time.Time) {
	if c.Members == 0 {
		return at
	}
	earliest := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	earliest(p.say)
	earliest(p.tellMates)
	if now.Before(p.NotBefore) {
		earliest(p.NotBefore)
	}
	if p.Why != "" {
		earliest(p.until)
	}
	if p.Doing == Reserved {
		earliest(p.Together)
	}
	if !p.Whole && p.Doing != Binding && p.Doing != Ending {
		earliest(p.Deadline)
	}
	return at
}

// backOff records a failure, after which nothing is tried for a while.
func (p *Progress) backOff(now time.Time) {
	p.NotBefore = now.Add(Doubled(p.failures, LongestPause))
	p.failures++
}

// The first and the longest pause after a failed attempt to place a gang.
const (
	FirstPause   = time.Second
	LongestPause = 10 * time.Second
)

// Doubled returns FirstPause, doubled this many times, but at most most.
func Doubled(times int, most time.Duration) time.Duration {
	return min(most, FirstPause<<min(times, 6))
}
