package placement_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/sim"
	"github.com/berth-dev/berth/topology"
)

// leveled returns a kubelet on two8 that places pods by spec.resources.
func leveled(t *testing.T, scope string, with ...func(*placement.Config)) *placement.State {
	t.Helper()
	_, s := model(t, two8.view(), leveledConfig(scope, with...))
	return s
}

func leveledConfig(scope string, with ...func(*placement.Config)) placement.Config {
	c := placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "single-numa-node", TopologyManagerScope: scope,
		MemoryManagerPolicy: "Static", ReservedMemory: []placement.ReservedMemory{{NUMA: 0, Limits: map[string]uint64{"memory": 1 << 30}}},
		Version: placement.V137, FeatureGates: map[string]bool{"PodLevelResourceManagers": true}}
	for _, f := range with {
		f(&c)
	}
	return c
}

// asWhole returns a pod with pod-level resources. Containers with memory are Guaranteed by
// themselves.
func asWhole(uid string, milli int64, gib uint64, cs ...placement.ContainerRequest) placement.Request {
	r := placement.Request{UID: uid, Guaranteed: true, PodLevel: true, Containers: cs, Level: placement.LevelRequest{Guaranteed: true, MilliCPU: milli,
		Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: gib << 30}}}}
	for i := range r.Containers {
		r.Containers[i].Guaranteed = len(r.Containers[i].Memory) > 0
	}
	return r
}

func ofKind(kind placement.ContainerKind, c placement.ContainerRequest) placement.ContainerRequest {
	c.Kind = kind
	return c
}

// toldWhole describes a decision in one line: the resources of the pod, and those of its
// containers.
func toldWhole(d *placement.Decision) string {
	var b strings.Builder
	one := func(name string, cpus topology.CPUSet, memory []placement.MemoryBlock) {
		fmt.Fprintf(&b, " %s:%s", name, cpus)
		for _, m := range memory {
			fmt.Fprintf(&b, ",%dG@%s", m.Bytes>>30, m.NUMA)
		}
	}
	if d.Whole != nil {
		one("pod", d.Whole.CPUs, d.Whole.Memory)
	}
	for i := range d.Containers {
		one(d.Containers[i].Name, d.Containers[i].CPUs, d.Containers[i].Memory)
	}
	return b.String()[1:]
}

// TestWholeExamples has example decisions.
func TestWholeExamples(t *testing.T) {
	shared := app("s", 0, 0)
	for name, c := range map[string]struct {
		scope string
		r     placement.Request
		want  string
	}{
		"each container by itself":          {"container", asWhole("p", 8000, 8, app("a", 2000, 1), shared), "a:1-2,1G@0 s:"},
		"a fraction has memory of its own":  {"container", asWhole("p", 8000, 8, app("a", 1500, 1)), "a:,1G@0"},
		"the rest for the others":           {"pod", asWhole("p", 6000, 8, app("a", 2000, 1), shared), "pod:1-6,8G@0 a:1-2,1G@0 s:3-6,7G@0"},
		"one NUMA node for all":             {"pod", asWhole("p", 8000, 8, app("a", 4000, 1), app("b", 4000, 7)), "pod:8-15,8G@1 a:8-11,1G@1 b:12-15,7G@1"},
		"some are left over":                {"pod", asWhole("p", 6000, 8, app("a", 2000, 1)), "pod:1-6,8G@0 a:1-2,1G@0"},
		"a fraction of a CPU shares":        {"pod", asWhole("p", 4000, 8, app("a", 1500, 1), app("b", 2000, 1)), "pod:1-4,8G@0 a:3-4,1G@0 b:1-2,1G@0"},
		"init containers first":             {"pod", asWhole("p", 4000, 8, ofKind(placement.Init, app("i", 3000, 2)), app("a", 2000, 8)), "pod:1-4,8G@0 i:1-3,2G@0 a:1-2,8G@0"},
		"an init container shares all":      {"pod", asWhole("p", 4000, 8, ofKind(placement.Init, shared), app("a", 4000, 8)), "pod:1-4,8G@0 s:1-4,8G@0 a:1-4,8G@0"},
		"but what sidecars before it have":  {"pod", asWhole("p", 4000, 8, ofKind(placement.Sidecar, app("l", 1000, 1)), ofKind(placement.Init, shared), app("a", 3000, 7)), "pod:1-4,8G@0 l:1,1G@0 s:2-4,7G@0 a:2-4,7G@0"},
		"a sidecar that shares":             {"pod", asWhole("p", 4000, 8, ofKind(placement.Sidecar, shared), app("a", 3000, 7)), "pod:1-4,8G@0 s:4,1G@0 a:1-3,7G@0"},
		"no whole number of CPUs":           {"pod", asWhole("p", 4500, 8, app("a", 2000, 1), shared), "pod:,8G@0 a:,1G@0 s:,7G@0"},
		"no CPUs are left to share":         {"pod", asWhole("p", 4000, 8, app("a", 4000, 1), shared), "TopologyAffinityError NoneToShare"},
		"no memory is left to share":        {"pod", asWhole("p", 4000, 8, app("a", 2000, 8), shared), "TopologyAffinityError NoneToShare"},
		"none is left to an init container": {"pod", asWhole("p", 4000, 8, ofKind(placement.Sidecar, app("l", 4000, 1)), ofKind(placement.Init, shared), app("a", 0, 1)), "TopologyAffinityError NoneToShare"},
		"more than a NUMA node":             {"pod", asWhole("p", 9000, 8, app("a", 4000, 1)), "TopologyAffinityError NotPreferred"},
		"each container has room":           {"container", asWhole("p", 9000, 8, app("a", 4000, 1), app("b", 5000, 1)), "a:1-4,1G@0 b:8-12,1G@1"},
	} {
		var d placement.Decision
		s := leveled(t, c.scope, func(c *placement.Config) { c.GuardDefects = true })
		got := ""
		if v := placement.Decide(s, &c.r, &d); v.OK() {
			got = toldWhole(&d)
		} else {
			got = v.Reason.String() + " " + v.Detail.String()
		}
		if got != c.want {
			t.Errorf("%s: got  %s\nwant %s", name, got, c.want)
		}
	}
}

// TestEmptySharedPool: with best-effort, the hints do not lead to a refusal, but the managers
// refuse the pod.
func TestEmptySharedPool(t *testing.T) {
	s := leveled(t, "pod", func(c *placement.Config) { c.TopologyManagerPolicy = "best-effort" })
	r := asWhole("p", 4000, 8, app("a", 4000, 1), app("s", 0, 0))
	v := placement.Admit(s, &r)
	if v.Detail != placement.EmptySharedPool || v.Reason.String() != "EmptyPodSharedPoolError" || v.Scarcity != placement.Unresolvable {
		t.Errorf("got %+v", v)
	}
	strict := leveled(t, "pod")
	if v := placement.Admit(strict, &r); v.Detail != placement.NoneToShare || v.Scarcity != placement.Unresolvable {
		t.Errorf("got %+v", v)
	}
	for _, s := range []*placement.State{s, strict} {
		if e := placement.Explain(s, &r); len(e.Needs) > 0 || !strings.Contains(e.String(), "leave none of spec.resources") {
			t.Errorf("explained as %+v", e)
		}
	}
}

// TestNoMemoryAsked: up to 1.36, a pod with a container without its own memory request is refused
// if its containers are placed one by one.
func TestNoMemoryAsked(t *testing.T) {
	for version, want := range map[placement.Version]placement.Detail{placement.V136: placement.NoMemoryAsked, placement.V137: placement.NoDetail} {
		s := leveled(t, "container", func(c *placement.Config) { c.Version = version })
		r := asWhole("p", 4000, 8, app("a", 2000, 1), app("s", 0, 0))
		if v := placement.Admit(s, &r); v.Detail != want {
			t.Errorf("1.%d: got %+v", version, v)
		}
	}
}

// TestLateDevices: the device manager does not support pod-level resources.
func TestLateDevices(t *testing.T) {
	for _, c := range []struct {
		scope   string
		guard   bool
		claimed bool
		want    placement.Detail
	}{
		{"pod", true, false, placement.DefectLateDevices}, {"pod", true, true, placement.NoDetail}, {"pod", false, false, placement.NoDetail},
		{"container", true, false, placement.NoDetail},
	} {
		s := leveled(t, c.scope, func(o *placement.Config) { o.GuardDefects = c.guard })
		s.SetPool(placement.DevicePool{Resource: "x/y", Devices: []placement.Device{{ID: "a", HasTopology: true, NUMA: 1}}})
		r := asWhole("p", 4000, 8, app("a", 2000, 1))
		r.Containers[0].Devices = []placement.DeviceRequest{{Resource: "x/y", Count: 1, Claimed: c.claimed}}
		var d placement.Decision
		v := placement.Decide(s, &r, &d)
		if v.Detail != c.want || v.OK() && (len(d.Containers[0].Devices) > 0) != (c.scope == "container") {
			t.Errorf("%+v: got %+v with %v", c, v, d.Containers)
		}
		if e := placement.Explain(s, &r); e.Detail != v.Detail {
			t.Errorf("%+v: explained as %+v", c, e)
		}
	}
}

// TestWholeLeaves: the pod-level resources are released when the pod is removed, and not when an
// init container ends.
func TestWholeLeaves(t *testing.T) {
	m, s := model(t, two8.view(), leveledConfig("pod"))
	empty := s.Snapshot()
	r := asWhole("p", 6000, 8, ofKind(placement.Init, app("i", 2000, 1)), app("a", 2000, 1), app("s", 0, 0))
	if v := admit(s, r); !v.OK() {
		t.Fatalf("%+v", v)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	before := s.Snapshot().Memory
	s.Start("p", nil)
	if err := s.Check(); err != nil || fmt.Sprint(s.Snapshot().Memory) != fmt.Sprint(before) {
		t.Errorf("%v: %v, and before the init container ended %v", err, s.Snapshot().Memory, before)
	}
	if free := s.FreeCPUs(); free.String() != "7-15" || s.Holding("p") != 1 {
		t.Errorf("free: %s, on %v", free, s.Holding("p"))
	}
	snap := s.Snapshot()
	again, err := m.StateOf(&snap)
	if err != nil || !again.Equal(s) {
		t.Errorf("%v, from its snapshot", err)
	}
	s.Release("p")
	if got := s.Snapshot(); fmt.Sprint(got) != fmt.Sprint(empty) {
		t.Errorf("got %v, want %v", got, empty)
	}
}

// TestWholeOnceMore: a restarting kubelet places the pod once more (kubernetes#140989, #140906).
// Either it refuses a container that shares CPUs, or CPUs and memory are lost and no kubelet starts
// again.
func TestWholeOnceMore(t *testing.T) {
	shares, alone := asWhole("p", 4000, 2, app("a", 2000, 1), app("s", 0, 0)), asWhole("p", 2000, 2, app("a", 2000, 1))
	for _, version := range []placement.Version{placement.V136, placement.V137} {
		s := leveled(t, "pod", func(c *placement.Config) { c.Version = version })
		admit(s, shares)
		if v := placement.Admit(s, &shares); v.Detail != placement.NotPreferred {
			t.Errorf("1.%d: got %+v", version, v)
		}
		m, s := model(t, two8.view(), leveledConfig("pod", func(c *placement.Config) { c.Version = version }))
		for range 2 {
			if v := admit(s, alone); !v.OK() {
				t.Errorf("1.%d: got %+v", version, v)
			}
		}
		var wrong *sim.RestartError
		if free := s.FreeCPUs(); free.String() != "5-15" || !errors.As(sim.Restart(m, s), &wrong) || s.Check() == nil {
			t.Errorf("1.%d: free %s, %v", version, free, wrong)
		}
		guarded := leveled(t, "pod", func(c *placement.Config) { c.Version, c.GuardRestarts = version, true })
		wantDefect(t, placement.Admit(guarded, &alone), placement.DefectRestartRepeats)
		if e := placement.Explain(guarded, &alone); !strings.Contains(e.String(), "kubernetes#140989") {
			t.Errorf("1.%d: %s", version, e)
		}
		each := leveled(t, "container", func(c *placement.Config) { c.Version, c.GuardRestarts = version, true })
		if v := placement.Admit(each, &alone); !v.OK() {
			t.Errorf("1.%d: got %+v in scope container", version, v)
		}
	}
}

// TestWholeSteps: each manager is asked twice, for hints and for the allocation. CPUs that are
// released between the two are allocated. CPUs that are released later are not.
func TestWholeSteps(t *testing.T) {
	m, s := model(t, two8.view(), leveledConfig("pod", func(c *placement.Config) {
		c.TopologyManagerPolicy, c.MemoryManagerPolicy, c.ReservedMemory = "best-effort", "None", nil
	}))
	if v := admit(s, cpus("other", 12)); !v.OK() {
		t.Fatalf("%+v", v)
	}
	r := asWhole("p", 8000, 8, app("a", 2000, 1), app("b", 0, 0))
	if steps := m.Steps(&r); steps != 6 {
		t.Errorf("%d steps", steps)
	}
	for step := range 7 {
		var d placement.Decision
		left := []placement.Meanwhile{{Step: step, UID: "other"}}
		v := placement.DecideAmid(s, &r, left, &d)
		if fits := step <= 4; v.OK() != fits || !fits && v.Detail != placement.TooFewCPUs {
			t.Errorf("step %d: %+v", step, v)
		}
		if !v.OK() {
			continue
		}
		after := s.Clone()
		after.CommitAmid(&r, left, &d)
		if err := after.Check(); err != nil || after.Has("other") {
			t.Errorf("step %d: %v", step, err)
		}
	}
}

// TestWholesAreDivided compares the resources of containers with a simple implementation of the
// rules.
func TestWholesAreDivided(t *testing.T) {
	admitted := 0
	for seed := range uint64(12000) {
		w := newWorld(t, seed, true)
		if w == nil || !w.cfg.FeatureGates["PodLevelResourceManagers"] {
			continue
		}
		for range 12 {
			r, d, v := w.step()
			if !v.OK() || d.Whole == nil || d.Whole.CPUs.IsEmpty() {
				continue
			}
			admitted++
			if got := int64(d.Whole.CPUs.Len()); got*1000 != r.Level.MilliCPU {
				t.Fatalf("seed %d: %d CPUs of %dm", seed, got, r.Level.MilliCPU)
			}
			left := d.Whole.CPUs
			for i, c := range d.Containers {
				asked := &r.Containers[i]
				own := asked.Guaranteed && asked.MilliCPU%1000 == 0
				switch {
				case own && (int64(c.CPUs.Len())*1000 != asked.MilliCPU || !c.CPUs.IsSubsetOf(&left)):
					t.Fatalf("seed %d: %s has %s of %s", seed, c.Name, c.CPUs, left)
				case asked.Kind == placement.Init && !own && c.CPUs != left:
					t.Fatalf("seed %d: %s has %s, want all of %s", seed, c.Name, c.CPUs, left)
				case asked.Kind != placement.Init && own:
					left = left.AndNot(&c.CPUs)
				}
			}
			for i, c := range d.Containers {
				asked := &r.Containers[i]
				if shares := !asked.Guaranteed || asked.MilliCPU%1000 != 0; shares && asked.Kind != placement.Init && (c.CPUs != left || left.IsEmpty()) {
					t.Fatalf("seed %d: %s has %s, want the rest, %s", seed, c.Name, c.CPUs, left)
				}
			}
		}
	}
	if admitted < 200 {
		t.Errorf("%d such pods, want more", admitted)
	}
}

// TestWholeAllocatesNothing: decisions about pods with pod-level resources allocate no memory.
func TestWholeAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("with the race detector sync.Pool forgets on purpose: run without -race, as make test does once more")
	}
	s := leveled(t, "pod", func(c *placement.Config) { c.GuardDefects = true })
	r := asWhole("p", 6000, 8, ofKind(placement.Init, app("i", 2000, 1)), app("a", 2000, 1), app("s", 0, 0))
	var d placement.Decision
	placement.Decide(s, &r, &d)
	for name, f := range map[string]func(){"Admit": func() { placement.Admit(s, &r) }, "Decide": func() { placement.Decide(s, &r, &d) }} {
		f()
		if n := testing.AllocsPerRun(50, f); n >= 1 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
