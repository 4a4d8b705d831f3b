package gangs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/golden"
)

// TestStories plays testdata/*.txt: events of a gang, its state after them, and the scheduler's
// actions. testdata/README.md explains the syntax.
func TestStories(t *testing.T) {
	golden.Stories(t, func(*testing.T) golden.Stage {
		begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		return &stage{now: begin, begin: begin, spec: wire.Gang{Minimum: 1}, timeout: time.Minute}
	})
}

// stage has one gang, and counts its pods.
type stage struct {
	Progress
	begin, now    time.Time
	spec          wire.Gang
	timeout       time.Duration
	waiting, done int
	wrong         string
	disagree      bool
	stale, stuck  bool
	stirs         uint64
	said          []string
}

func (s *stage) conditions() *Conditions {
	waiting, done := Count{All: s.waiting}, Count{All: s.done}
	c := Conditions{Members: s.waiting + s.done, Waiting: s.waiting, Blocked: s.wrong, Stale: s.stale, Disagree: s.disagree}
	c.Settled = s.wrong == "" && (s.spec.Once && s.Whole || Lacks(&s.spec, &done) == "")
	if lack := Lacks(&s.spec, &waiting, &done); c.Blocked == "" && lack != "" && !c.Settled {
		c.Blocked = lack
	}
	c.Stuck = s.stuck && c.Blocked != ""
	return &c
}

// on handles an event, and notes the actions.
func (s *stage) on(e Event) {
	var do Actions
	s.Progress, do = Next(s.Progress, s.conditions(), e, s.now)
	note := func(is bool, what string) {
		if is {
			s.said = append(s.said, what)
		}
	}
	note(do.Drop != "", "drop the plan: "+do.Drop)
	note(do.Release, "let the plan's members be bound")
	note(do.Delete, "delete the bound members")
	note(do.SayWhy, "say why it is not tried")
	note(do.TellMates, "tell each member that there is no room")
	note(do.Try == First, "try the first member")
	note(do.Try == Everybody, "try every member by itself")
}

// Tell returns the actions, and the gang's state.
func (s *stage) Tell() string {
	state, c := s.Phase(s.conditions(), s.now), s.conditions()
	line := string(state)
	switch state {
	case Incomplete:
		line += ": " + c.Blocked
	case Parked:
		line += ": " + s.Why
	}
	if s.Whole {
		line += ", was whole"
	}
	if at := s.again(c, s.now); !at.IsZero() {
		line += ", looked at again after " + at.Sub(s.begin).String()
	}
	out := strings.Join(append(s.said, line), "\n") + "\n"
	s.said = nil
	return out
}

// Do performs one step of the story.
func (s *stage) Do(word string, args []string) error {
	facts := map[string]string{}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		facts[key] = value
	}
	number := func(key string, old int) int {
		n, err := strconv.Atoi(facts[key])
		if err != nil {
			return old
		}
		return n
	}
	has := func(key string) bool { _, ok := facts[key]; return ok }
	switch word {
	case "gang":
		s.spec.Minimum, s.spec.Once = number("minimum", 1), has("once")
	case "pods":
		s.waiting, s.done, s.stuck = number("waiting", s.waiting), number("done", s.done), has("stuck")
		s.on(News{})
	case "object":
		s.wrong, s.stale, s.disagree = strings.ReplaceAll(facts["wrong"], "_", " "), has("stale"), has("disagree")
		s.on(News{})
	case "pass":
		return s.pass(args[0])
	case "stir":
		s.stirs++
		s.on(Stirred{Stirs: s.stirs})
	case "planned":
		s.on(PlanMade{Timeout: s.timeout})
		return nil
	default:
		return s.happen(word, has, number)
	}
	s.on(Looked{})
	return nil
}

// happen applies an event to an attempt or a plan.
func (s *stage) happen(word string, has func(string) bool, number func(string, int) int) error {
	switch word {
	case "misfit":
		tried := s.stirs
		if has("stirred") {
			s.stirs++
		}
		s.on(Misfit{Why: "no room", Tried: tried, Stirs: s.stirs, Pause: ShortestPause, Lacking: !has("evicts")})
	case "failed":
		s.on(Failed{})
	case "arrived":
		s.on(Arrived{All: has("all")})
		return nil
	case "lost":
		s.on(Lost{Why: "a member has failed", Enough: has("enough"), All: has("all")})
	case "withdrawn":
		s.on(Withdrawn{Why: "its object is gone"})
	case "bound":
		n := number("pods", 1)
		s.waiting, s.done = s.waiting-n, s.done+n
		s.on(Placed{Since: s.now, Timeout: s.timeout})
	case "over":
		s.on(PlanDone{Lost: has("lost")})
	case "ended":
		s.on(Ended{Whole: has("whole")})
	default:
		return errors.New("no such word")
	}
	s.on(Looked{})
	return nil
}

// pass lets time pass, and checks the gang at every time for which it has asked.
func (s *stage) pass(arg string) error {
	d, err := time.ParseDuration(arg)
	for until := s.now.Add(d); err == nil; {
		at := s.again(s.conditions(), s.now)
		if at.IsZero() || at.After(until) {
			s.now = until
			return nil
		}
		s.now = at
		before := len(s.said)
		s.on(Looked{})
		for i := range s.said[before:] {
			s.said[before+i] = fmt.Sprintf("after %v: %s", s.now.Sub(s.begin), s.said[before+i])
		}
	}
	return err
}
