package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/lab"
)

// The loads and overlays of the comparison. Every third load, every third overlay and every third
// seed, in this order, is held out. Its results must not influence the choice of a default. The
// rule does not depend on names, so it also applies to later lists.

// heldOut reports whether the item at the index is held out for the judgement.
func heldOut(index int) bool { return index%3 == 2 }

// overlays are the overlays of the comparison: kubelets with strict policies.
func overlays() []string {
	return slices.DeleteFunc(lab.OverlayNames(), func(name string) bool { return strings.HasSuffix(name, "/best-effort") || !lab.Decides(name) })
}

// firstSeed is the first of the ten seeds of the published experiment.
const firstSeed = 42

func seeds(n int) (out []int64) {
	for i := range n {
		out = append(out, firstSeed+int64(i))
	}
	return out
}

// load is pods of a list, or a synthetic one.
type load struct {
	name string
	pods []trace.Pod
}

// loads are the lists of the folder by name, then the synthetic ones by name.
func loads(dir string) (out []load, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_pod_list_*.csv*"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		_, name, _ := strings.Cut(filepath.Base(file), "_pod_list_")
		name, _, _ = strings.Cut(name, ".")
		pods, err := readList(file, lab.ReadPods)
		if err != nil {
			return nil, err
		}
		out = append(out, load{name, simulate.Whole(pods)})
	}
	for _, name := range slices.Sorted(slices.Values(lab.SyntheticNames())) {
		pods, err := lab.Synthetic(name, false)
		if err != nil {
			return nil, err
		}
		out = append(out, load{"synthetic:" + name, pods})
	}
	return out, nil
}
