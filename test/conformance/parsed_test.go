package conformance

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"

	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/test/conformance/oracle"
)

// TestParsedAsRestored: if a manager of this release restores its state from a random checkpoint of
// any format, the parser reads the same assignments. The parser may refuse fields that the kubelet
// ignores, and values that the kubelet never writes.
func TestParsedAsRestored(t *testing.T) {
	for _, leveled := range []bool{false, true} {
		t.Run(fmt.Sprint("pods ", leveled), func(t *testing.T) { parsedAsRestored(t, leveled) })
	}
}

func parsedAsRestored(t *testing.T, leveled bool) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.PodLevelResourceManagers, leveled)
	same := map[string]int{}
	for seed := range uint64(1500) {
		folder := folderFor(*firstSeed+seed, oracle.Version)
		for name, read := range map[string]func(*testing.T, string, bool) (parsed, restored string, err error){
			kubeletstate.CPUFile: readCPUs, kubeletstate.MemoryFile: readMemory,
		} {
			data := folder.Files[name]
			if data == nil {
				continue
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
			parsed, restored, err := read(t, dir, leveled)
			switch {
			case restored == "": // a kubelet does not start over it
			case err == nil && parsed == restored:
				same[name]++
			case err != nil && slices.ContainsFunc(stricter, func(s string) bool { return strings.Contains(err.Error(), s) }):
			default:
				t.Errorf("seed %d, pods %t: %s: %s\nparsed   %s, %v\nrestored %s", *firstSeed+seed, leveled, name, data, parsed, err, restored)
			}
		}
	}
	if same[kubeletstate.CPUFile] < 250 || same[kubeletstate.MemoryFile] < 250 {
		t.Errorf("equal: %v: want more", same)
	}
}

// stricter are parts of the parser's errors about files that a kubelet reads nevertheless.
var stricter = []string{"unknown field", "a CPU list", `"null": want`, "numaAffinity", "a NUMA node between", "NUMA nodes between", "not negative"}

func readCPUs(t *testing.T, dir string, leveled bool) (parsed, restored string, err error) {
	s, err := kubeletstate.ParseCPU("f", fileIn(t, dir, kubeletstate.CPUFile))
	var policies []string
	if err == nil {
		all := map[string]string{}
		for _, e := range append(s.Entries, s.Legacy...) {
			all[e.PodUID+"/"+e.Container] = e.CPUs.String()
		}
		for _, e := range s.PodEntries {
			if leveled {
				all[e.PodUID] = e.CPUs.String()
			}
		}
		parsed, policies = s.Shared.String()+" "+sorted(all), []string{s.Policy}
	} else {
		policies = []string{"static", "none"}
	}
	for _, policy := range policies {
		state, restoreErr := cpustate.NewCheckpointState(logr.Discard(), dir, kubeletstate.CPUFile, policy, nil)
		if restoreErr != nil {
			continue
		}
		all := map[string]string{}
		for uid, containers := range state.GetCPUAssignments() {
			for c, cpus := range containers {
				all[uid+"/"+c] = cpus.String()
			}
		}
		for uid, e := range state.GetPodCPUAssignments() {
			all[uid] = e.CPUSet.String()
		}
		restored = state.GetDefaultCPUSet().String() + " " + sorted(all)
	}
	return parsed, restored, err
}

func readMemory(t *testing.T, dir string, leveled bool) (parsed, restored string, err error) {
	s, err := kubeletstate.ParseMemory("f", fileIn(t, dir, kubeletstate.MemoryFile))
	policies := []string{"Static", "None"}
	if err == nil {
		all := map[string]string{}
		for _, e := range s.Entries {
			all[e.PodUID+"/"+e.Container] = fmt.Sprint(len(e.Blocks))
		}
		for _, e := range s.PodEntries {
			if leveled {
				all[e.PodUID] = fmt.Sprint(len(e.Blocks))
			}
		}
		for i := range s.Nodes {
			for _, r := range s.Nodes[i].Resources {
				all[fmt.Sprint(s.Nodes[i].NUMA, r.Resource)] = fmt.Sprint(r.Free, r.Reserved)
			}
		}
		parsed, policies = sorted(all), []string{s.Policy}
	}
	for _, policy := range policies {
		if text := restoredMemory(dir, policy); text != "" {
			restored = text
		}
	}
	return parsed, restored, err
}

// restoredMemory returns "" if the manager does not start, also because it panics.
func restoredMemory(dir, policy string) (restored string) {
	defer func() {
		if recover() != nil {
			restored = ""
		}
	}()
	state, err := memorystate.NewCheckpointState(logr.Discard(), dir, kubeletstate.MemoryFile, policy)
	if err != nil {
		return ""
	}
	all := map[string]string{}
	for uid, containers := range state.GetMemoryAssignments() {
		for c, blocks := range containers {
			all[uid+"/"+c] = fmt.Sprint(len(blocks))
		}
	}
	for uid, e := range state.GetPodMemoryAssignments() {
		all[uid] = fmt.Sprint(len(e.MemoryBlocks))
	}
	for id, n := range state.GetMachineState() {
		for r, table := range n.MemoryMap {
			all[fmt.Sprint(id, string(r))] = fmt.Sprint(table.Free, table.Reserved)
		}
	}
	return sorted(all)
}

func fileIn(t *testing.T, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func sorted(all map[string]string) string {
	var b strings.Builder
	b.WriteString("{")
	for _, key := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, " %s=%s", key, all[key])
	}
	return b.String() + " }"
}
