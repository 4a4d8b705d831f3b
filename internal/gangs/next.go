package gangs

import "time"

// Event is something that happens to a gang: a Misfit, or one of the types below.
type Event interface{ happen(s *step) }

// The events.
type (
	// Looked: time has passed, or conditions have changed.
	Looked struct{}
	// News: a member has come, left or ended, or the object has changed.
	News struct{}
	// Stirred: the cluster has changed so often by now, in a way that could help.
	Stirred struct{ Stirs uint64 }
	// Placed: a member has its node. Since is when the process that leads first saw one of them
	// bound; zero if it saw none, or if the minimum is not known. Timeout is how long members wait
	// for each other.
	Placed struct {
		Since   time.Time
		Timeout time.Duration
	}
	// Held: it is not tried before a moment, though nothing is wrong with it.
	Held struct{ Until time.Time }
	// Failed: the attempt failed for another reason than that the gang does not fit.
	Failed struct{}
	// PlanMade: a plan was reserved whole. Timeout is as in Placed.
	PlanMade struct{ Timeout time.Duration }
	// Arrived: a member of the plan has come to Permit. All: it was the last one.
	Arrived struct{ All bool }
	// Lost: a member of the plan has failed or left. Enough: the members left in the plan reach
	// the minimum. All: each of these has come to Permit. Before: one has been lost since it was
	// released. A plan fails once: often a node refuses all members that it was to have.
	Lost struct {
		Why                 string
		Enough, All, Before bool
	}
	// Withdrawn: the plan cannot be what is asked for, unless it is being bound.
	Withdrawn struct{ Why string }
	// PlanDone: nobody is left in the plan. Lost: a member of it has failed since it was released.
	PlanDone struct{ Lost bool }
	// Ended: the bound members were deleted, unless the API server said that the gang is Whole.
	Ended struct{ Whole bool }
)

// Actions are what the caller must do.
type Actions struct {
	// Try is who may be tried now.
	Try Who
	// Release: let the members of the plan pass Permit.
	Release bool
	// Drop is why the plan is dropped; "" if it is not.
	Drop string
	// Delete: begin to delete the bound members; an Ended follows.
	Delete bool
	// SayWhy: tell people what keeps the gang from being tried.
	SayWhy bool
	// TellMates: tell each member that the gang does not fit.
	TellMates bool
	// Again is when a Looked is due, if nothing happens before; zero: never.
	Again time.Time
}

// Who selects some of the members that want a node.
type Who int

// Some of the members.
const (
	Nobody Who = iota
	First
	Everybody
)

// Next returns a gang's progress after an event, under the conditions after it, and what to do. It
// has no side effects: now is only compared and stored.
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

// due reports whether a moment has come, and forgets it then.
func (s *step) due(at *time.Time) bool {
	if at.IsZero() || s.now.Before(*at) {
		return false
	}
	*at = time.Time{}
	return true
}

// Silence is how long a gang may be held before people are told why: its pods come one after
// another, and its object may come after them.
const Silence = 10 * time.Second

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

// notice notes whether the gang could be tried. People are told why not, once that has lasted.
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
	if s.due(&s.say) {
		s.do.SayWhy = s.c.Blocked != ""
	}
}

// expire drops a plan whose members did not come together in time, and ends a gang that is not
// whole at its deadline. Bindings that are being written are awaited: one of them may be the last
// that was missing.
func (s *step) expire() {
	if s.Doing == Reserved && !s.now.Before(s.Together) {
		s.drop("its members did not come together in time")
	}
	switch {
	case s.Whole || s.Deadline.IsZero() || s.now.Before(s.Deadline) || s.Doing == Binding || s.Doing == Ending || s.c.Members == 0:
	case s.c.Disagree: // which of them are right nobody knows
		s.Deadline = time.Time{}
	default:
		if s.Doing == Reserved {
			s.drop("the deadline has passed")
		}
		s.Doing, s.do.Delete = Ending, true
	}
}

// drop drops the plan, and backs the gang off.
func (s *step) drop(why string) {
	s.Doing, s.do.Drop = "", why
	s.backOff(s.now)
}

// release lets the plan be bound.
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
