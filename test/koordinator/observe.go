package main

import (
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/berth-dev/berth/test/obeyed"
	"github.com/berth-dev/berth/topology"
)

// readGroups reads the cgroups below a folder. What vanishes meanwhile has ended.
func readGroups(dir string) (all []obeyed.Group) {
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
			all = append(all, obeyed.Group{UID: parts[1], Container: parts[2][:strings.LastIndex(parts[2], "-")], CPUs: set})
		}
		return nil
	})
	return all
}
