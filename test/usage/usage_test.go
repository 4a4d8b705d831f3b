package usage

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/child"
)

func TestUsage(t *testing.T) {
	p, err := child.Start(child.Spec{
		Name: "c", Argv: []string{"/bin/sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo; cat"}, Log: filepath.Join(t.TempDir(), "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	for CPU(p) == 0 && p.Ended() == nil {
		time.Sleep(time.Millisecond)
	}
	if CPU(p) <= 0 || Memory(p, "VmRSS") <= 0 || Memory(p, "VmHWM") < Memory(p, "VmRSS") {
		t.Errorf("CPU %v, memory %d of at most %d", CPU(p), Memory(p, "VmRSS"), Memory(p, "VmHWM"))
	}
	p.Kill()
	if CPU(p) != 0 || Memory(p, "VmRSS") != 0 {
		t.Errorf("after its end: CPU %v, memory %d", CPU(p), Memory(p, "VmRSS"))
	}
}
