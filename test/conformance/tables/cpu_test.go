package tables

import (
	"fmt"

	"github.com/berth-dev/berth/placement/cpu"
	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// kubeTopology is the CPU manager's topology.CPUTopology.
type kubeTopology struct {
	NumCPUs, NumCores, NumSockets int
	CPUs                          []struct {
		CPU                  topology.CPUID
		NUMA                 topology.NUMAID
		Core, Socket, Uncore int
	}
}

func (k *kubeTopology) node() cpu.Node {
	n := cpu.Node{NumCPUs: k.NumCPUs, NumCores: k.NumCores, NumSockets: k.NumSockets}
	for _, c := range k.CPUs {
		n.Threads = append(n.Threads, cpu.Thread{CPU: c.CPU, NUMA: c.NUMA, Socket: c.Socket, Core: c.Core, Uncore: c.Uncore})
	}
	return n
}

type cpusOut struct {
	CPUs  topology.CPUSet
	Error string
}

func (o *cpusOut) same(got topology.CPUSet, err error) error {
	if e := same(o.Error, err); e != nil {
		return e
	}
	if err == nil && got != o.CPUs {
		return fmt.Errorf("want CPUs %s, got %s", o.CPUs, got)
	}
	return nil
}

type takeIn struct {
	Topology       kubeTopology
	Available      topology.CPUSet
	N, Group       int
	Spread, Uncore bool
}

func take(in *takeIn, out *cpusOut) error {
	t, err := cpu.New(in.Topology.node(), cpu.Options{FullPhysicalCPUsOnly: in.Group > 1, DistributeAcrossNUMA: in.Group > 0,
		DistributeAcrossCores: in.Spread, PreferAlignByUncore: in.Uncore})
	if err != nil {
		return err
	}
	if in.Group > 1 && in.Group != in.Topology.NumCPUs/in.Topology.NumCores {
		return errLeftOut // no kubelet makes this call
	}
	var got topology.CPUSet
	err = t.Take(&in.Available, in.N, &got)
	return out.same(got, err)
}

type cpuHintsIn struct {
	Topology            kubeTopology
	Available, Reusable topology.CPUSet
	N                   int
	AlignBySocket       bool
}

func cpuHints(in *cpuHintsIn, out *[]kubeHint) error {
	if !in.AlignBySocket {
		in.Topology.NumSockets = max(1, in.Topology.NumSockets) // some tests omit it if it is not read
	}
	t, err := cpu.New(in.Topology.node(), cpu.Options{AlignBySocket: in.AlignBySocket})
	if err != nil {
		return err
	}
	var ids []topology.NUMAID
	for _, c := range in.Topology.CPUs {
		ids = append(ids, c.NUMA)
	}
	s, err := spaceOf(ids)
	if err != nil {
		return err
	}
	h, err := cpu.NewHinter(t, s)
	if err != nil {
		return err
	}
	l := s.NewList()
	h.Hints(&cpu.HintInput{N: in.N, Available: &in.Available, Reusable: &in.Reusable, Want: hint.Offered}, &l)
	return sameHints(s, *out, &l)
}

type allocateCPUsIn struct {
	Topology                   kubeTopology
	Shared, Reserved, Reusable topology.CPUSet
	N                          int
	NUMA                       []topology.NUMAID
	Options                    struct {
		FullPhysicalCPUsOnly, DistributeCPUsAcrossNUMA, AlignBySocket, DistributeCPUsAcrossCores, StrictCPUReservation,
		PreferAlignByUncoreCacheOption bool
	}
}

func allocateCPUs(in *allocateCPUsIn, out *cpusOut) error {
	o := &in.Options
	t, err := cpu.New(in.Topology.node(), cpu.Options{FullPhysicalCPUsOnly: o.FullPhysicalCPUsOnly, DistributeAcrossNUMA: o.DistributeCPUsAcrossNUMA,
		AlignBySocket: o.AlignBySocket, DistributeAcrossCores: o.DistributeCPUsAcrossCores, StrictReservation: o.StrictCPUReservation,
		PreferAlignByUncore: o.PreferAlignByUncoreCacheOption})
	if err != nil {
		return err
	}
	siblings, err := t.Siblings(in.Reserved)
	if err != nil {
		return err
	}
	var got topology.CPUSet
	err = t.Allocate(&cpu.AllocateInput{N: in.N, Shared: &in.Shared, Reserved: &in.Reserved, Siblings: &siblings, Reusable: &in.Reusable,
		Aligned: in.NUMA != nil, NUMA: topology.NewNUMASet(in.NUMA...)}, &got)
	return out.same(got, err)
}
