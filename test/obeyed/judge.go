// Package obeyed judges containers on nodes with authority berth. It compares the CPUs, memory
// nodes and devices of each container with the decision of the pod's Binding.
package obeyed

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// Group has the CPUs and memory nodes of a container or of one of its processes.
type Group struct {
	UID, Container string
	CPUs           topology.CPUSet
	// Mems are its memory nodes; 0 if not read.
	Mems topology.NUMASet
	// Devices are the addresses of the devices in its environment, by the name of the variable; nil
	// if not read.
	Devices map[string]string
	// Limit is its memory limit; 0 if it is not known.
	Limit uint64
}

// Decisions are the decisions of all pods that were ever bound, by UID.
type Decisions map[string]*placement.Decision

// Note keeps the decision of a pod, if it has one.
func (d Decisions) Note(pod *corev1.Pod) {
	if p, found, err := wire.ReadPlacement(pod); found && err == nil {
		d[string(pod.UID)] = &p.Decision
	}
}

func (d Decisions) of(g *Group) *placement.ContainerDecision {
	if p := d[g.UID]; p != nil {
		for i := range p.Containers {
			if p.Containers[i].Name == g.Container {
				return &p.Containers[i]
			}
		}
	}
	return nil
}

// Faults are the failures of a node: texts by the name of the container, so that each counts once.
type Faults struct {
	// HeldTwice are containers of two pods that run on the same exclusive CPUs, or have the same
	// device.
	HeldTwice map[string]string
	// Outside are containers that do not run as decided.
	Outside map[string]string
	// Unconfined are shared containers on exclusive CPUs of another container, or on none.
	Unconfined map[string]string
}

// NewFaults returns empty Faults.
func NewFaults() Faults {
	return Faults{map[string]string{}, map[string]string{}, map[string]string{}}
}

// Judge returns the failures among the containers of a machine.
func Judge(m *topology.Machine, groups []Group, all Decisions) Faults {
	f := NewFaults()
	for i := range groups {
		g := &groups[i]
		d := all.of(g)
		name := g.UID + "/" + g.Container
		if d != nil {
			if why := beside(m, g, d); why != "" {
				f.Outside[name] = why
			}
		} else if why := otherDevices(g, nil); why != "" {
			f.Outside[name] = why
		}
		f.judgeDevices(g, groups[:i])
		if g.CPUs.IsEmpty() {
			f.Unconfined[name] = "runs on no CPU"
		}
		for j := range groups {
			if od := all.of(&groups[j]); od != nil && !od.CPUs.IsEmpty() {
				f.judgeCPUs(g, &groups[j], d != nil && !d.CPUs.IsEmpty(), AloneFor(m, od))
			}
		}
	}
	return f
}

// judgeDevices records a fault if a container of another pod has a device of this container.
func (f *Faults) judgeDevices(g *Group, others []Group) {
	for i := range others {
		if o := &others[i]; o.UID != g.UID {
			if both := sharedDevice(g, o); both != "" {
				f.HeldTwice[g.UID+"/"+g.Container+" "+o.UID+" "+both] = fmt.Sprintf("has device %s, and so has %s/%s", both, o.UID, o.Container)
			}
		}
	}
}

// judgeCPUs records a fault if a container, with exclusive or shared CPUs, runs on another's
// exclusive CPUs.
func (f *Faults) judgeCPUs(g, o *Group, holds bool, alone topology.CPUSet) {
	name, text := g.UID+"/"+g.Container, fmt.Sprintf("runs on CPUs %s, but CPUs %s are exclusive to %s/%s", g.CPUs, alone, o.UID, o.Container)
	switch {
	case !g.CPUs.Intersects(&alone):
	case !holds:
		f.Unconfined[name] = text
	case o.UID != g.UID:
		f.HeldTwice[name+" "+o.UID] = text
	}
}

// beside describes how a container differs from its decision; "" if it does not.
func beside(m *topology.Machine, g *Group, d *placement.ContainerDecision) string {
	if why := otherDevices(g, d); why != "" {
		return why
	}
	switch {
	case !d.CPUs.IsEmpty() && g.CPUs != d.CPUs:
		return fmt.Sprintf("runs on CPUs %s: want the decided CPUs %s", g.CPUs, d.CPUs)
	case d.CPUs.IsEmpty() && d.Bounds&placement.BoundCPUs != 0 && !within(m, g.CPUs, d.Shares):
		return fmt.Sprintf("runs on CPUs %s: want only CPUs of the NUMA nodes of its shares, %v", g.CPUs, d.Shares)
	case d.Bounds&placement.BoundMemory == 0 || g.Mems == 0:
		return ""
	}
	var mems topology.NUMASet
	for i := range d.Memory {
		mems |= d.Memory[i].NUMA
	}
	if mems != 0 && mems != g.Mems {
		return fmt.Sprintf("has memory of NUMA nodes %s: want the decided NUMA nodes %s", g.Mems, mems)
	}
	return ""
}

// otherDevices describes how the devices of a container differ from those of its decision; "" if
// they do not.
func otherDevices(g *Group, d *placement.ContainerDecision) string {
	if g.Devices == nil {
		return ""
	}
	decided := map[string]string{}
	if d != nil {
		for i := range d.Devices {
			decided[wire.DevicesVariable(d.Devices[i].Resource)] = strings.Join(slices.Sorted(slices.Values(d.Devices[i].IDs)), ",")
		}
	}
	if !maps.Equal(decided, g.Devices) {
		return fmt.Sprintf("has devices %v: want the decided devices %v", g.Devices, decided)
	}
	return ""
}

// sharedDevice returns a device that two containers have; "" for none.
func sharedDevice(a, b *Group) string {
	for _, list := range a.Devices {
		for address := range strings.SplitSeq(list, ",") {
			for _, other := range b.Devices {
				if slices.Contains(strings.Split(other, ","), address) {
					return address
				}
			}
		}
	}
	return ""
}

// DevicesIn reads the devices of a container from its environment, in the format of
// /proc/PID/environ.
func DevicesIn(environ string) map[string]string {
	out := map[string]string{}
	for entry := range strings.SplitSeq(environ, "\x00") {
		if name, list, ok := strings.Cut(strings.TrimSpace(entry), "="); ok && strings.HasPrefix(name, "PCIDEVICE_") {
			out[name] = list
		}
	}
	return out
}

// AloneFor returns the CPUs on which no other pod may run: the CPUs of a decision, and the CPUs
// that it keeps idle. It does not know the reserved CPUs, so it ignores exclusiveness of whole NUMA
// nodes.
func AloneFor(m *topology.Machine, d *placement.ContainerDecision) topology.CPUSet {
	out := d.CPUs
	if d.Exclusive == joint.ExclusiveCore {
		for i := range m.Cores {
			if k := &m.Cores[i]; k.CPUs.Intersects(&d.CPUs) && !k.CPUs.Has(0) {
				out = out.Or(&k.CPUs)
			}
		}
	}
	return out
}

// within reports whether the CPUs belong to the NUMA nodes of the shares.
func within(m *topology.Machine, cpus topology.CPUSet, shares []placement.CPUShare) bool {
	var nodes topology.CPUSet
	for _, s := range shares {
		if n := m.NUMANode(s.NUMA); n != nil {
			nodes = nodes.Or(&n.CPUs)
		}
	}
	return cpus.IsSubsetOf(&nodes)
}

// Both returns the failures that are in both. Containers are read one after the other, so a change
// during the reading may look like a failure.
func (f Faults) Both(o Faults) Faults {
	out := NewFaults()
	for _, pair := range [...]struct{ to, a, b map[string]string }{{out.HeldTwice, f.HeldTwice, o.HeldTwice}, {out.Outside, f.Outside, o.Outside}, {out.Unconfined, f.Unconfined, o.Unconfined}} {
		for name, why := range pair.a {
			if _, still := pair.b[name]; still {
				pair.to[name] = why
			}
		}
	}
	return out
}

// Empty reports that there are no failures.
func (f Faults) Empty() bool { return len(f.HeldTwice)+len(f.Outside)+len(f.Unconfined) == 0 }

// Add adds the failures of another node.
func (f Faults) Add(o Faults) {
	maps.Copy(f.HeldTwice, o.HeldTwice)
	maps.Copy(f.Outside, o.Outside)
	maps.Copy(f.Unconfined, o.Unconfined)
}
