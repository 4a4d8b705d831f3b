package cpuoracle

import (
	"bufio"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	genuine "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"

	"github.com/berth-dev/berth/placement/cpu"
	"github.com/berth-dev/berth/placement/release"
	"github.com/berth-dev/berth/topology"
)

// corner is a question with a known, odd answer.
type corner struct {
	machine          plan
	options          cpu.Options
	shared, reserved string // "" shared: all CPUs
	n                int
	want             string
}

var corners = map[string]corner{
	// kubernetes#141237: the best combination is nodes 4, 5, 6 and 0. The kubelet then overwrites
	// its array, and takes nodes 4, 5, 6 and 3.
	"combination overwritten": {
		machine: plan{sockets: 2, nodesPerSocket: 4, cores: 4, threads: 1, numaGap: 1, socketsPerNode: 1},
		options: cpu.Options{Version: release.V137, DistributeAcrossNUMA: true}, reserved: "31", n: 16, want: "12-27",
	},
	// The same defect for the nodes that get the remainder: the kubelet found nodes 0, 5, 6 and 7,
	// but gives the remainder to nodes 0, 5, 6 and 9.
	"remainder overwritten": {
		machine: plan{sockets: 2, nodesPerSocket: 5, cores: 16, threads: 1, numaGap: 1, socketsPerNode: 1},
		options: cpu.Options{Version: release.V137, DistributeAcrossNUMA: true}, n: 65,
		shared: "0-13,80-91,96-107,112-123,128-139,144-155,159", reserved: "159", want: "0-11,80-90,96-106,112-121,128-137,144-154",
	},
}

func (c corner) ask(t *testing.T) (got, kubelet string) {
	topo, err := genuine.Discover(logr.Discard(), c.machine.build(rand.New(rand.NewPCG(0, 0))))
	if err != nil {
		t.Fatal(err)
	}
	reserved, err := cpuset.Parse(c.reserved)
	if err != nil {
		t.Fatal(err)
	}
	shared := topo.CPUDetails.CPUs()
	if c.shared != "" {
		if shared, err = cpuset.Parse(c.shared); err != nil {
			t.Fatal(err)
		}
	}
	return c.askUs(t, topo, shared, reserved), c.askKubelet(t, topo, shared, reserved)
}

func (c corner) askUs(t *testing.T, topo *genuine.CPUTopology, shared, reserved cpuset.CPUSet) string {
	ours, err := cpu.New(nodeOf(topo), c.options)
	if err != nil {
		t.Fatal(err)
	}
	sh, res := fromGenuine(shared), fromGenuine(reserved)
	siblings, err := ours.Siblings(res)
	if err != nil {
		t.Fatal(err)
	}
	var out topology.CPUSet
	if err := ours.Allocate(&cpu.AllocateInput{N: c.n, Shared: &sh, Reserved: &res, Siblings: &siblings}, &out); err != nil {
		return err.Error()
	}
	return out.String()
}

func (c corner) askKubelet(t *testing.T, topo *genuine.CPUTopology, shared, reserved cpuset.CPUSet) string {
	policy, err := cpumanager.NewStaticPolicy(logr.Discard(), topo, reserved.Size(), reserved, &affinity{}, optionMap(c.options))
	if err != nil {
		t.Fatal(err)
	}
	s := state.NewMemoryState(logr.Discard())
	s.SetDefaultCPUSet(shared)
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(c.n), resource.DecimalSI)},
	}}}}}
	pod.Status.QOSClass = v1.PodQOSGuaranteed
	if err := policy.Allocate(logr.Discard(), s, pod, &pod.Spec.Containers[0], lifecycle.AddOperation); err != nil {
		return err.Error()
	}
	got, _ := s.GetCPUSet("", "c")
	return got.String()
}

func TestCorners(t *testing.T) {
	for name, c := range corners {
		t.Run(name, func(t *testing.T) {
			got, kubelet := c.ask(t)
			if got != c.want || kubelet != c.want {
				t.Errorf("%s; the kubelet: %s; want %s", got, kubelet, c.want)
			}
		})
	}
}

// hang has full-pcpus-only with distribute-cpus-across-numa and five free CPUs on every NUMA node.
// Two nodes have the six CPUs of the remainder, but not as whole cores.
var hang = corner{
	machine: plan{sockets: 4, nodesPerSocket: 1, cores: 3, threads: 2, numaGap: 1, socketsPerNode: 1},
	options: cpu.Options{Version: release.V137, DistributeAcrossNUMA: true, FullPhysicalCPUsOnly: true}, reserved: "0,6,12,18", n: 14,
}

// TestHang asks the kubelet in another process, which prints a line before the call and must then
// print nothing more.
func TestHang(t *testing.T) {
	if os.Getenv("BERTH_CPU_HANG") != "" {
		topo, err := genuine.Discover(logr.Discard(), hang.machine.build(rand.New(rand.NewPCG(0, 0))))
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("begun\n")
		os.Stdout.WriteString(hang.askKubelet(t, topo, topo.CPUDetails.CPUs(), cpuset.New(0, 6, 12, 18)) + "\n")
		return
	}
	topo, err := genuine.Discover(logr.Discard(), hang.machine.build(rand.New(rand.NewPCG(0, 0))))
	if err != nil {
		t.Fatal(err)
	}
	if got := hang.askUs(t, topo, topo.CPUDetails.CPUs(), cpuset.New(0, 6, 12, 18)); got != cpu.ErrWouldHang.Error() {
		t.Fatalf("we say %q, want %q", got, cpu.ErrWouldHang)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHang$")
	cmd.Env = append(os.Environ(), "BERTH_CPU_HANG=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			lines <- in.Text()
		}
	}()
	if got := <-lines; got != "begun" {
		t.Errorf("the kubelet did not begin: %q", got)
	}
	select {
	case got := <-lines:
		t.Errorf("the kubelet came back: %q", got)
	case <-time.After(2 * time.Second):
	}
	_ = cmd.Process.Kill()
	for range lines { // until the process has ended
	}
	_ = cmd.Wait()
}
