package main

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/topology"
)

// TestAlign: align gives the expected alignment of devices and CPUs.
func TestAlign(t *testing.T) {
	m, err := topology.Parse(kinds[1].machine) // NUMA nodes 0 to 3 have CPUs 0-3, 4-7, 8-11 and 12-15
	if err != nil {
		t.Fatal(err)
	}
	on := func(at ...int) []sample { return numbered(gpuAt, at...) }
	has := func(cpus topology.CPUSet, memory topology.NUMASet) belongings {
		return belongings{cpus: cpus, memory: memory}
	}
	for name, c := range map[string]struct {
		mine    belongings
		devices []sample
		want    alignment
	}{
		"the same":                  {has(topology.NewCPUSet(1, 2), 0), on(0), aligned},
		"another":                   {has(topology.NewCPUSet(1, 2), 0), on(1), misaligned},
		"one of two":                {has(topology.NewCPUSet(1, 2), 0), on(0, 3), misaligned},
		"CPUs on both":              {has(topology.NewCPUSet(3, 12), 0), on(0, 3), aligned},
		"no NUMA node":              {has(topology.NewCPUSet(1), 0), on(nowhere), neutral},
		"some have no NUMA node":    {has(topology.NewCPUSet(1), 0), on(nowhere, 0), aligned},
		"the misaligned one counts": {has(topology.NewCPUSet(1), 0), on(nowhere, 0, 2), misaligned},
		"no CPUs of its own":        {has(topology.CPUSet{}, 0), on(2), neutral},
		"memory on the same":        {has(topology.NewCPUSet(1), topology.NewNUMASet(0)), on(0), aligned},
		"memory on another":         {has(topology.NewCPUSet(1), topology.NewNUMASet(1)), on(0), misaligned},
		"no devices":                {has(topology.NewCPUSet(1), 0), nil, neutral},
	} {
		if got, which := align(m, c.mine, c.devices); got != c.want || (which != "") != (c.want == misaligned) {
			t.Errorf("%s: %d, %q; want %d", name, got, which, c.want)
		}
	}
}

func TestOverlap(t *testing.T) {
	a := belongings{uid: "a", container: "x", cpus: topology.NewCPUSet(1, 2)}
	sidecar := belongings{uid: "a", container: "y", cpus: topology.NewCPUSet(2)}
	b := belongings{uid: "b", container: "x", cpus: topology.NewCPUSet(2, 3)}
	if got := overlap([]belongings{a, sidecar}); got != "" {
		t.Error("containers of a pod may share cpus: " + got)
	}
	if overlap([]belongings{a, b}) == "" {
		t.Error("two pods have CPU 2, and there is no violation")
	}
}

// TestPlan: a plan depends only on the seed, and has every kind of pod and of kill.
func TestPlan(t *testing.T) {
	plan := NewPlan(7, 400)
	if !reflect.DeepEqual(plan, NewPlan(7, 400)) || reflect.DeepEqual(plan, NewPlan(8, 400)) {
		t.Error("a plan depends on more than its seed")
	}
	used, asks, kills := map[string]bool{}, map[string]bool{}, map[Kill]bool{}
	there, hasty, ends := map[string]bool{}, 0, 0
	for _, s := range plan {
		if s.Hasty {
			hasty++
		}
		if (s.Kill == KillKubelet) != (s.Node != "") {
			t.Errorf("kill %d of node %q", s.Kill, s.Node)
		}
		for _, c := range s.Pod.Claims {
			if templates[c] == "" {
				t.Errorf("pod %s: no template %s", s.Pod.Name, c)
			}
			used[c] = true
		}
		used["shared"] = used["shared"] || s.Pod.Shares != ""
		asks[s.Pod.Ask], kills[s.Kill] = true, true
		there[s.Pod.Name] = true
		if s.Ends != "" && !there[s.Ends] {
			t.Errorf("pod %s ends, and is not there", s.Ends)
		}
		if s.Ends != "" {
			ends++
		}
		delete(there, s.Ends)
	}
	if hasty == 0 || hasty > ends/3 {
		t.Errorf("%d of %d pods end whether or not they run: want few", hasty, ends)
	}
	want := []string{"shared"}
	for name := range templates {
		if name != "many" && name != "all" && name != "slow" { // templates of scenes
			want = append(want, name)
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(used)); !slices.Equal(got, want) || len(asks) != 3 || len(kills) != 4 {
		t.Errorf("claims %v, asks %v, kills %v; want claims %v", got, asks, kills, want)
	}
}

// TestNames: a refusal names a claim of the pod or a device.
func TestNames(t *testing.T) {
	claim := "p1-c0-abcde"
	pod := &corev1.Pod{}
	pod.UID = types.UID("u")
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c0", ResourceClaimName: &claim}}
	for message, want := range map[string]bool{
		"0/3 nodes are available: 3 Insufficient cpu.":                           false,
		"claim dra/p1-c0-abcde: request all has adminAccess":                     true,
		"\"berth.dev/claims: required\": no free device on NUMA node 1":          true,
		"device gpu.example.com/n0/gpu-1 is on NUMA node 1":                      true,
		"0/3 nodes are available: 3 cannot allocate all claims":                  false,
		"claim dra/p2-c0-abcde is shared with pod p3: want a claim for each pod": false,
	} {
		if names(message, pod) != want {
			t.Errorf("%q names the claim: want %t", message, want)
		}
	}
}
