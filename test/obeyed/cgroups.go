package obeyed

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/topology"
)

// ReadCgroups reads the cgroups of a hollow node below a folder. It ignores cgroups that vanish
// meanwhile, because their containers have ended.
func ReadCgroups(dir string) (all []Group) {
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
			g := Group{UID: parts[1], Container: parts[2][:strings.LastIndex(parts[2], "-")], CPUs: set}
			if mems, err := fs.ReadFile(root, path.Join(path.Dir(name), "cpuset.mems.effective")); err == nil {
				g.Mems, _ = topology.ParseNUMAList(strings.TrimSpace(string(mems))) // an unreadable list is not judged
			}
			if limit, err := fs.ReadFile(root, path.Join(path.Dir(name), "memory.max")); err == nil {
				g.Limit, _ = strconv.ParseUint(strings.TrimSpace(string(limit)), 10, 64) // "max" is none
			}
			if env, err := fs.ReadFile(root, path.Join(path.Dir(name), "environ")); err == nil {
				g.Devices = DevicesIn(string(env))
			}
			all = append(all, g)
		}
		return nil
	})
	return all
}
