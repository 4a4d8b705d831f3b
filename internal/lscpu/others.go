package lscpu

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/pasted"
)

// errNumactl returns the error for the output of numactl -H. The error contains the memory and
// distances in the form of a machine string, and the NUMA nodes without CPUs.
func errNumactl(text string) error {
	hint := ""
	if said := numactlItems(text); said != "" {
		hint = "; add numactl's memory (rounded, without huge pages) and distances to the machine string: " + said
	}
	return fmt.Errorf("this is %s, which does not show which CPUs share a core, a package or a cache: want the output of lscpu -p%s", pasted.Numactl, hint)
}

var (
	numactlBare = regexp.MustCompile(`(?m)^node ([0-9]{1,4}) cpus:[ \t\r]*$`)
	numactlSize = regexp.MustCompile(`(?m)^node [0-9]+ size: ([0-9]{1,12}) MB\s*$`)
	numactlDist = regexp.MustCompile(`(?m)^ *[0-9]+: +([0-9][0-9 ]*[0-9])\s*$`)
)

// numactlItems returns memory and distances, and the NUMA nodes without CPUs, as items of a machine
// string. It returns "" if they are incomplete.
func numactlItems(text string) string {
	sizes, rows := numactlSize.FindAllStringSubmatch(text, maxNUMAID), numactlDist.FindAllStringSubmatch(text, maxNUMAID)
	if len(sizes) == 0 || len(sizes) != len(rows) {
		return ""
	}
	var memory, distances []string
	for i := range sizes {
		memory = append(memory, sizes[i][1]+"Mi")
		distances = append(distances, strings.Join(strings.Fields(rows[i][1]), ","))
	}
	items := "mem:" + strings.Join(memory, ",") + " dist:" + strings.Join(distances, "/")
	if bare := numactlBare.FindAllStringSubmatch(text, maxNUMAID); bare != nil {
		var ids []string
		for _, m := range bare {
			ids = append(ids, m[1])
		}
		items = "memonly:" + strings.Join(ids, ",") + " " + items
	}
	return items
}

// errNvidia returns the error for the output of nvidia-smi topo -m. The error contains the
// equivalent value of --device.
func errNvidia(text string) error {
	hint := "add the GPUs with --device, like nvidia.com/gpu=0:4,1:4"
	if said := nvidiaPool(text); said != "" {
		hint = "add the GPUs with --device " + said
	}
	return fmt.Errorf("this is %s, which does not list the cores: want the output of lscpu -p; %s", pasted.NvidiaTopology, hint)
}

var (
	escapes = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	gpuRow  = regexp.MustCompile(`^\s*GPU[0-9]+$`)
)

// nvidiaPool counts the GPUs of each NUMA node in the form of --device. It returns "" if the output
// does not have one NUMA node, or N/A, for each GPU.
func nvidiaPool(text string) string {
	affinity, counts, order := -1, map[string]int{}, []string(nil)
	for line := range strings.Lines(escapes.ReplaceAllString(text, "")) {
		cells := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if at := slices.Index(cells, "NUMA Affinity"); at >= 0 {
			affinity = at
			continue
		}
		if affinity < 0 || !gpuRow.MatchString(cells[0]) {
			continue
		}
		node := "-"
		if affinity < len(cells) && cells[affinity] != "" && cells[affinity] != "N/A" {
			node = cells[affinity]
		}
		if node != "-" && !numaID.MatchString(node) { // several, like 0-1
			return ""
		}
		if counts[node]++; counts[node] == 1 {
			order = append(order, node)
		}
	}
	var items []string
	for _, node := range order {
		items = append(items, fmt.Sprintf("%s:%d", node, counts[node]))
	}
	if items == nil {
		return ""
	}
	return "nvidia.com/gpu=" + strings.Join(items, ",")
}

var numaID = regexp.MustCompile(`^[0-9]{1,4}$`)
