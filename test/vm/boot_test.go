package vm

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// twoByTwo is the machine of the smoke run: 2 sockets of 2 NUMA nodes, each with 2 cores of 2
// threads.
var twoByTwo = Shape{Sockets: 2, DiesPerSocket: 2, CoresPerDie: 2, ThreadsPerCore: 2, MemoryMiB: 768, Near: 12, Far: 20}

// repoRoot is the root of the module, relative to this package.
var repoRoot = filepath.Join("..", "..")

// requireVM skips the test unless BERTH_VM, which the make targets set, names one of its suites.
func requireVM(t *testing.T, suites ...string) {
	t.Helper()
	for _, s := range suites {
		if strings.Contains(","+os.Getenv("BERTH_VM")+",", ","+s+",") {
			return
		}
	}
	t.Skipf("boots a virtual machine: run with BERTH_VM=%s (make e2e-vm-smoke, make e2e-vm)", strings.Join(suites, "|"))
}

func ensure(t *testing.T) *Artifacts {
	t.Helper()
	repo, err := filepath.Abs(repoRoot)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Ensure(t.Context(), repo, filepath.Join(repo, ".cache", "vm"), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestProbe: a running kernel answers the probe, and a kernel that does not start does not.
func TestProbe(t *testing.T) {
	requireVM(t, "boot")
	a := ensure(t)
	if !a.probe(t.Context(), "tcg", emulatedCPU) {
		t.Error("the software emulator does not seem to run the kernel")
	}
	if a.probe(t.Context(), "tcg", "no-such-processor") {
		t.Error("an impossible processor seems to run the kernel")
	}
}

// TestBoot checks that the guest has the topology of the shape.
func TestBoot(t *testing.T) {
	requireVM(t, "boot")
	a := ensure(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	m, err := a.Boot(ctx, Config{Name: "boot", Shape: twoByTwo, APIPort: 1, Dir: t.TempDir(), Files: map[string][]byte{"start.sh": nil, "agent.sh": []byte("sleep 1000\n")}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Stop()
	out, err := m.Guest.Run(ctx, "cd /sys/devices/system; cat node/online cpu/online node/node3/cpulist cpu/cpu5/topology/thread_siblings_list node/node0/distance")
	if err != nil {
		t.Fatal(err)
	}
	if want := "0-3\n0-15\n12-15\n4-5\n10 12 20 20\n"; out != want {
		t.Errorf("guest sees %q, want %q", out, want)
	}
}
