package lab

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/internal/suggest"
)

// In loads with gangs, pods that ask for a whole server are gangs. They request less memory than in
// loads without gangs, because the system reserves some of the node's memory.
const (
	wholeServer = 8 // GPUs
	gangOf      = 4 // pods
	gangGiB     = 320
)

// synthetic are invented loads. Each row is a shape and the percentage of pods that have it.
var synthetic = []struct {
	name string
	rows [][4]int // CPUs, GiB, GPUs, parts of a hundred
}{
	// Network functions: whole cores. Their huge pages are not modelled.
	{"telco", [][4]int{{2, 8, 0, 30}, {4, 16, 0, 30}, {8, 32, 0, 20}, {12, 32, 0, 10}, {16, 64, 0, 10}}},
	// Pods with one or two GPUs, and helper pods.
	{"inference", [][4]int{{8, 32, 1, 40}, {12, 64, 1, 20}, {16, 64, 2, 20}, {4, 16, 0, 15}, {16, 32, 0, 5}}},
	// Whole servers, half servers, single GPUs, and readers of their data.
	{"training", [][4]int{{64, 384, 8, 30}, {32, 192, 4, 20}, {8, 48, 1, 30}, {16, 32, 0, 20}}},
	// Halves and quarters of NUMA nodes, with memory.
	{"databases", [][4]int{{24, 96, 0, 40}, {12, 48, 0, 30}, {48, 192, 0, 10}, {4, 16, 0, 20}}},
}

// SyntheticNames are the names of the synthetic loads.
func SyntheticNames() (names []string) {
	for _, l := range synthetic {
		names = append(names, l.name)
	}
	return names
}

// Synthetic returns the pods of a synthetic load. With gangs, some are gangs, one row for each.
func Synthetic(name string, gangs bool) ([]trace.Pod, error) {
	for _, l := range synthetic {
		if l.name != name {
			continue
		}
		var pods []trace.Pod
		for _, row := range l.rows {
			p := trace.Pod{MilliCPU: int64(row[0]) * trace.Thousandths, MiB: int64(row[1]) << 10, GPUs: row[2]}
			if p.GPUs > 0 {
				p.MilliGPU = trace.Thousandths
			}
			for left := row[3]; left > 0; left -= p.Count() {
				if gangs && p.GPUs == wholeServer {
					p.Members, p.MiB = min(gangOf, left), gangGiB<<10
				}
				p.Name = fmt.Sprintf("%s-%03d", name, len(pods))
				pods = append(pods, p)
			}
		}
		return pods, nil
	}
	return nil, fmt.Errorf("synthetic load %.40q: want %s%s", name, strings.Join(SyntheticNames(), ", "), suggest.DidYouMean(name, SyntheticNames()))
}
