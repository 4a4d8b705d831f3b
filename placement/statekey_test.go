package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
)

// TestStateKey: states with equal keys give the same verdicts. Unequal states can have equal keys.
func TestStateKey(t *testing.T) {
	alike, unlike := 0, 0
	compare := func(w *world) {
		states := relatives(w)
		keys := make([]string, len(states))
		for i, s := range states {
			keys[i] = string(s.AppendStateKey(nil))
		}
		for range 4 {
			r := w.request()
			for i, a := range states {
				for j, b := range states[:i] {
					if keys[i] != keys[j] {
						continue
					}
					if a.Equal(b) {
						alike++
					} else {
						unlike++
					}
					if x, y := placement.Admit(a, &r), placement.Admit(b, &r); x != y {
						t.Fatalf("%+v and %+v to %+v of\n%+v\n%+v", x, y, r, a.Snapshot(), b.Snapshot())
					}
				}
			}
		}
	}
	for seed := range uint64(120) {
		live(t, seed, compare)
	}
	if alike < 100 || unlike < 100 {
		t.Errorf("%d equal pairs and %d others were alike: want many of both", alike, unlike)
	}
}

// relatives returns states that differ a little from the world's: a pod is gone, another pod has
// its resources, or devices have other names.
func relatives(w *world) []*placement.State {
	states := []*placement.State{w.state, w.state.Clone()}
	for _, uid := range w.pods[:min(3, len(w.pods))] {
		gone := w.state.Clone()
		gone.Release(uid)
		other := gone.Clone()
		r := w.asked[uid]
		r.UID += "-again"
		var d placement.Decision
		if v := placement.Decide(other, &r, &d); v.OK() {
			other.Commit(&r, &d)
		}
		states = append(states, gone, other)
	}
	if s := renamed(w); s != nil {
		states = append(states, s)
	}
	return states
}

// renamed returns the state of a node whose devices have other names, in the same order; nil if
// there are no devices.
func renamed(w *world) *placement.State {
	snap := w.state.Snapshot()
	if len(snap.Devices) == 0 {
		return nil
	}
	name := func(id string) string { return fmt.Sprint("z", id) }
	for i := range snap.Devices {
		snap.Devices[i].Devices = slices.Clone(snap.Devices[i].Devices)
		for j := range snap.Devices[i].Devices {
			snap.Devices[i].Devices[j].ID = name(snap.Devices[i].Devices[j].ID)
		}
	}
	for i := range snap.Pods {
		for j := range snap.Pods[i].Containers {
			c := &snap.Pods[i].Containers[j]
			c.Devices = slices.Clone(c.Devices)
			for k := range c.Devices {
				held := &c.Devices[k]
				held.IDs = slices.Clone(held.IDs)
				for l := range held.IDs {
					held.IDs[l] = name(held.IDs[l])
				}
			}
		}
	}
	s, err := w.model.StateOf(&snap)
	if err != nil {
		return nil
	}
	return s
}

// TestPoolsKeyCountsEveryNUMANode: NUMA node 0 has no CPUs, so the node with the highest id is not
// among the first of the nodes with CPUs.
func TestPoolsKeyCountsEveryNUMANode(t *testing.T) {
	m := made.Model(t, "package:2 numa:1=0-3;2=4-7 memonly:0 core:4 pu:1 mem:64Gi", placement.Config{CPUManagerPolicy: "static", ReservedMilliCPU: 1000, TopologyManagerPolicy: "restricted"})
	keys := map[string]string{}
	for _, nodes := range [][]topology.NUMAID{{}, {0}, {1}, {2}, {2, 2}} {
		s, pool := m.NewState(), placement.DevicePool{Resource: "example.com/gpu"}
		for i, node := range nodes {
			pool.Devices = append(pool.Devices, placement.Device{ID: fmt.Sprint(i), HasTopology: true, NUMA: topology.NewNUMASet(node)})
		}
		s.SetPool(pool)
		key := string(s.AppendPoolsKey(nil))
		if other, known := keys[key]; known {
			t.Errorf("devices on NUMA nodes %v and on %s have the same key %q", nodes, other, key)
		}
		keys[key] = fmt.Sprint(nodes)
	}
}
