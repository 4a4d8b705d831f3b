package usage

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/child"
)

func TestUsage(t *testing.T) {
	p, err := child.Start(child.Spec{
		Name: "c", Argv: []string{"/bin/sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo; cat; :"}, Log: filepath.Join(t.TempDir(), "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	for CPU(p) == 0 && p.Ended() == nil {
		time.Sleep(time.Millisecond)
	}
	now := Memory(p, "VmRSS")
	if most := Memory(p, "VmHWM"); CPU(p) <= 0 || now <= 0 || most < now {
		t.Errorf("CPU %v, memory %d of at most %d", CPU(p), now, most)
	}
	p.Kill()
	if CPU(p) != 0 || Memory(p, "VmRSS") != 0 {
		t.Errorf("after its end: CPU %v, memory %d", CPU(p), Memory(p, "VmRSS"))
	}
}
