package gangs

import "time"

// Phase is the state of a gang in the scheduler. Users see a Stage.
type Phase string

// The phases.
const (
	// Incomplete: the gang cannot be tried, and the reason is not a lack of room. For example, pods
	// are missing, or the gang's object is missing or wrong.
	Incomplete Phase = "incomplete"
	// Unconfirmed: the scheduler waits for newer data, because the known version of the gang's
	// object may be older than its members, or because a member may be gone.
	Unconfirmed Phase = "unconfirmed"
	// BackedOff: the gang is not tried before NotBefore, for example because a plan was dropped.
	BackedOff Phase = "backed off"
	// Parked: the gang did not fit. The gang is tried again after a change of the cluster that
	// could help, or after LongestWait.
	Parked Phase = "parked"
	// Ready: the gang may be tried. The attempt of its first member plans all members.
	Ready Phase = "ready"
	// Reserved: all places of a plan are reserved. The plan's members are on their way to Permit,
	// or wait there.
	Reserved Phase = "reserved"
	// Binding: all members of the plan have passed Permit.
	Binding Phase = "binding"
	// Settled: enough members for the minimum have nodes or have succeeded. Other members are
	// placed one by one.
	Settled Phase = "settled"
	// Ending: the gang was not whole at its deadline, and its bound members are being deleted.
	Ending Phase = "ending"
)

// Progress is the stored state of a gang between events. The zero value is a gang that has not been
// tried.
type Progress struct {
	Wait
	// Doing is Reserved, Binding, Ending or "". If it is "", the method Phase computes the phase
	// from Wait and the Conditions.
	Doing Phase
	// Whole means that enough members for the minimum had nodes at some time.
	Whole bool
	// Open means that the gang is settled and Next has selected all pending members for
	// Actions.Try. From then on, members are placed one by one.
	Open bool
	// Lacking means that the last attempt failed only for lack of capacity, and that no pod was
	// evicted for the gang.
	Lacking bool
	// Complete is the time since which the gang has not been blocked (Conditions.Blocked), or zero
	// if it is blocked.
	Complete time.Time
	// Together is the time at which the plan is dropped, unless all its members have reached
	// Permit.
	Together time.Time
	// Deadline is the time at which the bound members are deleted, unless the gang is whole. Zero
	// means that there is no deadline, for example because no member is bound.
	Deadline time.Time
	// Ahead is the end of the time for which GoesAhead may return true. It is set only once: when a
	// planned member that the minimum needs has failed.
	Ahead time.Time

	failures int // the number of failures in a row, for backOff
	// say is the time at which SayWhy becomes due if the gang is still blocked (see sayAt).
	// tellMates is the time at which TellMates becomes due if the gang still does not fit. Zero
	// means never.
	say, tellMates time.Time
}

// Conditions are the state of a gang's members and of its object.
type Conditions struct {
	// Members counts all members, and Waiting the members that need a node.
	Members, Waiting int
	// Blocked is the reason why the gang cannot be tried even if enough resources are free, or "".
	Blocked string
	// Stuck means that the gang is blocked, and its pods wait for each other (Ordered).
	Stuck bool
	// Settled means that enough members for the minimum have nodes or have succeeded.
	Settled bool
	// Stale means that the known version of the gang's object may be older than the members, or
	// that a member may be gone.
	Stale bool
	// Disagree means that the members' declarations contradict each other.
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

// Planned reports whether the gang has a plan whose places are reserved or being bound.
func (p *Progress) Planned() bool { return p.Doing == Reserved || p.Doing == Binding }

// LacksRoom reports whether the gang has no plan and has not reached its minimum, and only capacity
// was missing at the last attempt.
func (p *Progress) LacksRoom(c *Conditions) bool {
	return p.Lacking && !p.Planned() && !c.Settled
}

// GoesAhead reports whether other gangs' members beyond their minimums must wait for the gang: a
// planned member that the minimum needs has failed, and is tried again. If they did not wait, they
// could take the member's place, and the gang's bound members would be deleted at the deadline.
// GoesAhead returns false if the gang cannot be tried, or if the last attempt lacked capacity. It
// returns true for no longer than the time that the first failed plan had.
func (p *Progress) GoesAhead(c *Conditions, now time.Time) bool {
	return now.Before(p.Ahead) && !p.Whole && !c.Settled && c.Blocked == "" && p.Doing != Ending && !p.Lacking
}

// sayAt returns the time at which SayWhy becomes due, or zero.
func (p *Progress) sayAt(c *Conditions) time.Time {
	if c.Stuck && !p.say.IsZero() {
		return p.say.Add(ShortSilence - Silence)
	}
	return p.say
}

// again returns the time for Actions.Again.
func (p *Progress) again(c *Conditions, now time.Time) (at time.Time) {
	if c.Members == 0 {
		return at
	}
	earliest := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	earliest(p.sayAt(c))
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

// backOff records a failure. The gang is then not tried for FirstPause, or for longer after several
// failures in a row.
func (p *Progress) backOff(now time.Time) {
	p.NotBefore = now.Add(Doubled(p.failures, LongestPause))
	p.failures++
}

// FirstPause and LongestPause are the shortest and the longest pause after failed attempts to place
// a gang.
const (
	FirstPause   = time.Second
	LongestPause = 10 * time.Second
)

// Doubled returns FirstPause, doubled the given number of times, but at most six times. The
// parameter most limits the result.
func Doubled(times int, most time.Duration) time.Duration {
	return min(most, FirstPause<<min(times, 6))
}
