package shapes

import (
	"testing"

	"github.com/berth-dev/berth/topology"
)

func TestShapesAreMachines(t *testing.T) {
	for name, text := range All() {
		m, err := topology.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if back, err := topology.Parse(m.String()); err != nil || !back.Equal(m) {
			t.Errorf("%s does not come back: %v\n%s", name, err, m)
		}
	}
}

func TestMachine(t *testing.T) {
	m := Machine(EPYCNPS4)
	if got := [...]int{m.Online.Len(), len(m.Packages), len(m.NUMANodes), len(m.L3s), len(m.Cores)}; got != [...]int{256, 2, 8, 16, 128} {
		t.Errorf("CPUs, packages, nodes, L3s and cores: %v", got)
	}
	if got := m.NUMANodes[1].CPUs.String(); got != "16-31,144-159" {
		t.Errorf("CPUs of node 1: %s", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	Machine("nonsense")
}
