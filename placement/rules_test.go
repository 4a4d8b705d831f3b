package placement_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/berth-dev/berth/placement"
)

var (
	allPolicies = []placement.Policy{placement.PolicyNone, placement.PolicyBestEffort, placement.PolicyRestricted, placement.PolicySingleNUMANode}
	allScopes   = []placement.Scope{placement.ContainerScope, placement.PodScope}
)

// obeys makes a world whose node leaves policy and scope to the pods.
func obeys(t *testing.T, seed uint64) *world {
	w := newWorld(t, seed, true)
	if w == nil {
		return nil
	}
	w.cfg.Authority = placement.AuthorityBerth
	if seed%2 == 0 {
		w.cfg.TopologyManagerPolicyOptions = map[string]string{"prefer-closest-numa-nodes": "true"}
	}
	var err error
	if w.model, err = placement.NewModel(w.view, w.cfg); err != nil {
		return nil
	}
	pools := w.state.Snapshot().Devices
	w.state = w.model.NewState()
	for _, p := range pools {
		w.state.SetPool(p)
	}
	return w
}

// fixed compiles the same kubelet for one policy and scope, with the state of w; nil if it would
// not start.
func (w *world) fixed(t *testing.T, p placement.Policy, s placement.Scope) *placement.State {
	t.Helper()
	cfg := w.cfg
	cfg.Authority, cfg.TopologyManagerPolicy, cfg.TopologyManagerScope = placement.AuthorityKubelet, p.String(), s.String()
	m, err := placement.NewModel(w.view, cfg)
	if err != nil {
		return nil
	}
	snap := w.state.Snapshot()
	state, err := m.StateOf(&snap)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// TestRulesLikeModels: where pods' rules decide, one State answers under every policy and scope as
// a Model compiled for them does, and a Model that does not compile for them stands for a policy
// that the node cannot apply.
func TestRulesLikeModels(t *testing.T) {
	var agreed, differing, unsupported int
	for seed := range uint64(500) {
		w := obeys(t, seed)
		if w == nil {
			continue
		}
		for range 5 {
			step := w.request()
			step.Rules = placement.Rules{Policy: pick(w.r, allPolicies...), Scope: pick(w.r, allScopes...)}
			req, verdicts := w.request(), map[placement.Verdict]bool{}
			for _, policy := range allPolicies {
				for _, scope := range allScopes {
					req.Rules = placement.Rules{Policy: policy, Scope: scope}
					state := w.fixed(t, policy, scope)
					if w.model.Keeps(req.Rules) != (state != nil) {
						t.Fatalf("seed %d: the node keeps %+v: %v, a model of it compiles: %v", seed, req.Rules, state == nil, state != nil)
					}
					if state == nil {
						unsupported++
						if v := placement.Admit(w.state, &req); v.Detail != placement.PolicyUnsupported {
							t.Fatalf("seed %d: %+v for %+v", seed, v, req.Rules)
						}
						continue
					}
					verdicts[sameAnswer(t, w.state, state, &req)] = true
					agreed++
				}
			}
			if len(verdicts) > 1 {
				differing++
			}
			w.take(&step)
		}
	}
	if agreed < 5000 || differing < 200 || unsupported < 50 {
		t.Errorf("%d answers agreed, %d requests were answered in several ways, %d policies were unsupported: want more", agreed, differing, unsupported)
	}
}

// sameAnswer fails the test unless both states say the same of a request.
func sameAnswer(t *testing.T, a, b *placement.State, r *placement.Request) placement.Verdict {
	t.Helper()
	var da, db placement.Decision
	va, vb := placement.Decide(a, r, &da), placement.Decide(b, r, &db)
	if va != vb || !sameDecision(&da, &db) {
		t.Fatalf("%+v: got %+v %+v, want %+v %+v", r, va, da, vb, db)
	}
	if ea, eb := placement.Explain(a, r), placement.Explain(b, r); !reflect.DeepEqual(ea, eb) {
		t.Fatalf("%+v: got %+v, want %+v", r, ea, eb)
	}
	return va
}

// take lets the kubelet admit or refuse a pod.
func (w *world) take(r *placement.Request) {
	var d placement.Decision
	if v := placement.Decide(w.state, r, &d); v.OK() {
		w.state.Commit(r, &d)
	}
}

// TestRulesOfANodeThatObeys: what a pod leaves open is the node's to say.
func TestRulesOfANodeThatObeys(t *testing.T) {
	cfg := m2.config("restricted")
	cfg.TopologyManagerScope, cfg.Authority = "pod", placement.AuthorityBerth
	s := state(t, m2.view(), cfg)
	wide := pod2()
	wide.Containers[0].MilliCPU = 200_000 // more than a NUMA node has
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

// TestRulesOfAKubelet: a kubelet goes by its own configuration, whatever a pod asks for.
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

// TestKeeps: where the kubelet decides, its policy must be the same or a stricter one, and its
// scope the same.
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
		m, err := placement.NewModel(m2.view(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Keeps(test.rules); got != test.want {
			t.Errorf("%s: the node keeps %+v: %v", name, test.rules, got)
		}
	}
}

// TestKeepsOwnCPUs: a kubelet whose CPU manager is none has no CPUs for a container alone, whatever
// its policy; where Berth decides, that manager does not matter.
func TestKeepsOwnCPUs(t *testing.T) {
	for authority, want := range map[placement.Authority]bool{placement.AuthorityKubelet: false, placement.AuthorityBerth: true} {
		cfg := placement.Config{TopologyManagerPolicy: "restricted", Authority: authority}
		m, err := placement.NewModel(m2.view(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Keeps(placement.Rules{OwnCPUs: true}); got != want {
			t.Errorf("authority %v: %v", authority, got)
		}
		if !m.Keeps(placement.Rules{}) {
			t.Errorf("authority %v: nothing asked and refused", authority)
		}
	}
}

// TestRulesAllocateNothing: one warm State answers under changing policies without allocating.
func TestRulesAllocateNothing(t *testing.T) {
	if raceDetector {
		t.Skip("with the race detector sync.Pool forgets on purpose: run without -race, as make test does once more")
	}
	_, loaded := m8.load(t, "restricted", true)
	cfg, snap := m8.config("restricted"), loaded.Snapshot()
	cfg.Authority = placement.AuthorityBerth
	m, _ := model(t, m8.view(), cfg)
	s, err := m.StateOf(&snap)
	if err != nil {
		t.Fatal(err)
	}
	r, dice := pod2(), rand.New(rand.NewPCG(1, 2))
	ask := func() {
		r.Rules = placement.Rules{Policy: placement.Policy(1 + dice.IntN(4)), Scope: placement.Scope(1 + dice.IntN(2))}
		placement.Admit(s, &r)
	}
	for range 20 {
		ask()
	}
	if n := testing.AllocsPerRun(200, ask); n >= 1 {
		t.Errorf("Admit allocates %v times", n)
	}
}
