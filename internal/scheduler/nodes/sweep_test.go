package nodes

import "testing"

// TestSweep removes a node that has been idle since the last sweep and has no Node any more, and
// nothing else. A new node gets its number, but not its cached answers.
func TestSweep(t *testing.T) {
	f := newFixture(t)
	f.ReportSeen(f.reportOf("n")) // n has a report
	bound := pinned("bound", 2)
	bound.Spec.NodeName = "held"
	f.PodSeen(bound, false)
	gone, kept := f.table.Named("gone"), f.table.Named("kept")
	gone.hot.changes.Bump()
	exists := func(name string) bool { return name == "kept" }
	found := f.table.sweep(nil, exists)
	if !found[gone] || !found[kept] || len(found) != 2 {
		t.Fatalf("the first sweep finds %d idle nodes, want two", len(found))
	}
	if f.table.Named("gone") != gone {
		t.Fatal("the first sweep forgets a node")
	}
	f.table.sweep(found, exists)
	names := map[string]*Node{}
	for n := range f.table.All {
		names[n.name] = n
	}
	if len(names) != 3 || names["n"] == nil || names["held"] == nil || names["kept"] != kept {
		t.Fatalf("left are %v, want n, held and kept", names)
	}
	fresh := f.table.Named("fresh")
	if fresh.hot.number != gone.hot.number || fresh.hot.changes.Count() <= gone.hot.changes.Count() {
		t.Errorf("fresh has number %d at count %d, want number %d and a count after %d", fresh.hot.number, fresh.hot.changes.Count(), gone.hot.number, gone.hot.changes.Count())
	}
	if again := f.table.Named("gone"); again == gone || again.hot.number == fresh.hot.number {
		t.Error("a node that comes again is the old one")
	}
}

// TestSweepKeepsANodeThatComesBack during the sweep. Its report comes only once.
func TestSweepKeepsANodeThatComesBack(t *testing.T) {
	f := newFixture(t)
	f.table.Named("n")
	found := f.table.sweep(nil, func(string) bool { return false })
	f.table.sweep(found, func(string) bool {
		f.ReportSeen(f.reportOf("n"))
		return false
	})
	if why := f.table.Unusable(f.table.Named("n")); why != nil {
		t.Errorf("its report is lost: %s", why.Text)
	}
}
