package gen

import (
	"bytes"
	"testing"

	"github.com/berth-dev/berth/test/replay/cases"
)

func TestCasesAreValidAndRepeatable(t *testing.T) {
	for seed := range uint64(3000) {
		if seed%10 == 9 {
			seed |= Wide
		}
		if seed%10 == 8 {
			seed |= Level
		}
		line, err := cases.Encode(Case(seed))
		if err != nil {
			t.Fatal(err)
		}
		again, err := cases.Encode(Case(seed))
		if err != nil || !bytes.Equal(line, again) {
			t.Fatalf("seed %d: not the same case twice (%v)", seed, err)
		}
		if _, err := cases.DecodeCase(line); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, line)
		}
	}
}

// TestVariety checks that the generator produces all intended kinds of cases.
func TestVariety(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(3000) {
		c := Case(seed)
		seen["nodes "+string(rune('0'+len(c.Machine.Nodes)))]++
		smt := 0
		for i := range c.Machine.Nodes {
			for _, core := range c.Machine.Nodes[i].Cores {
				smt = max(smt, len(core.Threads))
			}
			if len(c.Machine.Nodes[i].Cores) == 0 {
				seen["memory only"]++
			}
			if int(c.Machine.Nodes[i].ID) != i {
				seen["gap"]++
			}
		}
		seen["smt "+string(rune('0'+smt))]++
		for o := range c.Config.CPUManagerPolicyOptions {
			seen[o]++
		}
		seen["policy "+c.Config.TopologyManagerPolicy]++
		seen["scope "+c.Config.TopologyManagerScope]++
		for _, e := range c.Events {
			seen[string(e.Type)]++
		}
		c = Case(seed | Level)
		for _, e := range c.Events {
			if e.Pod != nil && e.Pod.Spec.Resources != nil {
				seen["level, scope "+c.Config.TopologyManagerScope]++
			}
		}
	}
	for _, want := range []string{"nodes 1", "nodes 2", "nodes 3", "nodes 4", "nodes 5", "nodes 6", "nodes 7", "nodes 8", "nodes 9", "nodes :",
		"smt 1", "smt 2", "smt 4", "memory only", "gap", fullPCPUs, distributeNUMA, distributeCores, alignSocket, strict, uncore,
		"policy none", "policy best-effort", "policy restricted", "policy single-numa-node", "scope container", "scope pod", "level, scope container", "level, scope pod",
		"admit", "remove", "start", "restart", "devices"} {
		if seen[want] < 10 {
			t.Errorf("%s: seen %d times", want, seen[want])
		}
	}
}
