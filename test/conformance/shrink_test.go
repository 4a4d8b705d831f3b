package conformance

import (
	"testing"

	"github.com/berth-dev/berth/test/conformance/gen"
	"github.com/berth-dev/berth/test/replay/cases"
)

// TestShrink shrinks a case with a fault that needs one pod with two CPUs. Little else may remain.
func TestShrink(t *testing.T) {
	bad := func(c *cases.Case) bool {
		for i := range c.Events {
			for _, k := range eventContainers(c, i) {
				if q := k.Resources.Limits.Cpu(); q.Value() >= 2 {
					return true
				}
			}
		}
		return false
	}
	for seed := range uint64(20) {
		c := gen.Case(seed)
		if !bad(c) {
			continue
		}
		before, _ := cases.Encode(c)
		small := Shrink(c, 5000, bad)
		if after, _ := cases.Encode(c); string(after) != string(before) {
			t.Fatal("the original was changed")
		}
		if !bad(small) || len(small.Events) != 1 || len(small.Devices) != 0 || len(small.Machine.Nodes) != 1 ||
			len(small.Config.CPUManagerPolicyOptions) != 0 || len(eventContainers(small, 0)) > 2 {
			line, _ := cases.Encode(small)
			t.Errorf("seed %d: %s", seed, line)
		}
	}
}
