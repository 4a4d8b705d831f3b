package sysfs

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/berth-dev/berth/topology"
)

// readL3s finds the level-3 caches that hold data. Kernels before 4.11, and arm64 kernels before
// 6.16, give caches no id.
func (r *reader) readL3s() error {
	var seen topology.CPUSet
	ids := map[topology.L3ID]bool{}
	for id := range r.m.Online.All() {
		if seen.Has(id) {
			continue
		}
		l3, numbered, ok, err := r.l3Of(id, &seen)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if ids[l3.ID] || !numbered {
			r.m.UnnumberedCaches = true
		}
		ids[l3.ID] = true
		seen = seen.Or(&l3.CPUs)
		r.m.L3s = append(r.m.L3s, l3)
	}
	if r.m.UnnumberedCaches {
		for i := range r.m.L3s {
			lowest, _ := r.m.L3s[i].CPUs.Lowest()
			r.m.L3s[i].ID = topology.L3ID(lowest)
		}
	}
	slices.SortFunc(r.m.L3s, func(a, b topology.L3) int { return cmp.Compare(a.ID, b.ID) })
	return nil
}

// l3Of returns the level-3 cache of a CPU, without the CPUs in taken. The result numbered means
// that the kernel gives the cache an id. ok is false if the CPU has no level-3 cache.
func (r *reader) l3Of(id topology.CPUID, taken *topology.CPUSet) (l3 topology.L3, numbered, ok bool, err error) {
	indexes, err := r.numbered(r.cpu(id)+"/cache", "index", math.MaxUint16)
	if err != nil {
		return l3, false, false, err
	}
	for _, index := range indexes {
		dir := fmt.Sprintf("%s/cache/index%d", r.cpu(id), index)
		level, leveled, err := r.integer(dir+"/level", 0, 255)
		if err != nil {
			return l3, false, false, err
		}
		kind, _, err := r.text(dir + "/type")
		if err != nil {
			return l3, false, false, err
		}
		if !leveled || level != 3 || kind == "Instruction" {
			continue
		}
		return r.cacheAt(dir, id, taken)
	}
	return l3, false, false, nil
}

// coreSet returns the CPUs of the core that a CPU belongs to.
func (r *reader) coreSet(id topology.CPUID) topology.CPUSet {
	for i := range r.m.Cores {
		if r.m.Cores[i].CPUs.Has(id) {
			return r.m.Cores[i].CPUs
		}
	}
	return topology.NewCPUSet(id)
}

// cacheAt reads the cache in dir. If the cache does not list CPU id, the cache is not that CPU's
// cache, and ok is false.
func (r *reader) cacheAt(dir string, id topology.CPUID, taken *topology.CPUSet) (l3 topology.L3, numbered, ok bool, err error) {
	set, ok, err := r.cpus(dir, with(id), "shared_cpu_map")
	if err != nil || !ok {
		return l3, false, false, err
	}
	if set.IsEmpty() { // old ia64 kernels write this for a cache of one core
		set = r.coreSet(id)
	}
	if !set.Has(id) {
		return l3, false, false, nil
	}
	set = set.And(&r.m.Online)
	n, numbered, err := r.integer(dir+"/id", 0, math.MaxInt32)
	if err != nil {
		return l3, false, false, err
	}
	return topology.L3{ID: topology.L3ID(n), CPUs: set.AndNot(taken)}, numbered, true, nil
}
