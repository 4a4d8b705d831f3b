package demand

import (
	"math/rand/v2"
	"testing"
)

// TestLevels: the level of a node is the share of all devices whose wishes it would admit, counted
// for the most frequent wishes.
func TestLevels(t *testing.T) {
	var tally Tally[string]
	if w := tally.Wishes(); w.Level(func(string) bool { return true }) != 0 {
		t.Error("nobody has devices, and there is demand")
	}
	tally.Add("any", 62)
	tally.Add("large", 31)
	tally.Add("rare", 1)
	w := tally.Wishes()
	for _, c := range []struct {
		takes string
		want  Level
	}{{"", 0}, {"rare", 1}, {"large", 10}, {"any", 20}, {"any large", 30}, {"any large rare", MostDemand}} {
		got := w.Level(func(wish string) bool {
			for i := range c.takes {
				if len(c.takes)-i >= len(wish) && c.takes[i:i+len(wish)] == wish {
					return true
				}
			}
			return false
		})
		if got != c.want {
			t.Errorf("a node that takes %q: level %d, want %d", c.takes, got, c.want)
		}
	}
	if tally.Add("any", -62); tally.all != 32 {
		t.Errorf("%d devices are left", tally.all)
	}
	w = tally.Wishes()
	if got := w.Level(func(wish string) bool { return wish != "large" }); got != 1 {
		t.Errorf("what nobody has any more: level %d", got)
	}
}

// TestMostFrequent: if there are many wishes, those with the most devices count, in whichever order
// they came.
func TestMostFrequent(t *testing.T) {
	var one, other Tally[int]
	for wish := range 3 * maxWishes {
		one.Add(wish, int64(1+wish/2))
		back := 3*maxWishes - 1 - wish
		other.Add(back, int64(1+back/2))
	}
	a, b := one.Wishes(), other.Wishes()
	if len(a.of) != maxWishes {
		t.Fatalf("%d wishes count", len(a.of))
	}
	for i := range a.of {
		if a.of[i] != b.of[i] || a.of[i] < 2*maxWishes {
			t.Fatalf("%v and %v", a.of, b.of)
		}
	}
	for wish := range a.All {
		if wish != a.of[0] {
			t.Errorf("%d comes first", wish)
		}
		break
	}
}

// TestDue: the levels are due again when as many devices have come and gone as there were.
func TestDue(t *testing.T) {
	var tally Tally[int]
	if tally.Due() {
		t.Error("nothing has happened")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	have, then, since := int64(0), int64(0), int64(0)
	for range 1000 {
		n := rng.Int64N(8) + 1
		if have >= n && rng.IntN(2) == 0 {
			n = -n
		}
		tally.Add(1, n)
		have, since = have+n, since+max(n, -n)
		if want := since >= then; tally.Due() != want {
			t.Fatalf("%d came and went since there were %d: due %t", since, then, tally.Due())
		}
		if tally.Due() {
			tally.Wishes()
			then, since = have, 0
		}
	}
}
