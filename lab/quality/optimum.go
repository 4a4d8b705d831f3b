package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/lab"
)

// instance is a few nodes and the pods that arrive there, small enough to compute the optimum. Each
// pod fits on one NUMA node, so a kubelet with the policy restricted gives it one. The pods ask for
// nearly all CPUs or GPUs, and for no more of the other. So losses come from the choice of nodes,
// and not from the order of arrival.
type instance struct {
	nodes []trace.Node
	pods  []trace.Pod
	seed  int64
}

// The machines of instances, under the overlay sockets: two NUMA nodes each.
const (
	instanceOverlay = "sockets/restricted"
	instanceLoad    = 0.95
	zonesOfNode     = 2
	reservedCPUs    = 2 // of the first NUMA node
)

func newInstance(seed int64) *instance {
	rng, in := rand.New(rand.NewSource(seed)), &instance{seed: seed}
	gpus := 4 * rng.Intn(3) // 0, 4, 8
	for i := range 2 + rng.Intn(3) {
		in.nodes = append(in.nodes, trace.Node{Name: fmt.Sprint("n", i), MilliCPU: 32_000 * int64(1+rng.Intn(2)), MiB: 1 << 20, GPUs: gpus})
	}
	var shapes []trace.Pod
	for range 3 + rng.Intn(4) {
		p := trace.Pod{MilliCPU: 1000 * int64(1+rng.Intn(10)), MiB: 1024}
		if gpus > 0 && rng.Intn(3) > 0 {
			p.GPUs, p.MilliGPU = 1+rng.Intn(gpus/zonesOfNode), trace.Thousandths
		}
		shapes = append(shapes, p)
	}
	cpu, gpu := instanceLoad*float64(trace.CapacityOf(in.nodes, false)), instanceLoad*float64(trace.CapacityOf(in.nodes, true))
	for {
		p := shapes[rng.Intn(len(shapes))]
		if cpu, gpu = cpu-float64(p.MilliCPU), gpu-float64(p.AskedGPU()); cpu < 0 || gpu < 0 {
			break
		}
		p.Name = fmt.Sprint("p", len(in.pods))
		in.pods = append(in.pods, p)
	}
	return in
}

// byGPU reports whether served GPUs count. Otherwise served CPUs do.
func (in *instance) byGPU() bool { return trace.AskGPUs(in.pods) }

// served returns the amount that a strategy serves.
func (in *instance) served(ctx context.Context, s simulate.Strategy) (int64, error) {
	o, err := lab.ParseOverlay(instanceOverlay)
	if err != nil {
		return 0, err
	}
	e := simulate.Experiment{Nodes: in.nodes, Pods: in.pods, Strategies: []simulate.Strategy{s}, Seeds: []int64{in.seed}}
	if e.Ground, err = lab.NewNUMA(in.nodes, lab.Overlays{Rest: &o}); err != nil {
		return 0, err
	}
	runs, err := e.Run(ctx)
	if err != nil {
		return 0, err
	}
	if in.byGPU() {
		return runs[0].GPUs.Served / trace.Thousandths, nil
	}
	return runs[0].CPUs.Served / trace.Thousandths, nil
}

// program returns an integer program for the optimum if all pods arrive at once: how many pods of
// each shape run on each NUMA node.
func (in *instance) program() string {
	type shape struct{ cpus, gpus int64 }
	var shapes []shape
	count := map[shape]int{}
	for i := range in.pods {
		s := shape{in.pods[i].MilliCPU / trace.Thousandths, int64(in.pods[i].GPUs)}
		if count[s]++; count[s] == 1 {
			shapes = append(shapes, s)
		}
	}
	var goal, limits, names []string
	for k, s := range shapes {
		var sum []string
		for z := range zonesOfNode * len(in.nodes) {
			name := fmt.Sprintf("x%d_%d", k, z)
			names, sum = append(names, name), append(sum, name)
			value := s.cpus
			if in.byGPU() {
				value = s.gpus
			}
			goal = append(goal, fmt.Sprintf("%d %s", value, name))
		}
		limits = append(limits, fmt.Sprintf("%s <= %d", strings.Join(sum, " + "), count[s]))
	}
	for z := range zonesOfNode * len(in.nodes) {
		n := &in.nodes[z/zonesOfNode]
		cpus := n.MilliCPU / trace.Thousandths / zonesOfNode
		if z%zonesOfNode == 0 {
			cpus -= reservedCPUs
		}
		var cpu, gpu []string
		for k, s := range shapes {
			cpu, gpu = append(cpu, fmt.Sprintf("%d x%d_%d", s.cpus, k, z)), append(gpu, fmt.Sprintf("%d x%d_%d", s.gpus, k, z))
		}
		limits = append(limits, fmt.Sprintf("%s <= %d", strings.Join(cpu, " + "), cpus), fmt.Sprintf("%s <= %d", strings.Join(gpu, " + "), n.GPUs/zonesOfNode))
	}
	return "Maximize\n " + strings.Join(goal, " + ") + "\nSubject To\n " + strings.Join(limits, "\n ") + "\nGeneral\n " + strings.Join(names, " ") + "\nEnd\n"
}

// errNoSolver is the error for a missing solver.
var errNoSolver = errors.New("the optimum needs the solver cbc, which is missing: apt-get install coinor-cbc")

// optimum asks the solver.
func (in *instance) optimum(ctx context.Context) (int64, error) {
	dir, err := os.MkdirTemp("", "berth-quality-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	problem, solution := filepath.Join(dir, "problem.lp"), filepath.Join(dir, "solution")
	if err := os.WriteFile(problem, []byte(in.program()), 0o600); err != nil {
		return 0, err
	}
	out, err := exec.CommandContext(ctx, "cbc", problem, "sec", "60", "solve", "solu", solution).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return 0, errNoSolver
	}
	if err != nil {
		return 0, fmt.Errorf("cbc: %w: %s", err, out)
	}
	text, err := os.ReadFile(solution)
	if err != nil {
		return 0, err
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	value, ok := strings.CutPrefix(string(first), "Optimal - objective value ")
	f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("cbc: instance %d: %q: want an optimum", in.seed, first)
	}
	return int64(max(f, -f) + 0.5), nil
}

// gap is the distance of strategies from the optimum, in percent.
type gap struct{ mean, worst float64 }

// optimum compares the default and first fit with the optimum of small instances.
func (q *quality) optimum(ctx context.Context) (own, first gap, err error) {
	s, err := lab.StrategiesOf(judgedStrategy, "FirstFit", "BerthProfile")
	if err != nil {
		return own, first, err
	}
	var profile gap
	for i := range q.instances {
		in := newInstance(int64(i))
		best, err := in.optimum(ctx)
		if err != nil {
			return own, first, err
		}
		for k, g := range []*gap{&own, &first, &profile} {
			served, err := in.served(ctx, s[k])
			if err != nil {
				return own, first, err
			}
			if served > best {
				return own, first, fmt.Errorf("instance %d: %s serves %d, and the optimum is %d", i, s[k].Name, served, best)
			}
			behind := 100 * float64(best-served) / float64(max(1, best))
			g.mean, g.worst = g.mean+behind/float64(q.instances), max(g.worst, behind)
		}
	}
	fmt.Fprintf(q.out, "\n## Small instances and their optimum\n\n| strategy | behind on average | worst |\n|---|---|---|\n| %s | %.2f %% | %.2f %% |\n| BerthProfile | %.2f %% | %.2f %% |\n| FirstFit | %.2f %% | %.2f %% |\n",
		judgedStrategy, own.mean, own.worst, profile.mean, profile.worst, first.mean, first.worst)
	return own, first, nil
}
