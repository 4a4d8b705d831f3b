package nodes

import (
	"testing"
	"time"
)

// TestPrompt: a Binding that the watch shows late, or has not shown yet, makes the feed slow. The
// feed is prompt again when no Binding was late for some time.
func TestPrompt(t *testing.T) {
	f := newFixture(t)
	f.ReportSeen(f.reportOf("n"))
	x, y, v := pinned("x", 1), pinned("y", 2), pinned("v", 4)
	steps := []struct {
		name string
		do   func()
		want bool
	}{
		{"no Binding yet", func() {}, true},
		{"a Binding under way", func() { f.Posted(x, f.table.Named("n")) }, true},
		{"shown in time", func() { f.clock.Step(soonShown / 2); f.PodSeen(on(x, "n"), false) }, true},
		{"another, overdue", func() { f.Posted(y, f.table.Named("n")); f.clock.Step(soonShown) }, false},
		{"shown late", func() { f.PodSeen(on(y, "n"), false) }, false},
		{"soon after", func() { f.clock.Step(slowFor - time.Millisecond) }, false},
		{"long after", func() { f.clock.Step(time.Millisecond) }, true},
		{"one that is refused, since its pod was written meanwhile", func() { f.Posted(v, f.table.Named("n")); f.Again(v.UID); f.clock.Step(soonShown) }, true},
		{"and again", func() { f.Again(v.UID); f.clock.Step(soonShown) }, true},
		{"and is shown at last", func() { f.PodSeen(on(v, "n"), false); f.Again(v.UID) }, true},
		{"one that was slow before it was sent again", func() { f.Posted(pinned("w", 5), f.table.Named("n")); f.clock.Step(soonShown); f.Again("uid-w") }, false},
		{"long after that", func() { f.clock.Step(slowFor) }, true},
		{"one whose outcome nobody knows", func() { f.Posted(pinned("z", 3), f.table.Named("n")); f.clock.Step(lostAfter) }, false},
		{"and never will", func() { f.clock.Step(time.Millisecond) }, true},
	}
	for _, s := range steps {
		s.do()
		if got := f.Prompt(); got != s.want {
			t.Errorf("%s: prompt %v, want %v", s.name, got, s.want)
		}
	}
}
