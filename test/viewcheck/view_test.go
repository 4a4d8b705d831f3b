package viewcheck

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/cadvisor/lib/machine"
	info "github.com/google/cadvisor/lib/model"
	"github.com/google/cadvisor/lib/utils/sysinfo"

	"github.com/berth-dev/berth/internal/capture"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/sysfs"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
)

// repository is the root of the repository.
const repository = "../.."

func glob(t *testing.T, patterns ...string) []string {
	t.Helper()
	root := os.Getenv("BERTH_SHARED")
	if root == "" {
		root = filepath.Join(repository, "../shared")
	}
	var files []string
	for _, pattern := range patterns {
		pattern = strings.Replace(pattern, "SHARED", root, 1)
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		t.Skipf("no captures: set BERTH_SHARED (looked at %s)", patterns)
	}
	return files
}

// asView converts a MachineInfo to a KubeletView, as the kubelet's topology.Discover reads it.
func asView(nodes []info.Node, cores, sockets int) *placement.KubeletView {
	view := &placement.KubeletView{NumCores: cores, NumSockets: sockets}
	for _, n := range nodes {
		node := placement.ViewNode{ID: topology.NUMAID(n.Id), MemoryBytes: n.Memory, Distances: n.Distances}
		for _, h := range n.HugePages {
			node.HugePages = append(node.HugePages, topology.HugePages{PageBytes: h.PageSize << 10, Count: h.NumPages})
		}
		for _, c := range n.Cores {
			core := placement.ViewCore{ID: c.Id, Socket: c.SocketID}
			for _, thread := range c.Threads {
				core.Threads = append(core.Threads, topology.CPUID(thread))
			}
			for _, cache := range c.UncoreCaches {
				core.Uncore = append(core.Uncore, cache.Id)
			}
			node.Cores = append(node.Cores, core)
		}
		view.Nodes = append(view.Nodes, node)
	}
	return view
}

// lines prints a view, one fact a line.
func lines(v *placement.KubeletView) []string {
	out := []string{fmt.Sprintf("%d cores, %d sockets", v.NumCores, v.NumSockets)}
	for i, n := range v.Nodes {
		out = append(out, fmt.Sprintf("%d: node %d, %d bytes, huge %v, distances %v", i, n.ID, n.MemoryBytes, n.HugePages, n.Distances))
		for _, c := range n.Cores {
			out = append(out, fmt.Sprintf("%d: core %d of socket %d: %v uncore %v", i, c.ID, c.Socket, c.Threads, c.Uncore))
		}
	}
	return out
}

// difference returns the first lines that differ, or "".
func difference(got, want *placement.KubeletView) string {
	a, b := lines(got), lines(want)
	var out strings.Builder
	for i := range max(len(a), len(b)) {
		x, y := at(a, i), at(b, i)
		if x != y && out.Len() < 2000 {
			fmt.Fprintf(&out, "line %d\n ours:     %s\n cAdvisor: %s\n", i, x, y)
		}
	}
	return out.String()
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

func read(t *testing.T, archive string) (fs.FS, *topology.Machine) {
	t.Helper()
	c, err := capture.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	m, err := sysfs.Read(c.FS)
	if err != nil {
		t.Fatal(err)
	}
	return c.FS, m
}

// TestMachineInfoOfServers compares with the MachineInfo that was recorded on captured servers. The
// recordings lack huge pages and distances.
func TestMachineInfoOfServers(t *testing.T) {
	for _, archive := range glob(t, "SHARED/realdata/sysfs/openshift-nto/*/*.tgz") {
		t.Run(filepath.Base(archive), func(t *testing.T) {
			fsys, m := read(t, archive)
			text, err := fs.ReadFile(fsys, "machineinfo.json")
			if err != nil {
				t.Fatal(err)
			}
			var recorded info.MachineInfo
			if err := json.Unmarshal(text, &recorded); err != nil {
				t.Fatal(err)
			}
			got := made.View(t, m)
			for i := range got.Nodes {
				got.Nodes[i].HugePages, got.Nodes[i].Distances = nil, nil
			}
			for i := range recorded.Topology {
				recorded.Topology[i].HugePages, recorded.Topology[i].Distances = nil, nil
			}
			if diff := difference(got, asView(recorded.Topology, recorded.NumCores, recorded.NumSockets)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Reasons why a view differs from cAdvisor's report, or is refused.
const (
	sharedCPUs = "the firmware puts the same CPUs into several NUMA nodes; cAdvisor counts them once per node, sysfs.Read drops the copies as hwloc does"
	zeroTable  = "the firmware has no distance table and the kernel says 0; to us that is no distance, to cAdvisor a distance of 0, of a node to itself"
	largeID    = "a NUMA id of 64 or more, where the kubelet's bit masks end: ViewOf refuses"
	noNode     = "neither NUMA nodes nor package ids: cAdvisor makes one node with id -1, ViewOf refuses"
	lostNode   = "edited: the folder of node 0 is gone, but not its column in the distances; ViewOf leaves it out as a kernel would"
	sharedIDs  = "packages that share their physical_package_id, which to cAdvisor are one"
)

// differs lists the captures that do not agree, with the reason. The test fails if a listed capture
// agrees.
var differs = map[string]string{
	"8em64t-2s2ca2c-buggynuma": sharedCPUs,
	"fakeheterocpunuma":        sharedCPUs,
	"4ia64-4s":                 zeroTable,
	"8em64t-4c2t":              zeroTable,
	"8ia64-2s2c2t":             zeroTable,
	"8ia64-4s2c":               zeroTable,
	"nvidiagpunumanodes":       largeID,
	"48amd64-4d2n6c-sparse":    largeID,
	"20s390-2g6s4c":            noNode,
	"2s390-2c":                 noNode,
	"16ia64-8n2s":              sharedIDs,
	"offline-cpu0-node0":       lostNode,
	"ppc-qemu":                 noNode,
	"rv64-linux":               noNode,
	"s390-kvm":                 noNode,
	"s390-lpar":                noNode,
	"s390-zvm":                 noNode,
	"sparc64":                  noNode,
}

// TestCAdvisorAgrees runs cAdvisor's own code over every capture.
func TestCAdvisorAgrees(t *testing.T) {
	archives := glob(t, "SHARED/realdata/sysfs/*/*.t*z*", "SHARED/realdata/sysfs/*/*/*.tgz",
		filepath.Join(repository, ".cache/debian/hwloc-*/tests/hwloc/linux/*.tar.bz2"),
		filepath.Join(repository, ".cache/debian/util-linux-*/tests/ts/lscpu/dumps/*.tar.gz"))
	for _, archive := range archives {
		name, _, _ := strings.Cut(filepath.Base(archive), ".t")
		t.Run(name, func(t *testing.T) {
			fsys, m := read(t, archive)
			diff := compareView(fsys, m)
			if diff != "" && differs[name] == "" {
				t.Error(diff)
			}
			if diff == "" && differs[name] != "" {
				t.Errorf("listed as different, but equal: %s", differs[name])
			}
		})
	}
}

// compareView describes differences between cAdvisor and ViewOf, or returns "".
func compareView(fsys fs.FS, m *topology.Machine) string {
	got, err := placement.ViewOf(m)
	if err != nil {
		return err.Error()
	}
	nodes, cores, err := sysinfo.GetNodesInfo(captured{fsys: fsys})
	if err != nil {
		return "cAdvisor fails: " + err.Error()
	}
	if len(m.NUMANodes) == 0 { // cAdvisor iterates over a map
		slices.SortFunc(nodes, func(a, b info.Node) int { return cmp.Compare(a.Id, b.Id) })
	}
	sockets := got.NumSockets
	if text, err := fs.ReadFile(fsys, "proc/cpuinfo"); err == nil && strings.Contains(string(text), "physical id") {
		sockets = machine.GetSockets(text)
	}
	return difference(got, asView(nodes, cores, sockets))
}
