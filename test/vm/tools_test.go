package vm

import (
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// sameAsTools compares the reported machine with the output of lscpu and numactl in the guest.
func (c *cluster) sameAsTools(m *Machine) {
	c.t.Helper()
	reported := c.reported(m.Name).Spec.Machine
	table, err := m.Guest.Run(c.t.Context(), "lscpu -p")
	if err != nil {
		c.t.Fatal(err)
	}
	shown, err := lscpuGroups(table)
	if err != nil {
		c.t.Fatalf("lscpu: %v in\n%s", err, table)
	}
	if got, want := machineGroups(reported), shown; !slices.Equal(got, want) {
		c.t.Errorf("the report of %s says\n%s\nlscpu\n%s", m.Name, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	hardware, err := m.Guest.Run(c.t.Context(), "numactl -H")
	if err != nil {
		c.t.Fatal(err)
	}
	if got, want := numactlText(reported), withoutFree(hardware); got != want {
		c.t.Errorf("the report of %s says\n%s\nnumactl\n%s", m.Name, got, want)
	}
}

// lscpuColumns maps columns of lscpu -p to Berth's words.
var lscpuColumns = map[string]string{"Core": "core", "Socket": "package", "Node": "node", "L3": "L3"}

// lscpuGroups returns which CPUs share a core, a package, a node, a cache: lines like "core 0-1".
func lscpuGroups(text string) ([]string, error) {
	_, table, _ := strings.Cut(text, "# CPU,")
	rows, err := csv.NewReader(strings.NewReader("CPU," + table)).ReadAll()
	if err != nil {
		return nil, err
	}
	groups := map[string]*topology.CPUSet{}
	for _, row := range rows[1:] {
		cpu, err := strconv.ParseUint(row[0], 10, 16)
		if err != nil {
			return nil, err
		}
		for i, head := range rows[0] {
			if kind := lscpuColumns[head]; kind != "" && row[i] != "" {
				key := kind + " " + row[i]
				if groups[key] == nil {
					groups[key] = new(topology.CPUSet)
				}
				groups[key].Add(topology.CPUID(cpu))
			}
		}
	}
	var out []string
	for key, set := range groups {
		kind, _, _ := strings.Cut(key, " ")
		out = append(out, kind+" "+set.String())
	}
	slices.Sort(out)
	return out, nil
}

func machineGroups(m *topology.Machine) []string {
	out := map[string]bool{}
	for i := range m.Cores {
		out["core "+m.Cores[i].CPUs.String()] = true
	}
	for i := range m.Packages {
		out["package "+m.Packages[i].CPUs.String()] = true
	}
	for i := range m.NUMANodes {
		out["node "+m.NUMANodes[i].CPUs.String()] = true
	}
	for i := range m.L3s {
		out["L3 "+m.L3s[i].CPUs.String()] = true
	}
	return slices.Sorted(maps.Keys(out))
}

// numactlText writes a machine as numactl -H does, without free memory.
func numactlText(m *topology.Machine) string {
	var b strings.Builder
	ids := ""
	for i := range m.NUMANodes {
		n := &m.NUMANodes[i]
		cpus := ""
		for id := range n.CPUs.All() {
			cpus += fmt.Sprint(" ", id)
		}
		fmt.Fprintf(&b, "node %d cpus:%s\nnode %d size: %d MB\n", n.ID, cpus, n.ID, n.MemoryBytes>>20)
		ids += fmt.Sprint(" ", n.ID)
	}
	fmt.Fprintf(&b, "node distances:\nnode%s\n", ids)
	for i := range m.NUMANodes {
		fmt.Fprintf(&b, "%d:", m.NUMANodes[i].ID)
		for _, d := range m.NUMANodes[i].Distances {
			fmt.Fprintf(&b, " %d", d)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// withoutFree drops the header, the free memory, and repeated blanks.
func withoutFree(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "available") && !strings.Contains(line, " free:") {
			fmt.Fprintln(&b, strings.Join(strings.Fields(line), " "))
		}
	}
	return b.String()
}

// TestToolsSayTheSame tests the comparison with recorded outputs of the tools.
func TestToolsSayTheSame(t *testing.T) {
	m := shapes.Machine("package:1 numa:2 l3:1 core:1 pu:2 mem:1Gi dist:10,12 number:packed")
	shown, err := lscpuGroups("# The following\n# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n0,0,0,0,,0,0,0,0\n1,0,0,0,,0,0,0,0\n2,1,0,1,,1,1,1,1\n3,1,0,1,,1,1,1,1\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"L3 0-1", "L3 2-3", "core 0-1", "core 2-3", "node 0-1", "node 2-3", "package 0-3"}
	if got := machineGroups(m); !slices.Equal(got, want) || !slices.Equal(shown, want) {
		t.Errorf("machine %q\nlscpu   %q\nwant    %q", got, shown, want)
	}
	const hardware = "available: 2 nodes (0-1)\nnode 0 cpus: 0 1\nnode 0 size: 1024 MB\nnode 0 free: 7 MB\nnode 1 cpus: 2 3\nnode 1 size: 1024 MB\nnode 1 free: 9 MB\n" +
		"node distances:\nnode   0   1 \n  0:  10  12 \n  1:  12  10 \n"
	if got, want := numactlText(m), withoutFree(hardware); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
