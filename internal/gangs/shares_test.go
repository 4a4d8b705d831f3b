package gangs

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestSharesOfTenants simulates a scheduler that tries every gang as soon as it may, and pods that
// fit in between. Whatever an attempt costs, and however many gangs a tenant has, failed attempts
// take a tenth of the time, and no tenant uses the share of another.
func TestSharesOfTenants(t *testing.T) {
	for _, c := range []struct {
		tenants, gangs int
		cost           time.Duration
	}{
		{1, 1, 250 * time.Millisecond}, {10, 1, 250 * time.Millisecond}, {10, 20, 250 * time.Millisecond},
		{10, 3, 5 * time.Second}, {2, 100, 20 * time.Second}, {10, 10, 5 * time.Millisecond},
	} {
		friendly := c.cost / 20
		var s Shares
		begun := time.Unix(1e9, 0)
		now, rng := begun, rand.New(rand.NewPCG(7, uint64(c.cost)))
		length := 20 * Rarely * c.cost * time.Duration(c.tenants)
		spent, pods := map[string]time.Duration{}, 0
		// No attempt has failed before, and each namespace has its credit.
		first := time.Duration(c.tenants) * (c.cost + Credit/Rarely)
		for now.Sub(begun) < length {
			tried := false
			for _, n := range rng.Perm(c.tenants * c.gangs) { // a change wakes all of them
				ns := fmt.Sprint("tenant-", n%c.tenants)
				if now.Before(s.Until(ns)) {
					continue
				}
				cost := c.cost/2 + time.Duration(rng.Int64N(int64(c.cost)))
				now = now.Add(cost)
				s.Spend(ns, cost, now)
				spent[ns], tried = spent[ns]+cost, true
				break
			}
			if !tried || rng.IntN(2) == 0 {
				now, pods = now.Add(friendly), pods+1
			}
		}
		all := time.Duration(0)
		for _, took := range spent {
			all += took
		}
		if most := now.Sub(begun)/Rarely + 2*first; all > most {
			t.Errorf("%+v: attempts took %v of %v, want %v at most", c, all, now.Sub(begun), most)
		}
		if least := now.Sub(begun) / (4 * Rarely); all < least {
			t.Errorf("%+v: attempts took %v of %v: gangs hardly ever get a turn", c, all, now.Sub(begun))
		}
		for ns, took := range spent {
			if most := 2*now.Sub(begun)/Rarely/time.Duration(c.tenants) + 2*c.cost + Credit/Rarely; took > most {
				t.Errorf("%+v: %s took %v of %v, want %v at most", c, ns, took, now.Sub(begun), most)
			}
		}
		if got := time.Duration(pods) * friendly; got < now.Sub(begun)*8/10-2*first {
			t.Errorf("%+v: friendly pods got %v of %v", c, got, now.Sub(begun))
		}
	}
}

// TestSharesGiveCredit: the first short attempts do not pause a namespace, later attempts do, and
// the pause of all attempts together is the same as without credit.
func TestSharesGiveCredit(t *testing.T) {
	var s Shares
	now := time.Unix(1e9, 0)
	for i := range 4 {
		if until := s.Spend("friends", Credit/Rarely/4, now); until.After(now) {
			t.Errorf("attempt %d within the credit pauses the namespace until %v", i, until.Sub(now))
		}
	}
	if got, want := s.Spend("friends", 50*time.Millisecond, now), now.Add(50*time.Millisecond*Rarely); !got.Equal(want) {
		t.Errorf("an attempt beyond the credit pauses the namespace for %v, want %v", got.Sub(now), want.Sub(now))
	}
	if got := s.Until("others"); !got.IsZero() {
		t.Errorf("a namespace without attempts waits until %v", got)
	}
}

// TestSharesAreForgotten: data of a namespace is kept as long as its gangs pause.
func TestSharesAreForgotten(t *testing.T) {
	var s Shares
	now := time.Unix(1e9, 0)
	for i := range 100 {
		s.Spend(fmt.Sprint(i), time.Millisecond, now)
		now = now.Add(time.Second)
	}
	if len(s.until) > 1 {
		t.Errorf("%d namespaces are remembered", len(s.until))
	}
	s.Spend("paused", time.Minute, now)
	if s.Forget(now, func(string) bool { return false }); len(s.until) != 1 {
		t.Errorf("%v are remembered: want the paused namespace", s.until)
	}
	if s.Forget(now, func(namespace string) bool { return namespace == "paused" }); len(s.until) > 0 {
		t.Error("a namespace is remembered that is gone")
	}
}
