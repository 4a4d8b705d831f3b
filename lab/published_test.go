package lab

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/internal/simulate/trace"
)

// openb is the folder with the lists of the public trace and the paper's figures.
func openb(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("BERTH_OPENB")
	if dir == "" {
		dir = "../../shared/realdata/traces/openb"
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the public trace is not there (BERTH_OPENB names another folder): %v", err)
	}
	return dir
}

func read[T any](t testing.TB, dir, file string, reader func(*os.File) ([]T, error)) []T {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, err := reader(f)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func readNodes(t testing.TB, dir string) []trace.Node {
	t.Helper()
	return read(t, dir, "openb_node_list_gpu_node.csv.gz", func(f *os.File) ([]trace.Node, error) { return ReadNodes(f, f.Name()) })
}

func readPods(t testing.TB, dir, list string) []trace.Pod {
	t.Helper()
	return read(t, dir, "openb_pod_list_"+list+".csv.gz", func(f *os.File) ([]trace.Pod, error) { return ReadPods(f, f.Name()) })
}

// figure has the paper's results for a strategy and a list.
type figure struct {
	list, strategy string
	at             map[int]float64
	deviation      float64
}

func readFigures(t *testing.T, dir string) []figure {
	t.Helper()
	rows := read(t, dir, "published_allocation.csv", func(f *os.File) ([][]string, error) { return csv.NewReader(f).ReadAll() })
	number := func(text string) float64 {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	var out []figure
	for _, row := range rows[1:] {
		f := figure{list: row[0], at: map[int]float64{}, deviation: number(row[len(row)-1])}
		_, f.strategy, _ = strings.Cut(row[1], "-")
		for i, name := range rows[0] {
			if percent, ok := strings.CutPrefix(name, "arrived"); ok {
				f.at[int(number(percent))] = number(row[i])
			}
		}
		out = append(out, f)
	}
	return out
}

// TestPublished compares the simulator with the figures of the FGD paper (USENIX ATC'23): the GPUs
// in use after pods that ask for 100 and 130 percent of the GPUs have arrived. With
// BERTH_SLOW_SCENES it compares all lists and seeds of the paper.
func TestPublished(t *testing.T) {
	dir := openb(t)
	nodes, pods, seeds, slow := readNodes(t, dir), map[string][]trace.Pod{}, []int64{42, 43}, os.Getenv("BERTH_SLOW_SCENES") != ""
	if slow {
		seeds = []int64{42, 43, 44, 45, 46, 47, 48, 49, 50, 51}
	}
	means, within := 0, 0
	for _, want := range readFigures(t, dir) {
		if !slow && want.list != "default" {
			continue
		}
		if pods[want.list] == nil {
			pods[want.list] = readPods(t, dir, want.list)
		}
		s, err := StrategiesOf(want.strategy)
		if err != nil {
			t.Fatal(err)
		}
		e := simulate.Experiment{Nodes: nodes, Pods: pods[want.list], Strategies: s, Seeds: seeds, Arrive: Arrive(nodes, pods[want.list], 1.3)}
		runs, err := e.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sum := simulate.Summarize(runs)[0]
		for _, at := range []int{100, 130} {
			means++
			got := sum.Curve[at/10-1].Served.Mean
			if IsWithin(got, want.at[at], want.deviation, len(seeds)) {
				within++
			}
			text := fmt.Sprintf("%s, %s at %d percent: %.2f, the paper has %.2f", want.list, want.strategy, at, got, want.at[at])
			t.Log(text)
			if diff := got - want.at[at]; diff > FarOff || diff < -FarOff {
				t.Error(text)
			}
		}
	}
	if t.Logf("%d of %d means are within", within, means); slow && within < 66 {
		t.Errorf("%d of %d means are within: want 66", within, means)
	}
}
