package enforce

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/topology"
)

// CgroupDir translates the runtime's cgroup path of a container to a folder below /sys/fs/cgroup
// (cgroup v2). A path of systemd's form, "kubepods-podUID.slice:cri-containerd:ID", is a chain of
// slices.
func CgroupDir(runtimePath string) (string, error) {
	slice, rest, systemd := strings.Cut(runtimePath, ":")
	if !systemd {
		dir := strings.TrimPrefix(path.Clean("/"+runtimePath), "/")
		if dir == "" || dir == "." {
			return "", fmt.Errorf("cgroup path %.200q: want a path below the root", runtimePath)
		}
		return dir, nil
	}
	prefix, id, ok := strings.Cut(rest, ":")
	name, isSlice := strings.CutSuffix(slice, ".slice")
	if !ok || !isSlice || name == "" || strings.ContainsAny(runtimePath, "/\x00") {
		return "", fmt.Errorf("cgroup path %.200q: want SLICE.slice:PREFIX:ID", runtimePath)
	}
	dir, sofar := "", ""
	for part := range strings.SplitSeq(name, "-") {
		if part == "" {
			return "", fmt.Errorf("cgroup path %.200q: want a slice name without leading, trailing or double hyphens", runtimePath)
		}
		sofar = strings.TrimPrefix(sofar+"-"+part, "-")
		dir = path.Join(dir, sofar+".slice")
	}
	return path.Join(dir, prefix+"-"+id+".scope"), nil
}

// ReadBack returns the CPUs and memory nodes on which a container runs, from its cgroup v2 folder.
// The error wraps fs.ErrNotExist if the cgroup is gone.
func ReadBack(cgroups fs.FS, dir string) (Set, error) {
	cpus, err := fs.ReadFile(cgroups, path.Join(dir, "cpuset.cpus.effective"))
	if err != nil {
		return Set{}, err
	}
	mems, err := fs.ReadFile(cgroups, path.Join(dir, "cpuset.mems.effective"))
	if err != nil {
		return Set{}, err
	}
	var s Set
	if s.CPUs, err = topology.ParseCPUList(strings.TrimSpace(string(cpus))); err != nil {
		return Set{}, fmt.Errorf("%s/cpuset.cpus.effective: %w", dir, err)
	}
	if s.Mems, err = topology.ParseNUMAList(strings.TrimSpace(string(mems))); err != nil {
		return Set{}, fmt.Errorf("%s/cpuset.mems.effective: %w", dir, err)
	}
	return s, nil
}

// ReadMemory returns the memory limit of a container's cgroup and its memory use. A value is 0 if
// it is not known, or if there is no limit.
func ReadMemory(cgroups fs.FS, dir string) (limit, used uint64) {
	read := func(file string) uint64 {
		text, err := fs.ReadFile(cgroups, path.Join(dir, file))
		if err != nil {
			return 0
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	return read("memory.max"), read("memory.current")
}

// Differs describes how a container's actual set (runs) differs from the wanted set s, or returns
// "".
func (s Set) Differs(runs Set) string {
	switch {
	case s.CPUs != runs.CPUs:
		return fmt.Sprintf("runs on CPUs %q instead of the decided CPUs %q", runs.CPUs, s.CPUs)
	case s.Mems != 0 && s.Mems != runs.Mems:
		return fmt.Sprintf("may use memory of NUMA nodes %q instead of the decided NUMA nodes %q", runs.Mems, s.Mems)
	}
	return ""
}
