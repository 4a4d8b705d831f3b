package placement_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-dev/berth/placement"
)

// TestResize compares each answer of each release with the release's source.
func TestResize(t *testing.T) {
	const (
		static133 = "Resize is infeasible for Guaranteed Pods alongside CPU Manager static policy"
		memory133 = "Resize is infeasible for Guaranteed Pods alongside Memory Manager static policy"
		static    = `Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`
		memory    = `Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"`
		gib       = 1 << 30
	)
	type change struct{ cpu, bytes int64 }
	for name, c := range map[string]struct {
		cpu, memory string // the managers' policies
		gates       map[string]bool
		kind        placement.ContainerKind
		burstable   bool
		change      change
		others      change
		swaps       bool
		want        map[placement.Version]string // from that release on
	}{
		"CPUs of a pinned pod":             {cpu: "static", change: change{cpu: 2000}, want: map[placement.Version]string{133: "infeasible: " + static133, 134: "infeasible: " + static}},
		"fewer":                            {cpu: "static", change: change{cpu: -2000}, want: map[placement.Version]string{133: "infeasible: " + static133, 134: "infeasible: " + static}},
		"CPU time of a Guaranteed pod":     {cpu: "static", change: change{cpu: 500}, want: map[placement.Version]string{133: "infeasible: " + static133, 134: "infeasible: " + static}},
		"of a Burstable pod":               {cpu: "static", memory: "Static", burstable: true, change: change{500, gib}, want: map[placement.Version]string{133: "proceeds"}},
		"memory, no memory manager":        {cpu: "static", change: change{bytes: gib}, want: map[placement.Version]string{133: "infeasible: " + static133, 134: "proceeds"}},
		"memory, memory manager Static":    {cpu: "static", memory: "Static", change: change{bytes: gib}, want: map[placement.Version]string{133: "infeasible: " + static133, 134: "infeasible: " + memory}},
		"memory, only a memory manager":    {memory: "Static", change: change{bytes: -gib}, want: map[placement.Version]string{133: "infeasible: " + memory133, 134: "infeasible: " + memory}},
		"CPU, only a memory manager":       {memory: "Static", change: change{cpu: 1000}, want: map[placement.Version]string{133: "infeasible: " + memory133, 134: "proceeds"}},
		"no managers":                      {change: change{1000, gib}, want: map[placement.Version]string{133: "proceeds"}},
		"nothing":                          {cpu: "static", want: map[placement.Version]string{133: "proceeds"}},
		"an init container":                {cpu: "static", kind: placement.Init, change: change{cpu: 1000}, want: map[placement.Version]string{133: "proceeds", 136: "infeasible: " + static}},
		"an init container, gate off":      {cpu: "static", kind: placement.Init, gates: map[string]bool{"InPlacePodVerticalScalingInitContainers": false}, change: change{cpu: 1000}, want: map[placement.Version]string{133: "proceeds", 137: "infeasible: " + static}},
		"a sidecar":                        {cpu: "static", kind: placement.Sidecar, change: change{cpu: 1000}, want: map[placement.Version]string{133: "infeasible: " + static133, 134: "infeasible: " + static}},
		"memory that swaps":                {burstable: true, swaps: true, change: change{bytes: gib}, want: map[placement.Version]string{133: "infeasible: In-place resize of containers with swap is not supported."}},
		"CPU of a container that swaps":    {burstable: true, swaps: true, change: change{cpu: 1000}, want: map[placement.Version]string{133: "proceeds"}},
		"the gate is off":                  {gates: map[string]bool{"InPlacePodVerticalScaling": false}, change: change{cpu: 1000}, want: map[placement.Version]string{133: "infeasible: InPlacePodVerticalScaling is disabled", 135: "proceeds"}},
		"exclusive CPUs may be resized":    {cpu: "static", gates: map[string]bool{"InPlacePodVerticalScalingExclusiveCPUs": true}, change: change{cpu: 1000}, want: map[placement.Version]string{133: "unknown: the kubelet's feature gate InPlacePodVerticalScalingExclusiveCPUs is on: its decisions are not known"}},
		"more CPU than allocatable":        {change: change{cpu: 200_000}, want: map[placement.Version]string{133: "infeasible: Node didn't have enough capacity: cpu, requested: 204000, capacity: 128000", 136: "rejected: node didn't have enough allocatable resources: cpu, requested: 204000, allocatable: 128000"}},
		"of a pinned pod":                  {cpu: "static", change: change{cpu: 200_000}, want: map[placement.Version]string{133: "infeasible: " + static133, 134: "infeasible: " + static, 136: "rejected: node didn't have enough allocatable resources: cpu, requested: 204000, allocatable: 128000"}},
		"more of both":                     {change: change{200_000, 64 * gib}, want: map[placement.Version]string{133: "infeasible: Node didn't have enough capacity: memory, requested: 69793218560, capacity: 68719476736", 136: "rejected: node didn't have enough allocatable resources: cpu, requested: 204000, allocatable: 128000; memory, requested: 69793218560, allocatable: 68719476736"}},
		"more CPU than is left":            {change: change{cpu: 4000}, others: change{cpu: 122_000}, want: map[placement.Version]string{133: "deferred: Node didn't have enough resource: cpu, requested: 8000, used: 122000, capacity: 128000"}},
		"more memory than is left":         {burstable: true, cpu: "static", change: change{bytes: 4 * gib}, others: change{bytes: 62 * gib}, want: map[placement.Version]string{133: "deferred: Node didn't have enough resource: memory, requested: 5368709120, used: 66571993088, capacity: 68719476736"}},
		"less, on a node that is too full": {change: change{cpu: -1000}, others: change{cpu: 126_000}, want: map[placement.Version]string{133: "deferred: Node didn't have enough resource: cpu, requested: 3000, used: 126000, capacity: 128000"}},
	} {
		var want string
		for v := placement.V133; v <= placement.V137; v++ {
			if now, changed := c.want[100+v]; changed {
				want = now
			}
			t.Run(fmt.Sprintf("%s/1.%d", name, v), func(t *testing.T) {
				config := placement.Config{Version: v, CPUManagerPolicy: c.cpu, MemoryManagerPolicy: c.memory, FeatureGates: c.gates, ReservedSystemCPUs: "0"}
				if c.memory != "" {
					config.ReservedMemory = m2.config("none").ReservedMemory
				}
				s := state(t, m2.view(), config)
				r := cpus("p", 4)
				r.Guaranteed = !c.burstable
				r.Containers[0].Kind, r.Containers[0].Memory[0].Bytes = c.kind, gib
				if v := admit(s, r); !v.OK() {
					t.Fatal(v)
				}
				now := cpus("p", 4)
				now.Guaranteed = r.Guaranteed
				now.Containers[0].Kind, now.Containers[0].MilliCPU = c.kind, 4000+c.change.cpu
				now.Containers[0].Memory[0].Bytes = uint64(gib + c.change.bytes)
				before := s.Snapshot()
				a := s.Resize(&placement.Resize{Had: &r, Wants: &now, Swaps: c.swaps,
					MilliCPU: placement.ResizeSum{Asked: 4000 + c.change.cpu, Others: c.others.cpu, Allocatable: 128_000},
					Memory:   placement.ResizeSum{Asked: gib + c.change.bytes, Others: c.others.bytes, Allocatable: 64 * gib}})
				got := a.Outcome.String()
				if a.Message != "" {
					got += ": " + a.Message
				}
				if got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
				if after := s.Snapshot(); fmt.Sprint(before) != fmt.Sprint(after) {
					t.Error("the question changed the state")
				}
			})
		}
	}
}

// TestResizeOfMemoryAdmitsAgain: memory of a pinned pod may change. Before 1.37, the kubelet then
// requires as many free whole cores as the pod has.
func TestResizeOfMemoryAdmitsAgain(t *testing.T) {
	for _, guard := range []bool{false, true} {
		for v := placement.V134; v <= placement.V137; v++ {
			config := m2.config("none")
			config.Version, config.GuardDefects, config.MemoryManagerPolicy, config.ReservedMemory = v, guard, "", nil
			config.CPUManagerPolicyOptions = map[string]string{"full-pcpus-only": "true"}
			s := state(t, m2.view(), config)
			r, now := cpus("p", 150), cpus("p", 150)
			if v := admit(s, r); !v.OK() {
				t.Fatal(v)
			}
			now.Containers[0].Memory[0].Bytes *= 2
			sum := placement.ResizeSum{Asked: 1, Allocatable: 1 << 40}
			want := placement.ResizeAnswer{}
			if v < placement.V137 {
				want = placement.ResizeAnswer{Outcome: placement.ResizeDeferred, Message: "SMTAlignmentError: full-pcpus-only: too few CPUs are free on cores without reserved CPUs"}
			}
			if got := s.Resize(&placement.Resize{Had: &r, Wants: &now, MilliCPU: sum, Memory: sum}); got != want {
				t.Errorf("1.%d: %+v, want %+v", v, got, want)
			}
		}
	}
}

// TestResizeOfAWhole: before 1.37, a kubelet that resizes a pod places the pod once more by
// spec.resources, as a restarting kubelet does (TestWholeOnceMore).
func TestResizeOfAWhole(t *testing.T) {
	shares, alone := asWhole("p", 4000, 8, app("a", 2000, 1), app("s", 0, 0)), asWhole("p", 2000, 8, app("a", 2000, 1))
	none := asWhole("p", 500, 8, app("a", 500, 1))
	for _, c := range []struct {
		name    string
		pod     placement.Request
		others  int64
		outcome placement.ResizeOutcome
		message string
	}{
		{"it gets other CPUs", alone, 0, placement.ResizeProceeds, "kubernetes#140989"},
		{"a container shares", shares, 0, placement.ResizeDeferred, "Pod Scope pod with pod-level resources failed admission"},
		{"no CPUs are left for that", alone, 14, placement.ResizeDeferred, "UnexpectedAdmissionError: too few CPUs are free"},
		{"it has no CPUs of its own", none, 0, placement.ResizeProceeds, ""},
	} {
		for v := placement.V136; v <= placement.V137; v++ {
			s := leveled(t, "pod", func(c *placement.Config) { c.Version, c.MemoryManagerPolicy, c.ReservedMemory = v, "None", nil })
			if v := admit(s, c.pod); !v.OK() {
				t.Fatalf("%s: %+v", c.name, v)
			}
			for i := range c.others / 7 {
				if v := admit(s, cpus(fmt.Sprint("other", i), min(7, 5+2*i))); !v.OK() {
					t.Fatalf("%s: %+v", c.name, v)
				}
			}
			now := c.pod
			now.Containers = []placement.ContainerRequest{app("a", now.Containers[0].MilliCPU, 2)}
			now.Containers[0].Guaranteed = true
			now.Containers = append(now.Containers, c.pod.Containers[1:]...)
			sum := placement.ResizeSum{Asked: 1, Allocatable: 1 << 40}
			got := s.Resize(&placement.Resize{Had: &c.pod, Wants: &now, MilliCPU: sum, Memory: sum})
			outcome, message := c.outcome, c.message
			if v == placement.V137 {
				outcome, message = placement.ResizeProceeds, ""
			}
			if got.Outcome != outcome || !strings.Contains(got.Message, message) || message == "" && got.Message != "" {
				t.Errorf("%s, 1.%d: %+v, want %v: ...%s...", c.name, v, got, outcome, message)
			}
		}
	}
}
