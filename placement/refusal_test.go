package placement_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/golden"
	"github.com/berth-dev/berth/placement"
)

// TestRefusals compares refusals, in one line, as a table and as JSON, with testdata/refusals.txt.
func TestRefusals(t *testing.T) {
	var b strings.Builder
	for _, test := range []struct {
		name    string
		machine machine
		policy  string
		edit    func(*placement.Request)
	}{
		{"too few CPUs on each node", m2, "single-numa-node", func(r *placement.Request) { r.Containers[0].MilliCPU = 72_000 }},
		{"more CPUs than a node has", m2, "single-numa-node", func(r *placement.Request) { r.Containers[0].MilliCPU = 130_000 }},
		{"sizes differ", m8, "restricted", func(r *placement.Request) { r.Containers[0].MilliCPU = 33_000 }},
		{"too many devices for one node", m2, "single-numa-node", func(r *placement.Request) { r.Containers[0].Devices[0].Count = 5 }},
		{"too many devices", m2, "best-effort", func(r *placement.Request) { r.Containers[0].Devices[0].Count = 9 }},
		{"too much memory for one node", m2, "single-numa-node", func(r *placement.Request) { r.Containers[0].Memory[1].Bytes = 400 << 30 }},
		{"too much memory", m2, "none", func(r *placement.Request) { r.Containers[0].Memory[1].Bytes = 900 << 30 }},
		{"too many CPUs", m2, "none", func(r *placement.Request) { r.Containers[0].MilliCPU = 200_000 }},
		{"unknown huge pages", m2, "restricted", func(r *placement.Request) { r.Containers[0].Memory[0].Resource = "hugepages-2Mi" }},
		{"absurd", m2, "restricted", func(r *placement.Request) { r.Containers[0].MilliCPU = 1 << 60 }},
		{"CPUs of an init container", m2, "single-numa-node", func(r *placement.Request) {
			r.Containers = append([]placement.ContainerRequest{{Name: "init", Kind: placement.Init, MilliCPU: 8_000}}, r.Containers...)
			r.Containers[1].MilliCPU = 64_000 // NUMA 1 has them, and the init container got those of NUMA 0
		}},
		{"admitted", m2, "restricted", func(*placement.Request) {}},
	} {
		_, s := test.machine.load(t, test.policy, true)
		r := pod2()
		test.edit(&r)
		refusal := placement.Explain(s, &r)
		text, err := json.Marshal(refusal)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("== " + test.name + "\n" + refusal.String() + "\n\n" + refusal.Table() + "\n" + string(text) + "\n\n")
	}
	golden.File(t, "testdata/refusals.txt", b.String())
}

// TestBrokenCoresHaveNumbers: the event says what a core has, and what would be right.
func TestBrokenCoresHaveNumbers(t *testing.T) {
	r := placement.Refusal{Reason: placement.SMTAlignmentError, Detail: placement.NotWholeCores, Container: "c",
		Needs: []placement.Need{{Resource: "cpu", Asked: 5, Whole: 2}}}
	want := "container c: 5 CPUs are no whole number of cores, which have 2 CPUs each; full-pcpus-only wants 4 or 6 (SMTAlignmentError)"
	if got := r.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestDetails: every detail has a name and a meaning of its own, and comes under a reason.
func TestDetails(t *testing.T) {
	seen := map[string]bool{}
	n := 0
	for d := placement.Detail(1); d.String() != "Detail(?)"; d++ {
		n++
		if seen[d.String()] || seen[d.Text()] || d.Text() == "" || d.Advice() == "" || d.Reason() == placement.Admitted {
			t.Errorf("%d: %s, %q, %q, %s", d, d, d.Text(), d.Advice(), d.Reason())
		}
		if strings.HasPrefix(d.String(), "Defect") != (d.Reason() == placement.KubeletDefect) {
			t.Errorf("%s comes under %s", d, d.Reason())
		}
		seen[d.String()], seen[d.Text()] = true, true
	}
	if n < 25 {
		t.Errorf("%d details", n)
	}
}
