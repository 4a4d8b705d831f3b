package wrongclock

import (
	"testing"
	"time"
)

// TestClock: after the next reading, the clock differs by the duration in its file.
func TestClock(t *testing.T) {
	file := File(t.TempDir(), "scheduler")
	c := &Clock{file: file}
	wrongBy := func() time.Duration {
		c.read()
		return time.Until(c.Now()).Round(time.Minute)
	}
	if by := wrongBy(); by != 0 {
		t.Errorf("without a file it is wrong by %v", by)
	}
	for _, want := range []time.Duration{7 * time.Minute, -3 * time.Minute, 0} {
		if err := Set(file, want); err != nil {
			t.Fatal(err)
		}
		if by := wrongBy(); by != want {
			t.Errorf("it is wrong by %v, want %v", by, want)
		}
	}
}
