package places

import (
	"testing"
	"time"
)

func TestMean(t *testing.T) {
	var m Mean
	m.Set(2, 10*time.Second)
	m.Set(1, 15*time.Second)
	m.Set(0, 30*time.Second)
	if got := m.Over(100 * time.Second); got != 0.25 {
		t.Errorf("2 for 5 s and 1 for 15 s of 100 s: %v, want 0.25", got)
	}
	m.Set(3, 90*time.Second)
	if got := m.Over(100 * time.Second); got != 0.55 {
		t.Errorf("and 3 for the last 10 s: %v, want 0.55", got)
	}
}
