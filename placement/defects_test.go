package placement_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/test/sim"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// reject records a refusal as the kubelet does: the decision's resources are allocated, and
// released when the kubelet next looks for pods that are gone. This can move memory between the
// NUMA nodes of a group. The pod's earlier resources are released too.
func reject(s *placement.State, r *placement.Request, d *placement.Decision) {
	s.Commit(r, d)
	s.Release(d.UID)
}

func admit(s *placement.State, r placement.Request) placement.Verdict {
	var d placement.Decision
	v := placement.Decide(s, &r, &d)
	if v.OK() {
		s.Commit(&r, &d)
	} else {
		reject(s, &r, &d)
	}
	return v
}

// state returns the state of a kubelet without pods.
func state(t *testing.T, v *placement.KubeletView, c placement.Config) *placement.State {
	t.Helper()
	_, s := model(t, v, c)
	return s
}

func model(t *testing.T, v *placement.KubeletView, c placement.Config) (*placement.Model, *placement.State) {
	t.Helper()
	m := made.ModelOf(t, v, c)
	return m, m.NewState()
}

// cpus returns a pod of one container with CPUs and a little memory.
func cpus(uid string, n int64) placement.Request {
	return placement.Request{UID: uid, Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: n * 1000,
		Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: 1 << 20}}}}}
}

func wantDefect(t *testing.T, v placement.Verdict, want placement.Detail) {
	t.Helper()
	if v.Reason != placement.KubeletDefect || v.Detail != want {
		t.Errorf("got %+v, want %v", v, want)
	}
}

// TestHang: the kubelet would loop forever, with and without the guard.
func TestHang(t *testing.T) {
	for _, guard := range []bool{false, true} {
		c := m2.config("none")
		c.MemoryManagerPolicy, c.ReservedMemory = "None", nil
		c.ReservedSystemCPUs = "0,3,6,9" // one thread of a core on each node
		c.CPUManagerPolicyOptions = map[string]string{"full-pcpus-only": "true", "distribute-cpus-across-numa": "true"}
		c.GuardDefects = guard
		s := state(t, machine{4, 1, 3, 2, 8 << 30, 0}.view(), c)
		hung := 0
		for n := int64(2); n <= 20; n += 2 {
			if r := cpus("p", n); placement.Admit(s, &r).Detail == placement.DefectHang {
				hung++
				if text := placement.Explain(s, &r).String(); !strings.Contains(text, "140730") {
					t.Errorf("%q does not name the defect", text)
				}
			}
		}
		if hung == 0 {
			t.Errorf("guard %v: no request hangs", guard)
		}
	}
}

// TestNoSharedCPU: with strict-cpu-reservation and the guard, the last shared CPU stays free.
func TestNoSharedCPU(t *testing.T) {
	for _, guard := range []bool{false, true} {
		c := m2.config("none")
		c.CPUManagerPolicyOptions = map[string]string{"strict-cpu-reservation": "true"}
		c.GuardDefects = guard
		m, s := model(t, machine{1, 1, 4, 1, 8 << 30, 0}.view(), c)
		v := admit(s, cpus("p", 3))
		if guard {
			wantDefect(t, v, placement.DefectNoSharedCPU)
			continue
		}
		if !v.OK() {
			t.Fatalf("got %+v", v)
		}
		if err := sim.Restart(m, s); err == nil || !strings.Contains(err.Error(), "default cpuset cannot be empty") {
			t.Errorf("a restart without shared CPUs: got %v", err)
		}
	}
}

// TestRestartKills: with full-pcpus-only, a restart before 1.37 refuses a container with more whole
// cores than are free.
func TestRestartKills(t *testing.T) {
	for _, version := range []placement.Version{placement.V136, placement.V137} {
		for _, guard := range []bool{false, true} {
			c := m2.config("none")
			c.Version, c.GuardRestarts = version, guard
			c.ReservedSystemCPUs = "0,4"
			c.CPUManagerPolicyOptions = map[string]string{"full-pcpus-only": "true"}
			s := state(t, machine{1, 1, 4, 2, 8 << 30, 0}.view(), c)
			if v := admit(s, cpus("small", 2)); !v.OK() {
				t.Fatalf("got %+v", v)
			}
			kills := version < placement.V137
			v := admit(s, cpus("second", 4))
			if kills && guard {
				wantDefect(t, v, placement.DefectRestartKills)
				continue
			}
			if !v.OK() {
				t.Fatalf("1.%d, guard %v: got %+v", version, guard, v)
			}
			for _, pod := range []placement.Request{cpus("small", 2), cpus("second", 4)} {
				if again := placement.Admit(s, &pod); again.OK() == kills {
					t.Errorf("1.%d: %s after a restart: %+v", version, pod.UID, again)
				}
			}
		}
	}
}

// TestMixedGroups: best-effort would allocate memory of one NUMA node that is part of a group.
func TestMixedGroups(t *testing.T) {
	for _, guard := range []bool{false, true} {
		c := m2.config("best-effort")
		c.GuardDefects = guard
		d := machine{2, 1, 4, 1, 8 << 30, 0}
		s := state(t, d.view(), c)
		s.SetPool(placement.DevicePool{Resource: "example.com/gpu", Devices: []placement.Device{{ID: "gpu", HasTopology: true, NUMA: 2}}})
		wide := cpus("wide", 1)
		wide.Containers[0].Memory[0].Bytes = 12 << 30
		if v := admit(s, wide); !v.OK() || v.NUMA != 3 {
			t.Fatalf("got %+v", v)
		}
		narrow := cpus("narrow", 1)
		narrow.Containers[0].Devices = []placement.DeviceRequest{{Resource: "example.com/gpu", Count: 1}}
		v := admit(s, narrow)
		if guard {
			wantDefect(t, v, placement.DefectMixedGroups)
			continue
		}
		all := s.Snapshot().Pods
		if only, _ := s.Pod("narrow"); !v.OK() || !sim.Mixed(all...) || sim.Mixed(only) {
			t.Errorf("got %+v, mixed %v", v, sim.Mixed(all...))
		}
	}
}

// TestUnequalGroup: the kubelet would crash at its next start.
func TestUnequalGroup(t *testing.T) {
	for _, guard := range []bool{false, true} {
		c := m2.config("best-effort")
		c.GuardDefects = guard
		v := machine{2, 1, 4, 1, 8 << 30, 1}.view()
		v.Nodes[1].HugePages = nil
		m, s := model(t, v, c)
		wide := cpus("wide", 1)
		wide.Containers[0].Memory[0].Bytes = 10 << 30
		got := admit(s, wide)
		if guard {
			wantDefect(t, got, placement.DefectUnequalGroup)
			continue
		}
		var wrong *sim.RestartError
		if err := sim.Restart(m, s); !got.OK() || !errors.As(err, &wrong) || !wrong.Crash {
			t.Errorf("got %+v, then %v", got, err)
		}
	}
}

// TestMissingMemoryKind: the kubelet would crash on a node without huge pages of the size.
func TestMissingMemoryKind(t *testing.T) {
	v := m2.view()
	v.Nodes[1].HugePages = nil
	for policy, resource := range map[string]string{"none": "hugepages-1Gi", "restricted": "hugepages-1Gi", "best-effort": "hugepages-2Mi"} {
		s := state(t, v, m2.config(policy))
		r := cpus("p", 1)
		r.Containers[0].Memory = append([]placement.MemoryRequest{{Resource: resource, Bytes: 1 << 30}}, r.Containers[0].Memory...)
		wantDefect(t, admit(s, r), placement.DefectMissingMemoryKind)
	}
}

// TestNoRegularMemory: a request that is wrongly marked Guaranteed may ask only for huge pages.
func TestNoRegularMemory(t *testing.T) {
	s := state(t, m2.view(), m2.config("none"))
	r := cpus("p", 1)
	r.Containers[0].Memory[0].Resource = "hugepages-1Gi"
	wantDefect(t, admit(s, r), placement.DefectNoRegularMemory)
}

// TestVanishedDevice: a pod is admitted again, and its plugin no longer lists its device.
func TestVanishedDevice(t *testing.T) {
	s := state(t, m2.view(), m2.config("restricted"))
	pool := m2.gpus()
	s.SetPool(pool)
	r := cpus("p", 1)
	r.Containers[0].Devices = []placement.DeviceRequest{{Resource: "example.com/gpu", Count: 1}}
	if v := admit(s, r); !v.OK() {
		t.Fatalf("got %+v", v)
	}
	held, _ := s.Pod("p")
	gone := held.Containers[0].Devices[0].IDs[0]
	kept := pool.Devices[:0:0]
	for _, d := range pool.Devices {
		if d.ID != gone {
			kept = append(kept, d)
		}
	}
	pool.Devices = kept
	s.SetPool(pool)
	wantDefect(t, placement.Admit(s, &r), placement.DefectVanishedDevice)
}

// TestSlowMerge: an empty machine with eight NUMA nodes and four resources would keep the kubelet
// busy for minutes.
func TestSlowMerge(t *testing.T) {
	for _, test := range []struct {
		policy       string
		taken, guard bool
		slow         bool
	}{
		{"restricted", false, true, true}, {"best-effort", false, true, true}, {"restricted", false, false, false},
		{"restricted", true, true, false}, {"single-numa-node", false, true, false},
	} {
		c := m8.config(test.policy)
		c.GuardDefects = test.guard
		_, loaded := m8.load(t, test.policy, test.taken)
		m, _ := model(t, m8.view(), c)
		snap := loaded.Snapshot()
		s, err := m.StateOf(&snap)
		if err != nil {
			t.Fatal(err)
		}
		r := pod2()
		switch v := placement.Admit(s, &r); {
		case test.slow:
			wantDefect(t, v, placement.DefectSlowMerge)
			if v.Scarcity != placement.Resolvable {
				t.Errorf("%+v: got %+v: a fuller node would do", test, v)
			}
		case !v.OK():
			t.Errorf("%+v: got %+v", test, v)
		}
	}
}

// TestForeignCPUs: if cores have different numbers of threads, the kubelet counts whole cores of
// the average size, and can take CPUs that are not free.
func TestForeignCPUs(t *testing.T) {
	c := m2.config("none")
	c.MemoryManagerPolicy, c.ReservedMemory = "None", nil
	c.ReservedSystemCPUs = "0"
	v := machine{1, 1, 4, 2, 8 << 30, 0}.view()
	for i := range v.Nodes[0].Cores[2:] {
		core := &v.Nodes[0].Cores[2+i]
		core.Threads = core.Threads[:1]
		v.NumCores--
	}
	foreign := 0
	for n := int64(1); n < 6; n++ {
		c.GuardDefects = false
		m, s := model(t, v, c)
		r := cpus("p", n)
		var d placement.Decision
		if got := placement.Decide(s, &r, &d); got.OK() && !isFree(m, s, &d.Containers[0].CPUs) {
			foreign++
			c.GuardDefects = true
			s := state(t, v, c)
			wantDefect(t, placement.Admit(s, &r), placement.DefectForeignCPUs)
		}
	}
	if foreign == 0 {
		t.Error("no request gets CPUs that are not free: nothing is tested")
	}
}

func isFree(m *placement.Model, s *placement.State, cpus *topology.CPUSet) bool {
	free, reserved := s.SharedCPUs(), m.ReservedCPUs()
	free = free.AndNot(&reserved)
	return cpus.IsSubsetOf(&free)
}

// TestMemoryUnderflow: the reserved memory of a NUMA node exceeds its memory, and the kubelet
// computes a huge free amount.
func TestMemoryUnderflow(t *testing.T) {
	view := made.View(t, shapes.Machine("package:2 numa:1 core:4 pu:2 mem:2Gi,64Gi"))
	r := cpus("u", 2)
	r.Containers[0].Memory[0].Bytes = 50 << 30
	for _, policy := range []string{"none", "best-effort", "single-numa-node"} {
		c := placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", MemoryManagerPolicy: "Static", TopologyManagerPolicy: policy}
		c.ReservedMemory = []placement.ReservedMemory{{NUMA: 0, Limits: map[string]uint64{"memory": 3 << 30}}}
		if v := placement.Admit(state(t, view, c), &r); !v.OK() || v.NUMA != 1 {
			t.Errorf("%s: the kubelet itself puts 50Gi on a NUMA node of 2Gi: got %+v", policy, v)
		}
		c.GuardDefects = true
		wantDefect(t, placement.Admit(state(t, view, c), &r), placement.DefectMemoryUnderflow)
		c.ReservedMemory[0].Limits["memory"] = 1 << 30
		if v := placement.Admit(state(t, view, c), &r); !v.OK() || !v.NUMA.Has(1) {
			t.Errorf("%s: 50Gi fit NUMA node 1: got %+v", policy, v)
		}
	}
}
