package suppose

import "testing"

// TestField: a node is added when it is first changed, and a copy changes independently.
func TestField(t *testing.T) {
	n, pods := node(t, "a", "b")
	f := Field[string]{Bare: func(string) Node { return n }}
	if f.Known("x") != nil {
		t.Error("somebody has joined a field by being asked for")
	}
	f.At("x").Take(pods[0])
	second := f.Clone()
	second.At("x").Take(pods[1])
	second.At("y").Put(asking("c", 1))
	switch {
	case f.At("x") != f.Known("x") || !f.Known("x").Without("a") || f.Known("x").Without("b") || f.Known("y") != nil:
		t.Error("the field is not as it was left")
	case !second.Known("x").Without("a") || !second.Known("x").Without("b") || !second.Known("y").Came():
		t.Error("the copy has not what was supposed on it")
	case n.Changed():
		t.Error("the bare node has changed")
	}
}
