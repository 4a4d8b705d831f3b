package lead

import "testing"

func TestAGateOpensOnce(t *testing.T) {
	var g Gate
	early, late := 0, 0
	g.Then(func() {
		early++
		if !g.Leads() {
			t.Error("the gate is closed for those who wait for it to open")
		}
	})
	if g.Leads() || early > 0 {
		t.Fatal("the gate is open before anybody has opened it")
	}
	g.Open()
	g.Then(func() { late++ })
	g.Open()
	if !g.Leads() || early != 1 || late != 1 {
		t.Errorf("leads %t, called %d and %d times: want true, and each once", g.Leads(), early, late)
	}
}
