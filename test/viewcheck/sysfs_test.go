package viewcheck

import (
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/google/cadvisor/lib/utils/sysfs"

	"github.com/berth-dev/berth/topology"
)

// captured lets cAdvisor read a capture. It implements the methods of cAdvisor's realSysFs that
// read the topology, on an fs.FS.
type captured struct {
	sysfs.SysFs
	fsys fs.FS
}

func inside(name string) string { return path.Clean(strings.TrimPrefix(name, "/")) }

func (c captured) read(name string) (string, error) {
	b, err := fs.ReadFile(c.fsys, inside(name))
	return strings.TrimSpace(string(b)), err
}

func (c captured) glob(pattern string) ([]string, error) {
	found, err := fs.Glob(c.fsys, inside(pattern))
	for i := range found {
		found[i] = "/" + found[i]
	}
	return found, err
}

func (c captured) GetNodesPaths() ([]string, error) {
	return c.glob("/sys/devices/system/node/node*[0-9]")
}
func (c captured) GetCoreID(dir string) (string, error) {
	return c.read(cpu(dir) + "/topology/core_id")
}
func (c captured) GetMemInfo(dir string) (string, error)   { return c.read(dir + "/meminfo") }
func (c captured) GetDistances(dir string) (string, error) { return c.read(dir + "/distance") }
func (c captured) GetHugePagesNr(dir, n string) (string, error) {
	return c.read(dir + n + "/nr_hugepages")
}
func (c captured) GetCPUPhysicalPackageID(dir string) (string, error) {
	return c.read(cpu(dir) + "/topology/physical_package_id")
}

// GetCPUsPaths lists the CPUs of a node or of the machine. Many captures lack the links nodeN/cpuM,
// which the kernel makes for every online CPU of the node's cpumap.
func (c captured) GetCPUsPaths(dir string) ([]string, error) {
	found, err := c.glob(dir + "/cpu*[0-9]")
	if err != nil || len(found) > 0 {
		return found, err
	}
	all, err := c.glob("/sys/devices/system/cpu/cpu*[0-9]")
	if err != nil {
		return nil, err
	}
	text, err := c.read(dir + "/cpumap")
	if err != nil {
		return nil, err
	}
	for _, cpu := range all {
		id, err := strconv.Atoi(strings.TrimPrefix(path.Base(cpu), "cpu"))
		if err == nil && inMask(text, id) && c.IsCPUOnline(cpu) {
			found = append(found, dir+"/"+path.Base(cpu))
		}
	}
	return found, nil
}

// inMask reports whether a bit is set in a kernel mask, which consists of groups of 32 bits.
func inMask(text string, bit int) bool {
	groups := strings.Split(text, ",")
	at := len(groups) - 1 - bit/32
	if at < 0 {
		return false
	}
	word, err := strconv.ParseUint(groups[at], 16, 32)
	return err == nil && word>>(bit%32)&1 == 1
}

// cpu returns the folder to which a link nodeN/cpuM leads.
func cpu(dir string) string { return "/sys/devices/system/cpu/" + path.Base(dir) }

func (c captured) list(dir string) ([]os.FileInfo, error) {
	entries, err := fs.ReadDir(c.fsys, inside(dir))
	var out []os.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			out = append(out, info)
		}
	}
	return out, err
}

func (c captured) GetHugePagesInfo(dir string) ([]os.FileInfo, error) { return c.list(dir) }
func (c captured) GetCaches(cpu int) ([]os.FileInfo, error) {
	return c.list(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/cache", cpu))
}

func (c captured) GetCacheInfo(cpu int, name string) (info sysfs.CacheInfo, err error) {
	dir := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/cache/%s/", cpu, name)
	for _, field := range []struct {
		file, format string
		to           any
	}{{"id", "%d", &info.Id}, {"size", "%dK", &info.Size}, {"level", "%d", &info.Level}} {
		text, err := c.read(dir + field.file)
		if err != nil {
			return sysfs.CacheInfo{}, err
		}
		if n, err := fmt.Sscanf(text, field.format, field.to); err != nil || n != 1 {
			return sysfs.CacheInfo{}, err
		}
	}
	info.Size *= 1024
	if info.Type, err = c.read(dir + "type"); err != nil {
		return sysfs.CacheInfo{}, err
	}
	text, err := c.read(dir + "shared_cpu_map")
	if err != nil {
		return sysfs.CacheInfo{}, err
	}
	for group := range strings.SplitSeq(text, ",") {
		word, err := strconv.ParseUint(group, 16, 64)
		if err != nil {
			return sysfs.CacheInfo{}, err
		}
		info.Cpus += bits.OnesCount64(word)
	}
	return info, nil
}

func (c captured) IsCPUOnline(dir string) bool {
	text, err := c.read("/sys/devices/system/cpu/online")
	if err != nil {
		return true
	}
	online, err := topology.ParseCPUList(text)
	id, err2 := strconv.Atoi(strings.TrimPrefix(path.Base(dir), "cpu"))
	return err == nil && err2 == nil && online.Has(topology.CPUID(id))
}
