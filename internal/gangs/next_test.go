package gangs

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestNextGoesOn: whatever has happened to a gang, the time for which it asks is in the future. If
// a gang only waits for time to pass, it is tried soon.
func TestNextGoesOn(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 29))
		s := &stage{now: time.Unix(1e9, 0), timeout: time.Minute, waiting: 1 + random.IntN(4)}
		s.spec.Minimum = 1 + random.IntN(4)
		for range 100 {
			s.strike(random)
			if at := s.again(s.conditions(), s.now); !at.IsZero() && !at.After(s.now) {
				t.Fatalf("seed %d: %+v: looked at again %v ago", seed, s.Progress, s.now.Sub(at))
			}
		}
		s.wrong, s.stale, s.disagree, s.waiting = "", false, false, s.spec.Minimum
		s.said = nil
		for range 100 {
			if len(s.said) > 0 && s.said[len(s.said)-1] == "try the first member" {
				break
			}
			if err := s.pass("1s"); err != nil {
				t.Fatal(err)
			}
			s.settle()
			s.on(Looked{})
		}
		if state := s.Phase(s.conditions(), s.now); state != Ready && state != Settled {
			t.Fatalf("seed %d: %s, and stays so: %+v", seed, state, s.Progress)
		}
	}
}

// strike applies a random event that is possible for the gang.
func (s *stage) strike(random *rand.Rand) {
	state := s.Phase(s.conditions(), s.now)
	s.now = s.now.Add(time.Duration(random.IntN(4000)) * time.Millisecond)
	may := map[Phase][]Event{
		Ready:    {Misfit{Why: "no room", Tried: s.stirs, Stirs: s.stirs + random.Uint64N(2), Lacking: random.IntN(2) > 0}, Failed{}, PlanMade{Timeout: s.timeout}},
		Reserved: {Arrived{}, Arrived{All: true}, Lost{Why: "gone"}, Lost{Enough: true}, Lost{Enough: true, All: true}, Withdrawn{Why: "gone"}},
		Binding:  {Lost{}, Lost{Before: true}, PlanDone{Lost: true}, Placed{Since: s.now, Timeout: s.timeout}},
		Ending:   {Ended{}, Ended{Whole: random.IntN(9) == 0}},
		Parked:   {Stirred{Stirs: s.stirs + 1}, News{}},
	}
	if list := may[state]; len(list) > 0 && random.IntN(3) > 0 {
		s.on(list[random.IntN(len(list))])
	} else {
		s.waiting, s.done = random.IntN(5), random.IntN(3)
		s.stale, s.disagree, s.stuck = random.IntN(9) == 0, random.IntN(9) == 0, random.IntN(3) == 0
		if s.wrong = ""; random.IntN(9) == 0 {
			s.wrong = "its object is not there"
		}
		s.on(News{})
	}
	s.on(Looked{})
}

// settle ends what depends on others.
func (s *stage) settle() {
	switch s.Doing {
	case Reserved, Binding:
		s.on(PlanDone{Lost: true})
	case Ending:
		s.on(Ended{})
	}
}
