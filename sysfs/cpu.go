package sysfs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/berth-dev/berth/topology"
)

func (r *reader) cpu(id topology.CPUID) string { return fmt.Sprintf("%s/cpu%d", cpuDir, id) }

// siblings reads the set of CPUs that share a core, a die or a package with a CPU, including the
// CPU itself. It returns the CPUs of the set that are online and not in taken. It returns an error
// if the set does not contain the CPU.
func (r *reader) siblings(id topology.CPUID, taken *topology.CPUSet, names ...string) (topology.CPUSet, bool, error) {
	dir := r.cpu(id) + "/topology"
	set, ok, err := r.cpus(dir, with(id), names...)
	if err != nil || !ok {
		return set, false, err
	}
	if !set.Has(id) {
		return set, false, &Error{Path: dir, Field: strings.Join(names, " or "), Value: set.String(), Want: fmt.Sprintf("a set with CPU %d in it", id)}
	}
	set = set.And(&r.m.Online)
	return set.AndNot(taken), true, nil
}

// coreID reads topology/core_id; -1 and a missing file both mean unknown.
func (r *reader) coreID(id topology.CPUID) (int64, bool, error) {
	n, ok, err := r.integer(r.cpu(id)+"/topology/core_id", -1, math.MaxInt32)
	return n, ok && n >= 0, err
}

// packageID reads topology/physical_package_id; -1 and a missing file both mean unknown.
func (r *reader) packageID(id topology.CPUID) (topology.PackageID, error) {
	n, ok, err := r.integer(r.cpu(id)+"/topology/physical_package_id", -1, math.MaxInt32)
	if !ok {
		return topology.NoPackage, err
	}
	return topology.PackageID(n), nil
}

// readCores groups threads by core_cpus (thread_siblings before Linux 5.3). Threads of one group
// with different core ids are separate cores: the two halves of an AMD compute unit, which the
// kernel calls siblings. hwloc and cAdvisor count them separately as well.
func (r *reader) readCores() error {
	var seen topology.CPUSet
	for id := range r.m.Online.All() {
		if seen.Has(id) || !r.dirs.Has(id) {
			continue
		}
		set, ok, err := r.siblings(id, &seen, "core_cpus", "thread_siblings")
		if err != nil {
			return err
		}
		coreID, known, err := r.coreID(id)
		if err != nil {
			return err
		}
		if !ok && !known {
			continue // no topology folder at all
		}
		if !ok {
			set = topology.NewCPUSet(id)
		}
		if known {
			if set, err = r.sameCore(set, coreID); err != nil {
				return err
			}
		}
		seen = seen.Or(&set)
		if !known {
			coreID = int64(id)
		}
		r.m.Cores = append(r.m.Cores, topology.Core{Package: topology.NoPackage, ID: topology.CoreID(coreID), CPUs: set})
	}
	return nil
}

// sameCore removes the CPUs with another known core id from set.
func (r *reader) sameCore(set topology.CPUSet, want int64) (topology.CPUSet, error) {
	for id := range set.All() {
		n, known, err := r.coreID(id)
		if err != nil {
			return set, err
		}
		if known && n != want {
			set.Remove(id)
		}
	}
	return set, nil
}

// readPackages groups CPUs by package_cpus (core_siblings before Linux 5.3), or by
// physical_package_id if there is no such set.
func (r *reader) readPackages() error {
	var seen topology.CPUSet
	for id := range r.m.Online.All() {
		if seen.Has(id) {
			continue
		}
		pkg, err := r.packageID(id)
		if err != nil {
			return err
		}
		set, ok, err := r.siblings(id, &seen, "package_cpus", "core_siblings")
		if err != nil {
			return err
		}
		if !ok && pkg == topology.NoPackage {
			continue
		}
		if !ok {
			if set, err = r.byPackageID(pkg); err != nil {
				return err
			}
		}
		seen = seen.Or(&set)
		r.m.Packages = append(r.m.Packages, topology.Package{ID: pkg, CPUs: set})
	}
	r.numberPackages()
	return nil
}

func (r *reader) byPackageID(want topology.PackageID) (set topology.CPUSet, err error) {
	for id := range r.m.Online.All() {
		pkg, err := r.packageID(id)
		if err != nil {
			return set, err
		}
		if pkg == want {
			set.Add(id)
		}
	}
	return set, nil
}

// numberPackages sorts packages. If packages have no ids, or several have the same id (s390 numbers
// them inside a book), it numbers them in the order of their lowest CPUs.
func (r *reader) numberPackages() {
	seen := map[topology.PackageID]bool{}
	twice := false
	for _, p := range r.m.Packages {
		twice = twice || seen[p.ID]
		seen[p.ID] = true
	}
	r.m.UnnumberedPackages = seen[topology.NoPackage]
	for i := range r.m.Packages {
		if twice || r.m.UnnumberedPackages {
			r.m.Packages[i].ID = topology.PackageID(i)
		}
	}
	slices.SortFunc(r.m.Packages, func(a, b topology.Package) int { return cmp.Compare(a.ID, b.ID) })
}

// nameCores records the package of each core. A core that spans packages is divided among them.
func (r *reader) nameCores() {
	var cores []topology.Core
	for _, c := range r.m.Cores {
		rest := c.CPUs
		for _, p := range r.m.Packages {
			part := rest.And(&p.CPUs)
			if part.IsEmpty() {
				continue
			}
			cores = append(cores, topology.Core{Package: p.ID, ID: c.ID, CPUs: part})
			rest = rest.AndNot(&part)
		}
		if !rest.IsEmpty() {
			cores = append(cores, topology.Core{Package: topology.NoPackage, ID: c.ID, CPUs: rest})
		}
	}
	slices.SortFunc(cores, func(a, b topology.Core) int {
		la, _ := a.CPUs.Lowest()
		lb, _ := b.CPUs.Lowest()
		return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(la, lb))
	})
	r.m.Cores = cores
}

// readDies groups the CPUs of each package by die_cpus (Linux 5.2 and later).
func (r *reader) readDies() error {
	for _, p := range r.m.Packages {
		taken := r.m.Online.AndNot(&p.CPUs)
		ids := map[topology.DieID]bool{}
		for id := range p.CPUs.All() {
			if taken.Has(id) {
				continue
			}
			n, ok, err := r.integer(r.cpu(id)+"/topology/die_id", -1, math.MaxInt32)
			if err != nil {
				return err
			}
			set, grouped, err := r.siblings(id, &taken, "die_cpus")
			if err != nil {
				return err
			}
			if !ok || n < 0 || !grouped || ids[topology.DieID(n)] {
				continue
			}
			ids[topology.DieID(n)] = true
			taken = taken.Or(&set)
			r.m.Dies = append(r.m.Dies, topology.Die{Package: p.ID, ID: topology.DieID(n), CPUs: set})
		}
	}
	slices.SortFunc(r.m.Dies, func(a, b topology.Die) int {
		return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.ID, b.ID))
	})
	return nil
}
