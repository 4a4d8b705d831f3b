package gangs

import "time"

// Event is an input of Next: a Misfit, or one of the types below.
type Event interface{ happen(s *step) }

// The events.
type (
	// Looked: the scheduler checks the gang, because some time has passed or the Conditions may
	// have changed.
	Looked struct{}
	// News: a member was created, was removed or has ended, or the gang's object has changed.
	News struct{}
	// Stirred: the cluster has changed in a way that could help a gang. Stirs is the number of such
	// changes so far.
	Stirred struct{ Stirs uint64 }
	// Placed: a member has its node. A new deadline is Timeout after Since; Since is zero if the
	// gang needs no deadline.
	Placed struct {
		Since   time.Time
		Timeout time.Duration
	}
	// Held: the gang must not be tried before Until, for a reason outside the gang.
	Held struct{ Until time.Time }
	// Failed: the attempt failed, but not because the gang does not fit.
	Failed struct{}
	// PlanMade: all places of a plan are reserved. The plan is dropped unless all its members reach
	// Permit within Timeout and before the gang's deadline.
	PlanMade struct{ Timeout time.Duration }
	// Arrived: a member of the plan has reached Permit. All means that all members of the plan have
	// now reached Permit.
	Arrived struct{ All bool }
	// Lost: a member of the plan has failed or was removed. Enough means that the remaining members
	// reach the minimum, and All that each of them has reached Permit. Before means that another
	// member was already lost after Actions.Release. All losses after Actions.Release count as one
	// failure, because a node often refuses all its planned members.
	Lost struct {
		Why                 string
		Enough, All, Before bool
	}
	// Withdrawn: the plan no longer matches the gang's specification. A plan whose members are
	// being bound is not affected.
	Withdrawn struct{ Why string }
	// PlanDone: no members are left in the plan. Lost means that a member has failed since
	// Actions.Release.
	PlanDone struct{ Lost bool }
	// Ended: the attempt to delete the bound members is over. If Whole is set, they were kept,
	// because the gang is whole.
	Ended struct{ Whole bool }
)

// Actions are the steps that the caller must carry out.
type Actions struct {
	// Try selects the members that the caller must activate, so that they are scheduled.
	Try Who
	// Release means that the caller must let the members of the plan pass Permit.
	Release bool
	// Drop is the reason to drop the plan, or "".
	Drop string
	// Delete means that the caller must begin to delete the bound members, and later send the event
	// Ended.
	Delete bool
	// SayWhy means that the caller must tell users why the gang cannot be tried
	// (Conditions.Blocked).
	SayWhy bool
	// TellMates means that the caller must tell users, for each member, that the gang does not fit.
	TellMates bool
	// Again is the time at which the caller must send Looked if no other event comes first; zero
	// means never.
	Again time.Time
}

// Who selects some of the members that need a node.
type Who int

// The values of Who.
const (
	Nobody Who = iota
	First
	Everybody
)

// Next returns a gang's progress after an event, and the resulting actions. c are the conditions
// after the event, and now is the time. Next has no side effects.
func Next(p Progress, c *Conditions, e Event, now time.Time) (Progress, Actions) {
	s := step{Progress: p, c: c, now: now}
	e.happen(&s)
	s.do.Again = s.again(c, now)
	return s.Progress, s.do
}

type step struct {
	Progress
	c   *Conditions
	now time.Time
	do  Actions
}

// due reports whether *at has passed; a zero *at never passes. If it has passed, due sets *at to
// zero.
func (s *step) due(at *time.Time) bool {
	if at.IsZero() || s.now.Before(*at) {
		return false
	}
	*at = time.Time{}
	return true
}

// Silence is the time after which users are told why a gang is blocked or does not fit. During this
// time, pods of a blocked gang are often still being created. ShortSilence is this time if no pods
// are being created (Conditions.Stuck).
const (
	Silence      = 10 * time.Second
	ShortSilence = 2 * time.Second
)

func (Looked) happen(s *step) {
	s.notice()
	s.expire()
	s.Over(s.now)
	if s.due(&s.tellMates) {
		s.do.TellMates = s.LacksRoom(s.c)
	}
	switch phase := s.Phase(s.c, s.now); {
	case phase == Ready:
		s.Open, s.do.Try = false, First
	case phase == Settled && !s.Open:
		s.Open, s.do.Try = true, Everybody
	case phase != Settled:
		s.Open = false
	}
}

// notice records whether the gang is blocked. If the gang has stayed blocked for Silence, notice
// sets Actions.SayWhy.
func (s *step) notice() {
	switch {
	case s.c.Blocked != "":
		s.Complete, s.Lacking = time.Time{}, false
		if s.say.IsZero() && s.c.Waiting > 0 {
			s.say = s.now.Add(Silence)
		}
	case s.Complete.IsZero():
		s.Complete, s.say = s.now, time.Time{}
	}
	if at := s.sayAt(s.c); s.due(&at) {
		s.say, s.do.SayWhy = at, s.c.Blocked != ""
	}
}

// expire drops a plan whose members have not all reached Permit in time. If a gang is not whole at
// its deadline, expire makes the caller delete the bound members, but not while Bindings are being
// written, because one of them may complete the gang. If the members' declarations contradict each
// other, expire removes the deadline instead.
func (s *step) expire() {
	if s.Doing == Reserved && !s.now.Before(s.Together) {
		s.drop("its members did not come together in time")
	}
	switch {
	case s.Whole || s.Deadline.IsZero() || s.now.Before(s.Deadline) || s.Doing == Binding || s.Doing == Ending || s.c.Members == 0:
	case s.c.Disagree: // it is not known which declaration is right
		s.Deadline = time.Time{}
	default:
		if s.Doing == Reserved {
			s.drop("the deadline has passed")
		}
		s.Doing, s.do.Delete = Ending, true
	}
}

// drop drops the plan, and delays the gang's next attempt.
func (s *step) drop(why string) {
	s.Doing, s.do.Drop = "", why
	s.backOff(s.now)
}

func (s *step) release() { s.Doing, s.do.Release = Binding, true }

func (News) happen(s *step) { s.Why = "" }

func (e Stirred) happen(s *step) { s.Stir(e.Stirs) }

func (e Placed) happen(s *step) {
	switch {
	case s.c.Settled:
		s.Whole, s.failures, s.Why, s.Deadline = true, 0, "", time.Time{}
	case !s.Whole && s.Deadline.IsZero() && !e.Since.IsZero():
		s.Deadline = e.Since.Add(e.Timeout)
	}
}

func (e Held) happen(s *step) {
	if s.NotBefore.Before(e.Until) {
		s.NotBefore = e.Until
	}
}

func (Failed) happen(s *step) { s.backOff(s.now) }

func (e Misfit) happen(s *step) {
	s.Begin(&e, s.now)
	if s.Lacking = e.Lacking; e.Lacking && s.tellMates.IsZero() && s.c.Members > 1 {
		s.tellMates = s.now.Add(Silence)
	}
}

func (e PlanMade) happen(s *step) {
	s.Doing, s.Lacking, s.Open = Reserved, false, false
	if s.Together = s.now.Add(e.Timeout); !s.Deadline.IsZero() && s.Deadline.Before(s.Together) {
		s.Together = s.Deadline
	}
}

func (e Arrived) happen(s *step) {
	if e.All {
		s.release()
	}
}

func (e Lost) happen(s *step) {
	if !e.Enough && s.Ahead.IsZero() {
		s.Ahead = s.Together
	}
	switch {
	case s.Doing == Binding && e.Before:
	case s.Doing == Binding:
		s.backOff(s.now)
	case !e.Enough:
		s.drop(e.Why)
	case e.All:
		s.release()
	}
}

func (e Withdrawn) happen(s *step) {
	if s.Doing == Reserved {
		s.drop(e.Why)
	}
}

func (e PlanDone) happen(s *step) {
	s.Doing, s.Whole = "", s.Whole || !e.Lost
}

func (e Ended) happen(s *step) {
	s.Doing, s.Deadline = "", time.Time{}
	if s.Whole = s.Whole || e.Whole; !s.Whole {
		s.backOff(s.now)
	}
}
