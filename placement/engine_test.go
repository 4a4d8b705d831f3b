package placement_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/sim"
)

// live runs a random kubelet for some steps. Before each step it calls check with the state.
func live(t *testing.T, seed uint64, check func(w *world)) {
	w := newWorld(t, seed, true)
	if w == nil {
		return
	}
	for range 12 {
		w.step()
		if err := w.state.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if check != nil {
			check(w)
		}
	}
}

// TestInvariants: if defects are guarded, a node's state is always consistent, and a kubelet could
// always restart with it.
func TestInvariants(t *testing.T) {
	for seed := range uint64(1500) {
		live(t, seed, func(w *world) {
			if err := sim.Restart(w.model, w.state); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		})
	}
}

// TestReadmission: a restarting kubelet admits its pods again, and they keep their CPUs and
// devices. Three causes can prevent this: full-pcpus-only before 1.37, memory of an init container
// that other pods now have, and devices that are no longer healthy.
func TestReadmission(t *testing.T) {
	again := 0
	for seed := range uint64(800) {
		w := newWorld(t, seed, true)
		if w == nil {
			continue
		}
		for range 10 {
			w.step()
		}
		if err := sim.Restart(w.model, w.state); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, uid := range w.pods {
			held, _ := w.state.Pod(uid)
			if held.Whole != nil {
				continue // it is placed again: see TestWholeOnceMore
			}
			r := w.asked[uid]
			var d placement.Decision
			v := placement.Decide(w.state, &r, &d)
			if !v.OK() {
				reject(w.state, &r, &d)
				if v.Detail == placement.TooFewCPUs || v.Detail == placement.DeviceRequestChanged {
					t.Fatalf("seed %d: %s: %+v", seed, uid, v)
				}
				continue
			}
			again++
			for i, c := range held.Containers {
				if got := d.Containers[i]; got.CPUs != c.CPUs || !reflect.DeepEqual(append([]placement.DeviceAllocation{}, got.Devices...), append([]placement.DeviceAllocation{}, c.Devices...)) {
					t.Fatalf("seed %d: %s: got %+v, held %+v", seed, uid, got, c)
				}
			}
			w.state.Commit(&r, &d)
		}
		if err := w.state.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if again < 1000 {
		t.Errorf("%d pods admitted again: want more", again)
	}
}

// TestReleaseEmpties: a node without pods has the same state as a new node.
func TestReleaseEmpties(t *testing.T) {
	for seed := range uint64(600) {
		w := newWorld(t, seed, true)
		if w == nil {
			continue
		}
		fresh := w.state.Snapshot()
		for range 10 {
			w.step()
		}
		for _, uid := range w.pods {
			w.state.Release(uid)
		}
		if got := w.state.Snapshot(); !reflect.DeepEqual(got, fresh) {
			t.Fatalf("seed %d: got %+v, want %+v", seed, got, fresh)
		}
	}
}

// TestSnapshotRoundTrip: StateOf restores the state of a Snapshot, and both states give equal
// decisions.
func TestSnapshotRoundTrip(t *testing.T) {
	for seed := range uint64(600) {
		live(t, seed, func(w *world) {
			snap := w.state.Snapshot()
			s, err := w.model.StateOf(&snap)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if again := s.Snapshot(); !reflect.DeepEqual(again, snap) {
				t.Fatalf("seed %d: got %+v, want %+v", seed, again, snap)
			}
			req := w.request()
			var d1, d2 placement.Decision
			v1, v2 := placement.Decide(w.state, &req, &d1), placement.Decide(s, &req, &d2)
			if v1 != v2 || !sameDecision(&d1, &d2) {
				t.Fatalf("seed %d: %+v and %+v", seed, v1, v2)
			}
		})
	}
}

// sameDecision compares decisions. Empty and nil slices are equal.
func sameDecision(a, b *placement.Decision) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	norm := func(s []byte) string { return strings.ReplaceAll(string(s), "null", "[]") }
	return norm(x) == norm(y)
}

// FuzzAgree: on any kubelet, Admit, Decide and Explain agree, and the state is consistent if
// defects are guarded.
func FuzzAgree(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, seed%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, guard bool) {
		w := newWorld(t, seed, guard)
		if w == nil {
			return
		}
		for range 12 {
			req := w.request()
			var d placement.Decision
			v := placement.Admit(w.state, &req)
			if again := placement.Decide(w.state, &req, &d); again != v {
				t.Fatalf("Admit %+v, Decide %+v", v, again)
			}
			agrees(t, seed, placement.Explain(w.state, &req), v)
			w.step()
			if err := w.state.Check(); guard && err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestPure: Admit, Decide and Explain agree, give the same answer twice, and do not change the
// state.
func TestPure(t *testing.T) {
	for seed := range uint64(600) {
		live(t, seed, func(w *world) {
			before := w.state.Snapshot()
			req := w.request()
			var d, d2 placement.Decision
			v := placement.Admit(w.state, &req)
			if again := placement.Decide(w.state, &req, &d); again != v {
				t.Fatalf("seed %d: Admit %+v, Decide %+v", seed, v, again)
			}
			placement.Decide(w.state.Clone(), &req, &d2)
			if !sameDecision(&d, &d2) {
				t.Fatalf("seed %d: %+v and %+v", seed, d, d2)
			}
			agrees(t, seed, placement.Explain(w.state, &req), v)
			if !reflect.DeepEqual(w.state.Snapshot(), before) {
				t.Fatalf("seed %d: asking changed the state", seed)
			}
		})
	}
}

// TestScarcity: an unresolvable refusal remains whichever pods are removed. If all pods are
// removed, a pod with a resolvable refusal is admitted, except for reasons that only a less full
// node has.
func TestScarcity(t *testing.T) {
	counts := map[placement.Scarcity]int{}
	for seed := range uint64(1200) {
		w := newWorld(t, seed, true)
		if w == nil {
			continue
		}
		for range 8 {
			w.step()
		}
		req := w.request()
		v := placement.Admit(w.state, &req)
		counts[v.Scarcity]++
		w.r.Shuffle(len(w.pods), func(i, j int) { w.pods[i], w.pods[j] = w.pods[j], w.pods[i] })
		for _, uid := range w.pods {
			w.state.Release(uid)
			if now := placement.Admit(w.state, &req); v.Scarcity == placement.Unresolvable && now.OK() {
				t.Fatalf("seed %d: %+v, and without %s %+v", seed, v, uid, now)
			}
		}
		if now := placement.Admit(w.state, &req); v.Scarcity == placement.Resolvable && now.Scarcity == placement.Unresolvable {
			t.Fatalf("seed %d: %+v, and on an empty node %+v", seed, v, now)
		}
	}
	if counts[placement.Resolvable] < 30 || counts[placement.Unresolvable] < 30 {
		t.Errorf("%v: want more of each", counts)
	}
}

func agrees(t *testing.T, seed uint64, r placement.Refusal, v placement.Verdict) {
	t.Helper()
	if r.Reason != v.Reason || r.Detail != v.Detail || (r.String() == "admitted") != v.OK() {
		t.Fatalf("seed %d: refusal %+v, verdict %+v", seed, r, v)
	}
	if strings.ContainsAny(r.String(), "\n\r") {
		t.Fatalf("seed %d: %q is not one line", seed, r.String())
	}
	one, err := json.Marshal(r)
	two, _ := json.Marshal(r)
	if err != nil || string(one) != string(two) {
		t.Fatalf("seed %d: JSON %s, %v", seed, one, err)
	}
}

// TestExplainNumbers: with single-numa-node and a request for only CPUs, a pod is refused exactly
// if no NUMA node has the number of free CPUs that the refusal reports as requested.
func TestExplainNumbers(t *testing.T) {
	_, s := m8.load(t, "single-numa-node", true)
	refused := 0
	for cpus := int64(1); cpus < 40; cpus++ {
		r := placement.Request{UID: "p", Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: cpus * 1000,
			Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: 1 << 20}}}}}
		v, e := placement.Admit(s, &r), placement.Explain(s, &r)
		if v.OK() {
			continue
		}
		refused++
		for _, n := range e.Needs[0].Nodes {
			if n.Free >= uint64(cpus) {
				t.Errorf("%d CPUs refused though NUMA %d has %d", cpus, n.NUMA, n.Free)
			}
		}
	}
	if refused != 23 {
		t.Errorf("%d sizes refused, want 23: each node has 16 free CPUs", refused)
	}
}

// TestNoAllocations: a warm engine answers without allocating.
func TestNoAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("with the race detector sync.Pool forgets on purpose: run without -race, as make test does once more")
	}
	eachLoad(t, func(name string, f func(*testing.T)) { t.Run(name, f) }, func(t *testing.T, s *placement.State, r *placement.Request) {
		var d placement.Decision
		placement.Decide(s, r, &d)
		refused := *r
		refused.Containers = append([]placement.ContainerRequest(nil), r.Containers...)
		refused.Containers[0].MilliCPU = 200_000
		for name, f := range map[string]func(){
			"Admit":   func() { placement.Admit(s, r) },
			"refusal": func() { placement.Admit(s, &refused) },
			"Decide":  func() { placement.Decide(s, r, &d) },
		} {
			f()
			if n := testing.AllocsPerRun(50, f); n >= 1 {
				t.Errorf("%s allocates %v times", name, n)
			}
		}
		c := s.Clone()
		if n := testing.AllocsPerRun(50, func() { c.CopyFrom(s) }); n != 0 {
			t.Errorf("CopyFrom allocates %v times", n)
		}
	})
}

// TestCloneIsIndependent: changes of a copy do not change the original.
func TestCloneIsIndependent(t *testing.T) {
	for seed := range uint64(200) {
		w := newWorld(t, seed, true)
		if w == nil {
			continue
		}
		for range 5 {
			w.step()
		}
		before := w.state.Snapshot()
		c := world{r: w.r, model: w.model, state: w.state.Clone(), next: 100, pods: append([]string(nil), w.pods...), asked: map[string]placement.Request{}}
		for range 5 {
			c.step()
		}
		if got := w.state.Snapshot(); !reflect.DeepEqual(got, before) {
			t.Fatalf("seed %d: the original changed", seed)
		}
	}
}

// TestConcurrent: goroutines may ask one model about one state at the same time. The race detector
// checks this.
func TestConcurrent(t *testing.T) {
	_, s := m8.load(t, "best-effort", true)
	requests := []placement.Request{pod1(), pod2(), cpus("wide", 40), cpus("absurd", 900)}
	var want [4]placement.Verdict
	for i := range requests {
		want[i] = placement.Admit(s, &requests[i])
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			var d placement.Decision
			own := s.Clone()
			for n := range 200 {
				i := n % len(requests)
				if got := placement.Decide(s, &requests[i], &d); got != want[i] {
					t.Errorf("got %+v, want %+v", got, want[i])
				}
				if want[i].OK() {
					own.Commit(&requests[i], &d)
					own.Release(requests[i].UID)
				}
			}
		})
	}
	group.Wait()
}

// FuzzStateOf: for every snapshot, StateOf returns a consistent state or an error.
func FuzzStateOf(f *testing.F) {
	w := newWorld(f, 3, true)
	for range 6 {
		w.step()
	}
	seed, err := json.Marshal(w.state.Snapshot())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{"Pods":[{"UID":"a","Containers":[{"Name":"c","CPUs":"0-3"}]},{"UID":"b","Containers":[{"Name":"c","CPUs":"3"}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var snap placement.Snapshot
		if json.Unmarshal(text, &snap) != nil {
			return
		}
		m, _ := m8.load(t, "restricted", false)
		s, err := m.StateOf(&snap)
		if err != nil {
			return
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		r := pod2()
		placement.Explain(s, &r)
	})
}

// TestContradictions: StateOf refuses contradictory snapshots, and the error names the
// contradiction.
func TestContradictions(t *testing.T) {
	m, s := m2.load(t, "restricted", true)
	for name, test := range map[string]struct {
		spoil func(*placement.Snapshot)
		want  string
	}{
		"CPU held twice":      {func(s *placement.Snapshot) { s.Pods[1].Containers[0].CPUs = s.Pods[0].Containers[0].CPUs }, "pods[load1].containers[c].cpus"},
		"CPU shared and held": {func(s *placement.Snapshot) { s.SharedCPUs = s.SharedCPUs.Or(&s.Pods[0].Containers[0].CPUs) }, "pods[load0].containers[c].cpus"},
		"CPU lost":            {func(s *placement.Snapshot) { s.SharedCPUs.Remove(0) }, "sharedCPUs"},
		"CPU unknown":         {func(s *placement.Snapshot) { s.SharedCPUs.Add(900) }, "sharedCPUs"},
		"bytes lost":          {func(s *placement.Snapshot) { s.Memory[0].Resources[1].Free-- }, "memory"},
		"bytes of nobody":     {func(s *placement.Snapshot) { s.Memory[0].Resources[1].Free--; s.Memory[0].Resources[1].Reserved++ }, "memory"},
		"assignments":         {func(s *placement.Snapshot) { s.Memory[1].Assignments = 7 }, "memory[1]"},
		"group":               {func(s *placement.Snapshot) { s.Memory[1].Cells = 1 }, "memory"},
		"node missing":        {func(s *placement.Snapshot) { s.Memory = s.Memory[:1] }, "memory"},
		"another machine":     {func(s *placement.Snapshot) { s.Memory[0].Resources[1].Allocatable++ }, "memory[0].memory"},
		"row missing":         {func(s *placement.Snapshot) { s.Memory[0].Resources = s.Memory[0].Resources[:1] }, "memory[0]"},
		"block on no node":    {func(s *placement.Snapshot) { s.Pods[0].Containers[0].Memory[0].NUMA = 0 }, "pods[load0].containers[c].memory"},
		"pod twice":           {func(s *placement.Snapshot) { s.Pods[1].UID = "load0" }, "pods[load0]"},
		"pod without UID":     {func(s *placement.Snapshot) { s.Pods[1].UID = "" }, "pods[].uid"},
		"container twice": {func(s *placement.Snapshot) {
			s.Pods[0].Containers = append(s.Pods[0].Containers, placement.ContainerAllocation{Name: "c"})
		}, "pods[load0].containers[c].name"},
		"container twice among many": {func(s *placement.Snapshot) {
			c := &s.Pods[0].Containers
			for i := range 40 {
				*c = append(*c, placement.ContainerAllocation{Name: fmt.Sprint("many", i)})
			}
			*c = append(*c, placement.ContainerAllocation{Name: "many7"})
		}, "pods[load0].containers[many7].name"},
		"device held twice": {func(s *placement.Snapshot) {
			for i := range s.Pods {
				s.Pods[i].Containers[0].Devices = []placement.DeviceAllocation{{Resource: "example.com/gpu", IDs: []string{"gpu0"}}}
			}
		}, "pods[load1].containers[c].devices"},
		"pool twice": {func(s *placement.Snapshot) { s.Devices = append(s.Devices, s.Devices[0]) }, "devices[example.com/gpu]"},
	} {
		snap := s.Snapshot()
		for i := range snap.Pods {
			snap.Pods[i].Containers[0].Memory = append([]placement.MemoryBlock(nil), snap.Pods[i].Containers[0].Memory...)
		}
		test.spoil(&snap)
		_, err := m.StateOf(&snap)
		wrong, ok := err.(*placement.StateError)
		if !ok || wrong.Field != test.want {
			t.Errorf("%s: got %v, want an error about %s", name, err, test.want)
		}
	}
}

// TestManyContainers: a report with the largest possible number of containers is read quickly, even
// if it is forged.
func TestManyContainers(t *testing.T) {
	m, s := m2.load(t, "restricted", true)
	snap := s.Snapshot()
	for i := range 100_000 {
		snap.Pods[0].Containers = append(snap.Pods[0].Containers, placement.ContainerAllocation{Name: fmt.Sprint("many", i)})
	}
	start := time.Now()
	if _, err := m.StateOf(&snap); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("100000 containers took %v", took)
	}
}

// TestEmptySnapshot: an empty snapshot gives the state of a new kubelet.
func TestEmptySnapshot(t *testing.T) {
	m, s := m2.load(t, "restricted", false)
	snap := placement.Snapshot{Devices: s.Snapshot().Devices}
	got, err := m.StateOf(&snap)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Snapshot(), s.Snapshot()) {
		t.Errorf("got %+v, want %+v", got.Snapshot(), s.Snapshot())
	}
	if shared := got.SharedCPUs(); shared.Len() != 256 {
		t.Errorf("%d shared CPUs, want 256", shared.Len())
	}
}
