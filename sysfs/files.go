package sysfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/berth-dev/berth/topology"
)

// Limits: the size of a file in bytes, and the number of entries of a folder. An attribute of sysfs
// is at most one page. A CPU mask of a kernel for 8192 CPUs, and a meminfo file, are much smaller
// than maxAttribute.
const (
	maxAttribute = 64 << 10
	maxEntries   = 64 << 10
)

// tree reads attributes below a root that contains sys/.
type tree struct{ fsys fs.FS }

// absent reports whether err means that there is no such file. A file where a folder is expected
// also counts as absent.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, syscall.ENOTDIR)
}

// text returns an attribute without surrounding white space, and without the trailing NULs of some
// kernels. ok is false if it does not exist.
func (t tree) text(name string) (value string, ok bool, err error) {
	info, err := fs.Stat(t.fsys, name)
	if err != nil {
		if absent(err) {
			return "", false, nil
		}
		return "", false, &Error{Path: name, Field: "file", Err: err}
	}
	if info.IsDir() {
		return "", false, nil
	}
	if !info.Mode().IsRegular() { // opening a named pipe could block
		return "", false, &Error{Path: name, Field: "file", Value: info.Mode().Type().String(), Want: "a regular file"}
	}
	f, err := t.fsys.Open(name)
	if err != nil {
		return "", false, &Error{Path: name, Field: "file", Err: err}
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxAttribute+1))
	if err != nil {
		return "", false, &Error{Path: name, Field: "file", Err: err}
	}
	if len(b) > maxAttribute {
		return "", false, &Error{Path: name, Field: "file", Value: fmt.Sprintf("more than %d bytes", maxAttribute), Want: "a sysfs attribute"}
	}
	return strings.Trim(string(b), " \t\r\n\x00"), true, nil
}

// integer reads an attribute that is one decimal number from low to high.
func (t tree) integer(name string, low, high int64) (n int64, ok bool, err error) {
	text, ok, err := t.text(name)
	if err != nil || !ok {
		return 0, false, err
	}
	n, err = strconv.ParseInt(text, 10, 64)
	if err != nil || n < low || n > high {
		return 0, false, &Error{Path: name, Field: path.Base(name), Value: text, Want: fmt.Sprintf("a decimal number from %d to %d", low, high)}
	}
	return n, true, nil
}

// cpuList reads the kernel's list format.
func (t tree) cpuList(name string) (set topology.CPUSet, ok bool, err error) {
	text, ok, err := t.text(name)
	if err != nil || !ok {
		return set, false, err
	}
	if set, err = topology.ParseCPUList(text); err != nil {
		return set, false, &Error{Path: name, Field: path.Base(name), Value: text, Want: "a CPU list such as 0-3,8", Err: err}
	}
	return set, true, nil
}

// cpuMask reads the kernel's mask format: groups of 32 bits in hexadecimal, the highest first.
func (t tree) cpuMask(name string) (set topology.CPUSet, ok bool, err error) {
	text, ok, err := t.text(name)
	if err != nil || !ok {
		return set, false, err
	}
	groups := strings.Split(text, ",")
	slices.Reverse(groups)
	for i, group := range groups {
		word, err := strconv.ParseUint(group, 16, 32)
		if err != nil || word != 0 && i >= topology.MaxCPUs/32 {
			return set, false, &Error{Path: name, Field: path.Base(name), Value: text, Want: fmt.Sprintf("a mask of at most %d CPUs, in groups of 32 bits", topology.MaxCPUs)}
		}
		for bit := range 32 {
			if word>>bit&1 == 1 {
				set.Add(topology.CPUID(i*32 + bit))
			}
		}
	}
	return set, true, nil
}

// cpus reads a set that the kernel writes as a mask and, except in very old releases, also as a
// list. In an edited capture, one of the two forms may be wrong. So cpus returns the first form for
// which the function good returns true, or, if there is none, the last form that exists.
func (t tree) cpus(dir string, good func(*topology.CPUSet) bool, names ...string) (set topology.CPUSet, found bool, err error) {
	for _, name := range names {
		for _, read := range []func() (topology.CPUSet, bool, error){
			func() (topology.CPUSet, bool, error) { return t.cpuList(path.Join(dir, listName(name))) },
			func() (topology.CPUSet, bool, error) { return t.cpuMask(path.Join(dir, name)) },
		} {
			form, ok, err := read()
			if err != nil {
				return set, false, err
			}
			if ok {
				set, found = form, true
			}
			if ok && good(&set) {
				return set, true, nil
			}
		}
	}
	return set, found, nil
}

// listName returns the name of the list file for a mask file: cpulist for cpumap, shared_cpu_list
// for shared_cpu_map, core_cpus_list for core_cpus.
func listName(name string) string {
	if base, isMap := strings.CutSuffix(name, "map"); isMap {
		return base + "list"
	}
	return name + "_list"
}

func with(id topology.CPUID) func(*topology.CPUSet) bool {
	return func(set *topology.CPUSet) bool { return set.Has(id) }
}

// entries lists a folder. A missing folder counts as empty.
func (t tree) entries(dir string) ([]fs.DirEntry, error) {
	list, err := fs.ReadDir(t.fsys, dir)
	if err != nil {
		if absent(err) {
			return nil, nil
		}
		return nil, &Error{Path: dir, Field: "folder", Err: err}
	}
	if len(list) > maxEntries {
		return nil, &Error{Path: dir, Field: "folder", Value: strconv.Itoa(len(list)), Want: fmt.Sprintf("at most %d entries", maxEntries)}
	}
	return list, nil
}

// numbered lists the folders PREFIXn of dir by n. A number above limit is an error.
func (t tree) numbered(dir, prefix string, limit uint64) ([]int, error) {
	list, err := t.entries(dir)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range list {
		digits, ok := strings.CutPrefix(e.Name(), prefix)
		if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || n > limit || len(digits) > 1 && digits[0] == '0' {
			return nil, &Error{Path: path.Join(dir, e.Name()), Field: prefix + " id", Value: digits, Want: fmt.Sprintf("a number from 0 to %d", limit)}
		}
		out = append(out, int(n))
	}
	slices.Sort(out)
	return out, nil
}

const (
	cpuDir  = "sys/devices/system/cpu"
	nodeDir = "sys/devices/system/node"
	pciDir  = "sys/bus/pci/devices"
)

// reader is the state of one call of Read.
type reader struct {
	tree
	m topology.Machine
	// dirs are the CPUs that have a folder cpuN.
	dirs topology.CPUSet
	// addresses maps the address of each PCI device to its folder.
	addresses map[string]string
	// parents maps virtual functions to their physical functions, read from the virtfn links of the
	// physical functions.
	parents map[string]string
}
