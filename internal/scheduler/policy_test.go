package scheduler

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

func TestPodPolicy(t *testing.T) {
	for name, c := range map[string]struct {
		asked  wire.PodPolicy
		policy string
		scope  string
		misses bool
	}{
		"nothing asked":          {wire.PodPolicy{}, "none", "", false},
		"the same":               {wire.PodPolicy{Policy: "restricted"}, "restricted", "", false},
		"stricter node":          {wire.PodPolicy{Policy: "best-effort"}, "single-numa-node", "pod", false},
		"laxer node":             {wire.PodPolicy{Policy: "single-numa-node"}, "restricted", "", true},
		"node with the default":  {wire.PodPolicy{Policy: "best-effort"}, "", "", true},
		"none on any node":       {wire.PodPolicy{Policy: "none"}, "", "", false},
		"default scope is asked": {wire.PodPolicy{Policy: "restricted", Scope: "container"}, "restricted", "", false},
		"another scope":          {wire.PodPolicy{Policy: "restricted", Scope: "pod"}, "restricted", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			config := placement.Config{TopologyManagerPolicy: c.policy, TopologyManagerScope: c.scope}
			n := &node{kind: &nodestate.Kind{Spec: wire.NodeSpec{Config: config}}}
			why := n.misses(&c.asked)
			if (why != "") != c.misses {
				t.Fatalf("misses %q, want one: %t", why, c.misses)
			}
			if c.misses && !strings.Contains(why, c.asked.String()) {
				t.Errorf("%q does not say what was asked", why)
			}
		})
	}
}
