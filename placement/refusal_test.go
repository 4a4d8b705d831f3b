package placement_test

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/golden"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
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
			r.Containers[1].MilliCPU = 64_000 // NUMA node 1 has them; the init container got those of NUMA node 0
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
		b.WriteString("== " + test.name + "\n" + refusal.String() + "\ndo: " + refusal.Advice() + "\n\n" + refusal.Table() + "\n" + string(text) + "\n\n")
	}
	golden.File(t, "testdata/refusals.txt", b.String())
}

// TestContainersAreNamedWhereThereAreSeveral: for a pod with one container, nodes of both scopes
// give the same refusal. For a pod with several containers, the refusal names the container.
func TestContainersAreNamedWhereThereAreSeveral(t *testing.T) {
	const why = "6 CPUs need 2 NUMA nodes, and single-numa-node allows 1 (TopologyAffinityError)"
	container := func(name string, cpus int64) placement.ContainerRequest {
		return placement.ContainerRequest{Name: name, MilliCPU: cpus * 1000}
	}
	view := machine{2, 1, 4, 1, 8 << 30, 0}.view()
	for _, c := range []struct {
		scope      string
		containers []placement.ContainerRequest
		want       string
	}{
		{"container", []placement.ContainerRequest{container("a", 6)}, why},
		{"pod", []placement.ContainerRequest{container("a", 6)}, why},
		{"container", []placement.ContainerRequest{container("a", 1), container("b", 6)}, "container b: " + why},
		{"pod", []placement.ContainerRequest{container("a", 1), container("b", 5)}, why},
	} {
		_, s := model(t, view, placement.Config{CPUManagerPolicy: "static", ReservedMilliCPU: 1000, TopologyManagerPolicy: "single-numa-node", TopologyManagerScope: c.scope})
		r := placement.Explain(s, &placement.Request{UID: "p", Guaranteed: true, Containers: c.containers})
		if got := r.String(); got != c.want {
			t.Errorf("scope %s, %d containers: %q, want %q", c.scope, len(c.containers), got, c.want)
		}
	}
}

// TestAdviceFollowsFromWhatLacks: the node has too few resources in total, in one place, or even if
// it is empty. If the kubelet decides, the advice does not name an annotation.
func TestAdviceFollowsFromWhatLacks(t *testing.T) {
	need := func(resource string, asked, total uint64, free ...uint64) placement.Need {
		n := placement.Need{Resource: resource, Asked: asked}
		for i, f := range free {
			n.Nodes = append(n.Nodes, placement.NodeAmount{NUMA: topology.NUMAID(i), Free: f, Total: total})
			n.Free += f
		}
		return n
	}
	const kubelets, berths = "the policy best-effort", "berth.dev/policy: best-effort"
	for name, c := range map[string]struct {
		detail          placement.Detail
		policy, never   string
		needs           []placement.Need
		want, wantNever string
	}{
		"no GPU is free":      {placement.NotPreferred, "restricted", "", []placement.Need{need("cpu", 4, 32, 8, 8), need("nvidia.com/gpu", 1, 4, 0, 0)}, "wait until other pods release nvidia.com/gpu (none is free here), or add nodes", "best-effort"},
		"some are free":       {placement.NoDevices, "none", "", []placement.Need{need("nvidia.com/gpu", 3, 4, 1, 1)}, "wait until other pods release nvidia.com/gpu, add nodes, or ask for at most 2", "best-effort"},
		"in one place":        {placement.NotPreferred, "single-numa-node", "", []placement.Need{need("cpu", 5, 32, 4, 4)}, "berth defrag shows which pods would have to move", "berth.dev/policy"},
		"in one place, ours":  {placement.TooWide, "single-numa-node", "", []placement.Need{need("cpu", 5, 32, 4, 4)}, berths, kubelets + " "},
		"never in one place":  {placement.NotPreferred, "single-numa-node", "unresolvable", []placement.Need{need("cpu", 40, 32, 32, 32)}, "use nodes with more resources on each NUMA node; or use nodes whose kubelet has " + kubelets, "wait"},
		"never, ours":         {placement.TooWide, "single-numa-node", "unresolvable", []placement.Need{need("cpu", 40, 32, 32, 32)}, berths, "wait"},
		"never in all":        {placement.NoDefaultMemory, "none", "unresolvable", []placement.Need{need("hugepages-1Gi", 40<<30, 8<<30, 8<<30, 8<<30)}, "this one has 16Gi hugepages-1Gi for pods in total", "CPUs"},
		"never so many cores": {placement.TooFewWholeCores, "none", "unresolvable", nil, "use other nodes", "wait"},
		"whole cores, later":  {placement.TooFewWholeCores, "none", "resolvable", nil, "wait until whole cores are free", "other nodes"},
	} {
		r := placement.Refusal{Detail: c.detail, Reason: c.detail.Reason(), Policy: c.policy, Scarcity: cmp.Or(c.never, "resolvable"), Needs: c.needs}
		if got := r.Advice(); !strings.Contains(got, c.want) || strings.Contains(got, c.wantNever) {
			t.Errorf("%s: %q: want %q, and no %q", name, got, c.want, c.wantNever)
		}
	}
}

// TestAdviceNamesNothingRuledOut: the advice does not name nodes that the pod's own rules exclude.
func TestAdviceNamesNothingRuledOut(t *testing.T) {
	view := made.View(t, shapes.Machine("package:2 numa:1 core:4 pu:1"))
	const nodes = "whose kubelet has the policy best-effort"
	for name, c := range map[string]struct {
		rules placement.Rules
		want  bool
	}{
		"no rules":                   {placement.Rules{}, true},
		"none":                       {placement.Rules{Policy: placement.PolicyNone}, true},
		"best-effort":                {placement.Rules{Policy: placement.PolicyBestEffort}, true},
		"best-effort, exactly":       {placement.Rules{Policy: placement.PolicyBestEffort, Match: placement.Exactly}, true},
		"none, exactly":              {placement.Rules{Policy: placement.PolicyNone, Match: placement.Exactly}, false},
		"restricted":                 {placement.Rules{Policy: placement.PolicyRestricted}, false},
		"single-numa-node":           {placement.Rules{Policy: placement.PolicySingleNUMANode}, false},
		"single-numa-node, scope":    {placement.Rules{Policy: placement.PolicySingleNUMANode, Scope: placement.PodScope}, false},
		"single-numa-node, whatever": {placement.Rules{Policy: placement.PolicySingleNUMANode, Match: placement.Whatever}, true},
		"scope alone":                {placement.Rules{Scope: placement.ContainerScope}, true},
		"CPUs of its own":            {placement.Rules{Policy: placement.PolicyBestEffort, OwnCPUs: true}, true},
		"one NUMA node":              {placement.Rules{NUMANodes: 1}, false},
		"one device on each":         {placement.Rules{Devices: placement.DeviceRules{PerNode: 1}}, false},
	} {
		for _, cpus := range []int64{5, 3} { // 5 never fit on one NUMA node, 3 do not fit now
			model := made.ModelOf(t, view, placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "single-numa-node"})
			s, d := model.NewState(), placement.Decision{}
			for _, uid := range []string{"a", "b"} {
				held := placement.Request{UID: uid, Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: 2000}}}
				if v := placement.Decide(s, &held, &d); !v.OK() {
					t.Fatal(v)
				}
				s.Commit(&held, &d)
			}
			r := placement.Request{UID: "p", Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: cpus * 1000}}, Rules: c.rules}
			refusal := placement.Explain(s, &r)
			if refusal.Detail != placement.NotPreferred && c.rules.Devices.PerNode == 0 {
				t.Errorf("%s, %d CPUs: %s", name, cpus, refusal.Detail)
			}
			if refusal.Detail != placement.NotPreferred {
				continue // there is no device to count
			}
			if got := refusal.Advice(); strings.Contains(got, nodes) != c.want || !strings.Contains(got, "ask for") {
				t.Errorf("%s, %d CPUs: %q: want best-effort named: %t", name, cpus, got, c.want)
			}
		}
		for _, d := range []placement.Detail{placement.NotPreferred, placement.DefaultMemoryNotPreferred, placement.MemoryExtensionNotPreferred} {
			if got := d.AdviceFor(c.rules); strings.Contains(got, nodes) != c.want || !strings.Contains(got, "ask for") {
				t.Errorf("%s, %s: %q: want best-effort named: %t", name, d, got, c.want)
			}
		}
	}
}

// TestMoreThanThereEverIs: if the empty node has less memory than requested, the refusal does not
// say that the memory may be anywhere, or that removing pods can help.
func TestMoreThanThereEverIs(t *testing.T) {
	_, s := m2.load(t, "restricted", false)
	r := pod2()
	for i := range r.Containers[0].Memory {
		r.Containers[0].Memory[i].Bytes = 1 << 42
	}
	refusal := placement.Explain(s, &r)
	table := refusal.Table()
	if !strings.Contains(table, "removing pods does not help") || strings.Contains(table, "anywhere\n                 0") {
		t.Errorf("got\n%s", table)
	}
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "memory") && !strings.HasSuffix(strings.TrimSpace(line), "none") {
			t.Errorf("memory may lie somewhere: %s", line)
		}
	}
	if got := refusal.Advice(); !strings.Contains(got, "ask for less, or use other nodes: this one has") {
		t.Errorf("advice %q", got)
	}
}

// TestEndlessMemory: if the reserved memory exceeds the memory and the kubelet computes a huge free
// amount, the refusal reports this.
func TestEndlessMemory(t *testing.T) {
	r := placement.Refusal{Detail: placement.DefectMemoryUnderflow, Needs: []placement.Need{{Resource: "memory", Asked: 1 << 30,
		Nodes: []placement.NodeAmount{{Total: 1<<64 - 1<<20, Free: 1<<64 - 1<<20}}}}}
	if got := r.Table(); strings.Contains(got, "Ei") || !strings.Contains(got, "endless  endless") {
		t.Errorf("want endless in\n%s", got)
	}
}

// TestBrokenCoresHaveNumbers: the event has the number of CPUs per core, and a correct number of
// CPUs.
func TestBrokenCoresHaveNumbers(t *testing.T) {
	r := placement.Refusal{Reason: placement.SMTAlignmentError, Detail: placement.NotWholeCores, Container: "c",
		Needs: []placement.Need{{Resource: "cpu", Asked: 5, Whole: 2}}}
	want := "container c: 5 CPUs are not a whole number of cores, which have 2 CPUs each; full-pcpus-only requires 4 or 6 (SMTAlignmentError)"
	if got := r.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r.Needs[0].Asked = 1
	want = "container c: 1 CPU is not a whole number of cores, which have 2 CPUs each; full-pcpus-only requires 2 (SMTAlignmentError)"
	if got := r.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNoNUMANode: if the NUMA nodes of a resource are not known, the message has the node's total.
func TestNoNUMANode(t *testing.T) {
	r := placement.Refusal{Reason: placement.NoBerth, Detail: placement.NotExactly, NUMANodes: 2,
		Needs: []placement.Need{{Resource: "example.com/licence", Asked: 4, Free: 3}}}
	want := "no room on exactly 2 NUMA nodes with a part on each: the node has 3 free example.com/licence without a known NUMA node (4 needed) (NoBerth)"
	if got := r.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestDetails: every detail has its own name and meaning, and belongs to a reason.
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
