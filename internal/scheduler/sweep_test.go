package scheduler

import "testing"

// TestSweep forgets a node that has been idle from one sweep to the next and is no Node any more,
// and nothing else. A new node takes its number and believes none of its words.
func TestSweep(t *testing.T) {
	f := newFixture(t)
	f.feed.topologySeen(f.topology()) // n has a report
	bound := pinned("bound", 2)
	bound.Spec.NodeName = "held"
	f.feed.podSeen(bound, false)
	gone, kept := f.nodes.get("gone"), f.nodes.get("kept")
	gone.Bump()
	exists := func(name string) bool { return name == "kept" }
	found := f.nodes.sweep(nil, exists)
	if !found[gone] || len(found) != 1 {
		t.Fatalf("the first sweep finds %d nodes, want one", len(found))
	}
	if f.nodes.get("gone") != gone {
		t.Fatal("the first sweep forgets a node")
	}
	f.nodes.sweep(found, exists)
	names := map[string]*node{}
	for n := range f.nodes.all {
		names[n.name] = n
	}
	if len(names) != 3 || names["n"] == nil || names["held"] == nil || names["kept"] != kept {
		t.Fatalf("left are %v, want n, held and kept", names)
	}
	fresh := f.nodes.get("fresh")
	if fresh.number != gone.number || fresh.Count() <= gone.Count() {
		t.Errorf("fresh has number %d at beat %d, want number %d and a beat after %d", fresh.number, fresh.Count(), gone.number, gone.Count())
	}
	if again := f.nodes.get("gone"); again == gone || again.number == fresh.number {
		t.Error("a node that comes again is the old one")
	}
}

// TestSweepKeepsANodeThatComesBack at that very moment: its report comes once.
func TestSweepKeepsANodeThatComesBack(t *testing.T) {
	f := newFixture(t)
	f.nodes.get("n")
	found := f.nodes.sweep(nil, func(string) bool { return false })
	f.nodes.sweep(found, func(string) bool {
		f.feed.topologySeen(f.topology())
		return false
	})
	if why := f.refusal("n"); why != "" {
		t.Errorf("its report is lost: %s", why)
	}
}
