package main

import (
	"io/fs"
	"os"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// group is where a container runs, as its cgroup has it.
type group struct {
	uid, container string
	cpus           topology.CPUSet
}

// readGroups reads the cgroups below a folder. What vanishes meanwhile has ended.
func readGroups(dir string) (all []group) {
	root := os.DirFS(dir)
	_ = fs.WalkDir(root, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Base(name) != "cpuset.cpus.effective" {
			return nil //nolint:nilerr // it has ended
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return nil //nolint:nilerr // it has ended
		}
		set, err := topology.ParseCPUList(strings.TrimSpace(string(text)))
		parts := strings.Split(name, "/") // kubepods, UID, NAME-ATTEMPT, file
		if err == nil && len(parts) == 4 {
			all = append(all, group{parts[1], parts[2][:strings.LastIndex(parts[2], "-")], set})
		}
		return nil
	})
	return all
}

// decisions are those of all pods that were ever bound, by UID.
type decisions map[string]*placement.Decision

func (d decisions) note(pod *corev1.Pod) {
	if p, found, err := wire.ReadPlacement(pod); found && err == nil {
		d[string(pod.UID)] = &p.Decision
	}
}

func (d decisions) of(g *group) *placement.ContainerDecision {
	if p := d[g.uid]; p != nil {
		for i := range p.Containers {
			if p.Containers[i].Name == g.container {
				return &p.Containers[i]
			}
		}
	}
	return nil
}

// faults are what is wrong on a node, each with a name, so that it counts once.
type faults struct{ heldTwice, outside, unconfined map[string]bool }

func newFaults() faults {
	return faults{map[string]bool{}, map[string]bool{}, map[string]bool{}}
}

// judge says what is wrong with what runs on a machine.
func judge(m *topology.Machine, groups []group, all decisions) faults {
	f := newFaults()
	for i := range groups {
		g := &groups[i]
		d := all.of(g)
		name := g.uid + "/" + g.container
		switch {
		case d == nil:
		case !d.CPUs.IsEmpty() && g.cpus != d.CPUs:
			f.outside[name] = true
		case d.CPUs.IsEmpty() && d.Bounds&placement.BoundCPUs != 0 && !within(m, g.cpus, d.Shares):
			f.outside[name] = true
		}
		if g.cpus.IsEmpty() {
			f.unconfined[name] = true
		}
		for j := range groups {
			o := &groups[j]
			od := all.of(o)
			if o.uid == g.uid || od == nil || od.CPUs.IsEmpty() || !g.cpus.Intersects(&od.CPUs) {
				continue
			}
			if d != nil && !d.CPUs.IsEmpty() {
				f.heldTwice[name+" "+o.uid] = true
			} else {
				f.unconfined[name] = true
			}
		}
	}
	return f
}

// within says whether the CPUs are of the NUMA nodes of the shares.
func within(m *topology.Machine, cpus topology.CPUSet, shares []placement.CPUShare) bool {
	var nodes topology.CPUSet
	for _, s := range shares {
		if n := m.NUMANode(s.NUMA); n != nil {
			nodes = nodes.Or(&n.CPUs)
		}
	}
	return cpus.IsSubsetOf(&nodes)
}

// both keeps what is wrong in both: cgroups are read one after the other, and a change may have
// come between.
func (f faults) both(o faults) faults {
	out := newFaults()
	for _, pair := range [...]struct{ to, a, b map[string]bool }{{out.heldTwice, f.heldTwice, o.heldTwice}, {out.outside, f.outside, o.outside}, {out.unconfined, f.unconfined, o.unconfined}} {
		for name := range pair.a {
			if pair.b[name] {
				pair.to[name] = true
			}
		}
	}
	return out
}

func (f faults) empty() bool { return len(f.heldTwice)+len(f.outside)+len(f.unconfined) == 0 }

// add adds what is wrong elsewhere.
func (f faults) add(o faults) {
	for _, pair := range [...]struct{ to, from map[string]bool }{{f.heldTwice, o.heldTwice}, {f.outside, o.outside}, {f.unconfined, o.unconfined}} {
		for name := range pair.from {
			pair.to[name] = true
		}
	}
}
