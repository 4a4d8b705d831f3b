package placement_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
)

// refused returns a random world with pods, and a request that it refuses; nil if it refuses none
// soon.
func refused(t *testing.T, seed uint64) (*world, placement.Request) {
	w := newWorld(t, seed, true)
	if w == nil {
		return nil, placement.Request{}
	}
	for range w.r.IntN(12) {
		w.step()
	}
	for range 20 {
		r := w.request()
		if w.r.IntN(2) == 0 {
			for i := range r.Containers {
				r.Containers[i].MilliCPU *= int64(1 + w.r.IntN(3))
			}
		}
		if v := placement.Admit(w.state, &r); !v.OK() {
			return w, r
		}
	}
	return nil, placement.Request{}
}

// emptied returns the state without pods.
func (w *world) emptied(t *testing.T, m *placement.Model) *placement.State {
	t.Helper()
	s := m.NewState()
	for _, p := range w.state.Snapshot().Devices {
		s.SetPool(p)
	}
	return s
}

// followed returns the request after a remedy was carried out.
func followed(t *testing.T, r *placement.Request, m *placement.Remedy) placement.Request {
	t.Helper()
	out := *r
	out.Containers = slices.Clone(r.Containers)
	at := slices.IndexFunc(out.Containers, func(c placement.ContainerRequest) bool { return c.Name == m.Container })
	if m.Do == placement.RemedyShare {
		for i := range out.Containers {
			if c := &out.Containers[i]; c.Kind == placement.Init && c.MilliCPU > 0 && c.MilliCPU%1000 == 0 && (m.Container == "" || m.Container == c.Name) {
				c.MilliCPU -= 100
			}
		}
	}
	if m.Do != placement.RemedyAsk {
		return out
	}
	c := &out.Containers[at]
	switch i := slices.IndexFunc(c.Devices, func(d placement.DeviceRequest) bool { return d.Resource == m.Resource }); {
	case m.Resource == "cpu":
		c.MilliCPU = int64(m.Instead) * 1000
	case i >= 0:
		c.Devices = slices.Clone(c.Devices)
		c.Devices[i].Count = int64(m.Instead)
	default:
		i := slices.IndexFunc(c.Memory, func(k placement.MemoryRequest) bool { return k.Resource == m.Resource })
		c.Memory = slices.Clone(c.Memory)
		c.Memory[i].Bytes = m.Instead
	}
	return out
}

// TestAdviceIsFollowed: for 500 random refusals, each remedy of the advice is carried out, and the
// pod is admitted. Remedies that the advice does not name do not help: if it does not name waiting,
// the empty node refuses the pod too.
func TestAdviceIsFollowed(t *testing.T) {
	const refusals = 500
	kinds, told, withText := map[string]int{}, 0, 0
	for seed := uint64(0); told < refusals; seed++ {
		w, r := refused(t, seed)
		if w == nil {
			continue
		}
		told++
		f := placement.Advise(w.state, &r, nil)
		text := f.Advice()
		if text == "" {
			t.Fatalf("seed %d: no advice: %s", seed, f.String())
		}
		waits := false
		for i := range f.Remedies {
			m := &f.Remedies[i]
			kinds[m.Do]++
			state := w.state
			if m.Empty {
				state = w.emptied(t, w.model)
			}
			waits = waits || m.Do == placement.RemedyWait
			with := followed(t, &r, m)
			if v := placement.Admit(state, &with); !v.OK() {
				t.Errorf("seed %d: %s\nadvice %q\nremedy %+v: still refused: %s", seed, f.String(), text, m, v.Detail)
			}
			if m.Do == placement.RemedyAsk && strings.Contains(text, m.Text()) {
				withText++
			}
		}
		empty := w.emptied(t, w.model)
		if v := placement.Admit(empty, &r); !waits && v.OK() {
			t.Errorf("seed %d: waiting helps, and the advice does not say so: %q", seed, text)
		}
		if strings.Contains(text, "whose kubelet has the policy best-effort") {
			kinds["milder"]++
			cfg := w.cfg
			cfg.TopologyManagerPolicy = "best-effort"
			m := made.ModelOf(t, w.view, cfg)
			if v := placement.Admit(w.emptied(t, m), &r); !v.OK() {
				t.Errorf("seed %d: %s\nadvice %q: such a node refuses it too: %s", seed, f.String(), text, v.Detail)
			}
		}
	}
	if kinds[placement.RemedyAsk] < refusals/4 || kinds[placement.RemedyWait] < refusals/10 || kinds[placement.RemedyShare] == 0 || kinds["milder"] < 10 || withText < refusals/5 {
		t.Errorf("too little was advised: %v, %d amounts in texts", kinds, withText)
	}
	t.Log(kinds, withText)
}

// TestAdviceIsFollowedWhereBerthDecides does the same with wishes of pods.
func TestAdviceIsFollowedWhereBerthDecides(t *testing.T) {
	kinds, told := map[string]int{}, 0
	for seed := uint64(0); told < 500; seed++ {
		w := obeyWorld(t, seed)
		for range 30 {
			q := w.obeyRequest()
			f := placement.Advise(w.state, &q, nil)
			if f.Reason == placement.Admitted {
				var d placement.Decision
				if v := placement.Decide(w.state, &q, &d); v.OK() {
					w.state.Commit(&q, &d)
				}
				continue
			}
			told++
			for i := range f.Remedies {
				m := &f.Remedies[i]
				kinds[m.Do]++
				state := w.state
				if m.Empty {
					state = w.emptied(t, w.model)
				}
				with := followed(t, &q, m)
				if m.Do == placement.RemedyDrop {
					with.Rules = without(t, q.Rules, m.Wish)
				}
				if v := placement.Admit(state, &with); !v.OK() {
					t.Errorf("%s\nadvice %q\nremedy %+v: still refused: %s", f.String(), f.Advice(), m, v.Detail)
				}
			}
		}
	}
	if kinds[placement.RemedyAsk] < 100 || kinds[placement.RemedyDrop] < 50 {
		t.Errorf("too little was advised: %v", kinds)
	}
	t.Log(kinds)
}

// without returns the rules without the wish.
func without(t *testing.T, r placement.Rules, wish string) placement.Rules {
	t.Helper()
	switch wish {
	case "berth.dev/policy: best-effort":
		r.Policy = placement.PolicyBestEffort
	case "berth.dev/cpus":
		r.CPUs.Bind, r.CPUs.BindHow = joint.BindAny, joint.Unset
	case "berth.dev/exclusive":
		r.CPUs.Exclusive, r.CPUs.ExclusiveHow = 0, joint.Unset
	case "berth.dev/l3":
		r.CPUs.L3 = joint.Unset
	case "berth.dev/numa-nodes":
		r.NUMANodes = 0
	case "berth.dev/devices":
		r.Devices.Same, r.Devices.SameHow, r.Devices.Joint, r.Devices.PerNode = joint.Anywhere, joint.Unset, 0, 0
	default:
		t.Fatalf("no such wish: %q", wish)
	}
	return r
}

// TestReservedCPUsAreCounted: a kubelet also counts reserved CPUs when it computes how many NUMA
// nodes CPUs need (kubernetes#132187). Refusals report this, and the advice is to request more or
// fewer CPUs.
func TestReservedCPUsAreCounted(t *testing.T) {
	view := machine{2, 4, 8, 2, 64 << 30, 0}.view()
	pool := placement.DevicePool{Resource: "example.com/gpu"}
	for i := range 8 {
		pool.Devices = append(pool.Devices, placement.Device{ID: string(rune('a' + i)), HasTopology: true, NUMA: topology.NewNUMASet(topology.NUMAID(i))})
	}
	for _, c := range []struct {
		name, policy  string
		cpus, gpus    int64
		says, advises string
	}{
		{"the least differs", "restricted", 112, 8, "on 7 NUMA nodes, because it also counts reserved CPUs (8 NUMA nodes without them)", "ask for 113 instead of 112 CPUs"},
		{"nowhere preferred", "restricted", 16, 0, "on 1 NUMA node, because it also counts reserved CPUs (2 NUMA nodes without them)", "ask for 15 instead of 16 CPUs"},
		{"one NUMA node", "single-numa-node", 16, 1, "also counts reserved CPUs", "ask for 15 instead of 16 CPUs"},
	} {
		reserved := "0"
		for i := 1; i < 8; i++ {
			reserved += "," + strconv.Itoa(int(view.Nodes[i].Cores[0].Threads[0]))
		}
		m := made.ModelOf(t, view, placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: reserved, TopologyManagerPolicy: c.policy})
		s := m.NewState()
		s.SetPool(pool)
		r := placement.Request{UID: "p", Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: c.cpus * 1000}}}
		if c.gpus > 0 {
			r.Containers[0].Devices = []placement.DeviceRequest{{Resource: pool.Resource, Count: c.gpus}}
		}
		f := placement.Advise(s, &r, nil)
		if got := f.String(); !strings.Contains(got, c.says) {
			t.Errorf("%s: %q: want %q", c.name, got, c.says)
		}
		if got := f.Table(); !strings.Contains(got, "also counts reserved CPUs") {
			t.Errorf("%s: the table does not say so:\n%s", c.name, got)
		}
		if got := f.Advice(); !strings.Contains(got, c.advises) {
			t.Errorf("%s: advice %q: want %q", c.name, got, c.advises)
		}
	}
}

// TestAmountsThatDifferLookDifferent: the free and the requested amount differ by less than a
// rounded number shows.
func TestAmountsThatDifferLookDifferent(t *testing.T) {
	const asked = 3<<30 + 5<<10
	for _, free := range []uint64{asked - 1<<10, asked - 1, asked + 1<<10} {
		n := placement.Need{Resource: "memory", Asked: asked, Free: free, Nodes: []placement.NodeAmount{{Free: free, Total: 8 << 30}}}
		r := placement.Refusal{Reason: placement.UnexpectedAdmissionError, Detail: placement.NoDefaultMemory, Needs: []placement.Need{n}}
		exact, wants := topology.FormatBytes(free), topology.FormatBytes(asked)
		if got := r.Table(); !strings.Contains(got, exact) || !strings.Contains(got, wants) {
			t.Errorf("%d: want %s and %s in\n%s", free, exact, wants, got)
		}
		if got := r.String(); free < asked && (!strings.Contains(got, exact) || !strings.Contains(got, wants)) {
			t.Errorf("%d: want %s and %s in %s", free, exact, wants, got)
		}
	}
}

// TestWaitingHelpsWhateverIsThereNow: the node has no room now, but the pod fits without the node's
// pods. So the advice is to wait.
func TestWaitingHelpsWhateverIsThereNow(t *testing.T) {
	_, s := m2.load(t, "single-numa-node", true)
	r := pod2()
	r.Containers[0].MilliCPU = 63_000
	r.Containers[0].Memory[1].Bytes = 330 << 30
	full := func(_ *placement.Request, empty bool) bool { return empty }
	if f := placement.Advise(s, &r, full); f.Reason == placement.Admitted || !strings.Contains(f.Advice(), "wait until other pods end") {
		t.Errorf("%s: %q", f.String(), f.Advice())
	}
	never := func(*placement.Request, bool) bool { return false }
	if f := placement.Advise(s, &r, never); strings.Contains(f.Advice(), "wait") {
		t.Errorf("the emptied node lacks amounts too: %s: %q", f.String(), f.Advice())
	}
}

// TestNobodyWaitsForAnEmptyNode: on a node without pods, the advice is never to wait until pods
// end, whether remedies were tried or not.
func TestNobodyWaitsForAnEmptyNode(t *testing.T) {
	told := 0
	for seed := uint64(0); told < 300; seed++ {
		w := newWorld(t, seed, true)
		if w == nil {
			continue
		}
		empty := w.emptied(t, w.model)
		for range 5 {
			r := w.request()
			for i := range r.Containers {
				r.Containers[i].MilliCPU += int64(w.r.IntN(2) * 500)
				for j := range r.Containers[i].Memory {
					r.Containers[i].Memory[j].Bytes += uint64(w.r.IntN(2))<<30 + uint64(w.r.IntN(2))<<10
				}
			}
			for name, f := range map[string]placement.Refusal{"explained": placement.Explain(empty, &r), "advised": placement.Advise(empty, &r, nil)} {
				if f.Reason == placement.Admitted {
					continue
				}
				told++
				if strings.Contains(f.Advice(), "wait") || strings.Contains(f.Table(), "removing pods can help") {
					t.Errorf("seed %d, %s: %s\n%s\n%s", seed, name, f.String(), f.Advice(), f.Table())
				}
			}
		}
	}
}

// TestWholeCoresAreAdvised: with full-pcpus-only, only multiples of a core's CPUs are tried.
func TestWholeCoresAreAdvised(t *testing.T) {
	m, err := placement.NewModel(machine{2, 1, 32, 2, 64 << 30, 0}.view(), placement.Config{
		CPUManagerPolicy: "static", ReservedSystemCPUs: "0-3", CPUManagerPolicyOptions: map[string]string{"full-pcpus-only": "true"},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := m.NewState()
	for asked, want := range map[int64]string{5: "ask for 4 instead of 5 CPUs", 124: "ask for 120 instead of 124 CPUs", 122: "ask for 120 instead of 122 CPUs", 1: "ask for 2 instead of 1 CPU"} {
		r := placement.Request{UID: "p", Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: asked * 1000}}}
		if got := placement.Advise(s, &r, nil); !strings.Contains(got.Advice(), want) {
			t.Errorf("%d: %s; advice %q: want %q", asked, got, got.Advice(), want)
		}
	}
}

// TestBestEffortIsAdvisedIfItHelps: nodes with the policy best-effort are recommended only if this
// policy would admit the pod next to the same pods, or if no pod helps to leave.
func TestBestEffortIsAdvisedIfItHelps(t *testing.T) {
	m, err := placement.NewModel(machine{2, 1, 4, 2, 32 << 30, 0}.view(), placement.Config{
		CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "single-numa-node", MemoryManagerPolicy: "Static",
		ReservedMemory: []placement.ReservedMemory{{Limits: map[string]uint64{"memory": 1 << 30}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for gib, helps := range map[uint64]bool{20: false, 40: true} {
		s := m.NewState()
		for _, uid := range []string{"a", "b", "c"} {
			r := placement.Request{UID: uid, Guaranteed: true, Containers: []placement.ContainerRequest{{
				Name: "c", MilliCPU: 2000, Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: gib << 30}},
			}}}
			var d placement.Decision
			if v := placement.Decide(s, &r, &d); v.OK() {
				s.Commit(&r, &d)
				continue
			}
			if got := placement.Advise(s, &r, nil); strings.Contains(got.Advice(), "policy best-effort") != helps {
				t.Errorf("%d GiB, pod %s: %s; advice %q: best-effort helps: %v", gib, uid, got, got.Advice(), helps)
			}
		}
	}
}
