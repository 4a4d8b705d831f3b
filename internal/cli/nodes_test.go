package cli

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/topology"
)

// manyNodes has n1, of which pods use 6 and 4 CPUs, and the empty nodes n2 and n3. n3 has the label
// pool=gpu.
func manyNodes(t *testing.T) *world {
	w := &world{t: t}
	w.pods = make([]corev1.Pod, 0, 8)
	six, four := requestOf(t, w.addPod("six", "n1", 6, 0)), requestOf(t, w.addPod("four", "n1", 4, 0))
	for _, name := range []string{"n1", "n2", "n3"} {
		w.addNode(name, 0)
	}
	w.nodes[2].Labels["pool"] = "gpu"
	w.addTopology(reportOf(t, "n1", six, four), nil)
	w.addTopology(reportOf(t, "n2"), nil)
	w.addTopology(reportOf(t, "n3"), nil)
	return w
}

// TestNodesSelected: names, selector and order determine the lines. Each line is one node.
func TestNodesSelected(t *testing.T) {
	w := manyNodes(t)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"n1", "n2", "n3"}},
		{[]string{"n3", "node/n1"}, []string{"n1", "n3"}},
		{[]string{"nodes/n2"}, []string{"n2"}},
		{[]string{"-l", "pool=gpu"}, []string{"n3"}},
		{[]string{"-l", "pool!=gpu", "--sort-by", "free"}, []string{"n2", "n1"}},
		{[]string{"--sort-by", "block"}, []string{"n2", "n3", "n1"}},
		{[]string{"--sort-by", "pods"}, []string{"n1", "n2", "n3"}},
	} {
		code, stdout, stderr := run(t, slices.Concat([]string{"nodes", "--kubeconfig", w.kubeconfig()}, c.args)...)
		var got []string
		table, _, _ := strings.Cut(stdout, "\n\n")
		for line := range strings.Lines(table) {
			if name, _, _ := strings.Cut(line, " "); name != "NODE" {
				got = append(got, strings.TrimSpace(name))
			}
		}
		if code != ExitOK || !slices.Equal(got, c.want) {
			t.Errorf("%v: exit code %d, nodes %v, want %v; stderr %q", c.args, code, got, c.want, stderr)
		}
	}
	for _, a := range []asked{
		{args: []string{"nodes"}, want: []string{"0:0/6 1:4/8", "Whole NUMA nodes free: 2 of 8 CPUs, 2 of 6 CPUs."}},
		{args: []string{"nodes", "n1", "nope"}, code: ExitFailure, want: []string{"there is no Node nope"}},
		{args: []string{"nodes", "-l", "a=="}, code: ExitOK, want: []string{"No nodes."}, never: []string{"n1", "STATUS"}},
		{args: []string{"nodes", "-l", "(a"}, code: ExitUsage, want: []string{`--selector "(a"`}},
		{args: []string{"nodes", "--sort-by", "colour"}, code: ExitUsage, want: []string{"want block, free, name, pods"}},
	} {
		a.check(t, w)
	}
}

// TestFlagsFirst: a wrong flag, argument or file is reported by its name and value, without a
// request to the cluster, even if there is none.
func TestFlagsFirst(t *testing.T) {
	in := newInputs(t)
	wrong := in.file("wrong.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: x, resources: {limits: {cpu: two}}}]}\n")
	for _, c := range []struct {
		want string
		code int
		args []string
	}{
		{`--selector "a=(": `, ExitUsage, []string{"nodes", "-l", "a=("}},
		{`--selector "a=(": `, ExitUsage, []string{"frag", "-l", "a=("}},
		{"want labels in kubectl's syntax, like pool=gpu or 'pool in (a,b)'", ExitUsage, []string{"nodes", "-l", "a=("}},
		{"-o svg: want the name of one node", ExitUsage, []string{"nodes", "-o", "svg"}},
		{"-o svg --watch: ", ExitUsage, []string{"nodes", "n1", "-w", "-o", "svg"}},
		{`limits[cpu]: "two"`, ExitFailure, []string{"defrag", "--for", wrong}},
		{`defrag queue x: "queue" is not a kind that this verb knows`, ExitUsage, []string{"defrag", "queue", "x"}},
		{`limits[cpu]: "two"`, ExitFailure, []string{"simulate", "--trace", wrong}},
		{`limits[cpu]: "two"`, ExitFailure, []string{"fit", "-f", wrong}},
		{"--more n1=0: want 1 to ", ExitUsage, []string{"simulate", "--more", "n1=0"}},
	} {
		expect(t, c.code, c.want, append(c.args, "--kubeconfig", "/nonexistent")...)
	}
}

// TestHolders: for a named node, the pods that have its CPUs are printed.
func TestHolders(t *testing.T) {
	for _, a := range []asked{
		{args: []string{"node", "n1"}, want: []string{
			"n1     0      6      1-3,9-11    default/six    main", "n1     1      4      4-5,12-13   default/four   main"}},
		{args: []string{"node", "n1", "-o", "jsonpath={.nodes[0].holders[*].name}"}, want: []string{"six four"}},
		{args: []string{"nodes"}, never: []string{"default/six"}},
	} {
		a.check(t, manyNodes(t))
	}
}

// TestStrides: CPU lists are printed in the form of the verb topology.
func TestStrides(t *testing.T) {
	for list, want := range map[string]string{"1-3,9-11": "1-3,9-11", "": "", "x": "x", "0,2,4,6,8,10,12,14,16,18": "0-18:1/2"} {
		if got := stridesOf(list); got != want {
			t.Errorf("%q: got %q, want %q", list, got, want)
		}
	}
}

// TestCompletion completes names from the cluster and from the kubeconfig.
func TestCompletion(t *testing.T) {
	for want, args := range map[string][]string{
		"n2\n":        {"nodes", ""},
		"n3\n":        {"explain", "six", "--node", ""},
		"training\n":  {"pods", "-n", ""},
		"c\n":         {"nodes", "--context", ""},
		"block\nfree": {"nodes", "--sort-by", ""},
	} {
		args = slices.Concat([]string{"__complete", args[0], "--kubeconfig", manyNodes(t).kubeconfig()}, args[1:])
		code, stdout, stderr := run(t, args...)
		if code != ExitOK || !strings.Contains(stdout, want) {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q; want %q", args, code, stdout, stderr, want)
		}
	}
}

// TestMemoryCells: the unit is printed once, and many different amounts are added up.
func TestMemoryCells(t *testing.T) {
	numa := func(free ...uint64) (out []survey.NUMANode) {
		for i, f := range free {
			out = append(out, survey.NUMANode{NUMA: topology.NUMAID(i), Memory: []survey.Amount{{Resource: "memory", Free: f, Total: 32 << 30}}})
		}
		return out
	}
	for want, all := range map[string][]survey.NUMANode{
		"0:2/32Gi 1-3:32/32Gi":                  numa(2<<30, 32<<30, 32<<30, 32<<30),
		"0:0/32Gi 1:512Mi/32Gi":                 numa(0, 512<<20),
		"0:1/32Gi 1:2/32Gi 2:3/32Gi 3-4:4/32Gi": numa(1<<30, 2<<30, 3<<30, 4<<30, 4<<30),
		"15/160Gi, most 4:5Gi":                  numa(1<<30, 2<<30, 3<<30, 4<<30, 5<<30),
		"8Gi/9Ti":                               nil,
		"2.7/192Gi, most 1:1.1Gi":               numa(0, 1200<<20, 100<<20, 1000<<20, 200<<20, 300<<20),
	} {
		got := lineCells(all)[1]
		if all == nil {
			got = memoryText(8<<30, 9<<40)
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestLineCells: adjacent NUMA nodes with the same amounts are printed together, others one by one.
func TestLineCells(t *testing.T) {
	node := func(id topology.NUMAID, free uint64) survey.NUMANode {
		return survey.NUMANode{NUMA: id, CPUs: &survey.Amount{Free: free, Total: 12}}
	}
	for want, numa := range map[string][]survey.NUMANode{
		"-":                         nil,
		"0:2/12 1-3:12/12":          {node(0, 2), node(1, 12), node(2, 12), node(3, 12)},
		"0:12/12 2-3:12/12":         {node(0, 12), node(2, 12), node(3, 12)},
		"0-1:12/12 2:0/12 3:12/12":  {node(0, 12), node(1, 12), node(2, 0), node(3, 12)},
		"0:12/12 -:12/12 -:12/12":   {node(0, 12), {Anywhere: true, CPUs: &survey.Amount{Free: 12, Total: 12}}, {NUMA: 1, Anywhere: true, CPUs: &survey.Amount{Free: 12, Total: 12}}},
		"-:12/12 1:12/12 3-4:12/12": {{Anywhere: true, CPUs: &survey.Amount{Free: 12, Total: 12}}, node(1, 12), node(3, 12), node(4, 12)},
	} {
		if got := lineCells(numa)[0]; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestFlagsWithoutEffect: a note names flags that are ignored, and combinations without a meaning
// are refused.
func TestFlagsWithoutEffect(t *testing.T) {
	w := busyWorld(t)
	(&asked{args: []string{"nodes", "-n", "foo"}, want: []string{"note: nodes belong to no namespace: -n foo has no effect"}}).check(t, w)
	(&asked{args: []string{"nodes"}, never: []string{"has no effect"}}).check(t, w)
	expect(t, ExitUsage, "--snapshot "+playgroundSnapshot+": this command reads only a live cluster", "snapshot", "-", "--snapshot", playgroundSnapshot)
}
