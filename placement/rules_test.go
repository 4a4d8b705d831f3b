package placement_test

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
)

var (
	allPolicies = []placement.Policy{placement.PolicyNone, placement.PolicyBestEffort, placement.PolicyRestricted, placement.PolicySingleNUMANode}
	allScopes   = []placement.Scope{placement.ContainerScope, placement.PodScope}
)

// TestRulesOfANodeThatObeys: the node determines the rules that a pod leaves open.
func TestRulesOfANodeThatObeys(t *testing.T) {
	s := state(t, m2.view(), placement.Config{ReservedMilliCPU: 1000, TopologyManagerPolicy: "restricted", TopologyManagerScope: "pod",
		Authority: placement.AuthorityBerth})
	half := pod2()
	half.Containers[0].MilliCPU, half.Containers[0].Devices = 100_000, nil
	for uid := range strings.SplitSeq("a b", " ") { // a part of each NUMA node
		half.UID, half.Rules = uid, placement.Rules{Policy: placement.PolicySingleNUMANode}
		var d placement.Decision
		if v := placement.Decide(s, &half, &d); !v.OK() {
			t.Fatal(v)
		}
		s.Commit(&half, &d)
	}
	wide := pod2()
	wide.UID, wide.Containers[0].MilliCPU, wide.Containers[0].Devices = "wide", 40_000, nil // fits one, on an empty machine
	for _, test := range []struct {
		rules         placement.Rules
		policy, scope string
		admitted      bool
	}{
		{placement.Rules{}, "restricted", "pod", false},
		{placement.Rules{Scope: placement.ContainerScope}, "restricted", "container", false},
		{placement.Rules{Policy: placement.PolicyBestEffort}, "best-effort", "pod", true},
		{placement.Rules{Policy: placement.PolicyNone}, "none", "", true},
	} {
		wide.Rules = test.rules
		e := placement.Explain(s, &wide)
		if e.Policy != test.policy || e.Scope != test.scope || (e.Reason == placement.Admitted) != test.admitted {
			t.Errorf("%+v: got %s, scope %q: %s", test.rules, e.Policy, e.Scope, e)
		}
	}
	wide.Rules = placement.Rules{Policy: 200}
	if v := placement.Admit(s, &wide); v.Detail != placement.BadRequest {
		t.Errorf("policy 200: %+v", v)
	}
}

// TestRulesOfAKubelet: a kubelet uses its own configuration, whatever rules a pod has.
func TestRulesOfAKubelet(t *testing.T) {
	for seed := range uint64(200) {
		w := newWorld(t, seed, true)
		if w == nil {
			continue
		}
		for range 4 {
			w.step()
		}
		req := w.request()
		want := placement.Admit(w.state, &req)
		req.Rules = placement.Rules{Policy: pick(w.r, allPolicies...), Scope: pick(w.r, allScopes...)}
		if got := placement.Admit(w.state, &req); got != want {
			t.Fatalf("seed %d: %+v with %+v, %+v without", seed, got, req.Rules, want)
		}
	}
}

// TestKeeps: if the kubelet decides, its policy must be as strict as the pod's or stricter, and its
// scope must be the same.
func TestKeeps(t *testing.T) {
	for name, test := range map[string]struct {
		rules placement.Rules
		want  bool
	}{
		"nothing asked":      {placement.Rules{}, true},
		"the same":           {placement.Rules{Policy: placement.PolicyRestricted}, true},
		"weaker":             {placement.Rules{Policy: placement.PolicyBestEffort}, true},
		"stricter":           {placement.Rules{Policy: placement.PolicySingleNUMANode}, false},
		"exactly":            {placement.Rules{Policy: placement.PolicyRestricted, Match: placement.Exactly}, true},
		"exactly the weaker": {placement.Rules{Policy: placement.PolicyBestEffort, Match: placement.Exactly}, false},
		"whatever":           {placement.Rules{Policy: placement.PolicySingleNUMANode, Match: placement.Whatever}, true},
		"own CPUs":           {placement.Rules{OwnCPUs: true}, true},
		"an unknown match":   {placement.Rules{Match: 200}, false},
		"exactly nothing":    {placement.Rules{Match: placement.Exactly}, true},
		"its scope":          {placement.Rules{Policy: placement.PolicyRestricted, Scope: placement.PodScope}, true},
		"another scope":      {placement.Rules{Policy: placement.PolicyRestricted, Scope: placement.ContainerScope}, false},
		"an unknown policy":  {placement.Rules{Policy: 200}, false},
	} {
		cfg := m2.config("restricted")
		cfg.TopologyManagerScope = "pod"
		m := made.ModelOf(t, m2.view(), cfg)
		if got := m.Keeps(test.rules); got != test.want {
			t.Errorf("%s: the node keeps %+v: %v", name, test.rules, got)
		}
	}
}

// TestKeepsOwnCPUs: a kubelet with the CPU manager policy none has no exclusive CPUs, whatever its
// Topology Manager policy is. If Berth decides, the CPU manager policy does not matter.
func TestKeepsOwnCPUs(t *testing.T) {
	for authority, want := range map[placement.Authority]bool{placement.AuthorityKubelet: false, placement.AuthorityBerth: true} {
		cfg := placement.Config{TopologyManagerPolicy: "restricted", ReservedMilliCPU: 1000, Authority: authority}
		m := made.ModelOf(t, m2.view(), cfg)
		if got := m.Keeps(placement.Rules{OwnCPUs: true}); got != want {
			t.Errorf("authority %v: %v", authority, got)
		}
		if !m.Keeps(placement.Rules{}) {
			t.Errorf("authority %v: nothing asked and refused", authority)
		}
	}
}
