package vm

import "testing"

// TestCounterRate: two measurements agree, and are plausible rates.
func TestCounterRate(t *testing.T) {
	if counter() == 0 {
		t.Skip("no time stamp counter for a guest")
	}
	one, other := counterRate(), counterRate()
	if d := one - other; one < 100e3 || one > 10e6 || d > one/1000 || -d > one/1000 {
		t.Errorf("%d and %d kHz", one, other)
	}
}
