package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

const page = `# Title

Text.

    $ berth-demo example a | kubectl create -f -
    $ kubectl berth pods
    NAMESPACE   POD

    default     a-5hwbq

More.

## Second

    make play      # what it does
    kubectl get pods

## Third

    $ last
`

func TestSteps(t *testing.T) {
	for heading, want := range map[string][]Step{
		"": {
			{Command: "berth-demo example a | kubectl create -f -", Output: []string{}, Line: 5},
			{Command: "kubectl berth pods", Output: []string{"NAMESPACE   POD", "", "default     a-5hwbq"}, Line: 6},
			{Command: "make play", Line: 15},
			{Command: "kubectl get pods", Line: 16},
			{Command: "last", Output: []string{}, Line: 20},
		},
		"Second": {{Command: "make play", Line: 15}, {Command: "kubectl get pods", Line: 16}},
	} {
		got := Steps(page, heading)
		if !slices.EqualFunc(got, want, func(x, y Step) bool {
			return x.Command == y.Command && x.Line == y.Line && slices.Equal(x.Output, y.Output)
		}) {
			t.Errorf("%q:\n%+v\nwant\n%+v", heading, got, want)
		}
	}
}

// TestDocuments reads the real documents, so that a changed block does not silently leave the
// trial.
func TestDocuments(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if packages, err := packagesOf(read("README.md")); err != nil || !slices.Contains(packages, "make") {
		t.Errorf("README.md: packages %q, %v", packages, err)
	}
	if _, err := packagesOf("nothing"); err == nil {
		t.Error("want an error if no line names the packages")
	}
	for _, want := range []struct {
		name, heading string
		steps, shown  int
	}{{"README.md", "Try it in a minute", 3, 0}, {"docs/tutorial.md", "", 20, 9}} {
		steps := Steps(read(want.name), want.heading)
		shown := 0
		for _, s := range steps {
			if len(s.Output) > 0 {
				shown++
			}
		}
		if len(steps) < want.steps || shown < want.shown {
			t.Errorf("%s: %d commands, %d of them with outputs: want %d and %d at the least", want.name, len(steps), shown, want.steps, want.shown)
		}
	}
}

func TestDiffer(t *testing.T) {
	nodes := []string{"gpu-a", "gpu-b", "epyc-a"}
	const shown = "NAMESPACE   POD                       NODE     NUMA   CPUS\n" +
		"default     pinned-7689757c87-ftddr   epyc-a   0      1,3-5,49,51-53"
	for _, c := range []struct{ want, got, differ string }{
		{"a  b", "a b", ""},
		{"a", "b", `"a"`},
		{"a", "", `"a"`},
		{"a", "a\nb", "goes on after"},
		{"a\n...", "a\nb\nc", ""},
		{"a\n...\nc", "a\nb\nc", ""},
		{"a\n...\nc", "a\nc", ""},
		{"a\n...\nc", "a\nb", `"c"`},
		{"a\n...\nc", "a\nc\nd", "goes on after"},
		{"...\nnode gpu-a:\nb", "node gpu-a:\na\nnode gpu-b:\nb", ""},
		{"ROOM FOR   NODE\ntrain      gpu-a\nA place for train is held.", "ROOM FOR   NODE\ntrain      gpu-b\nA place for train is held.", ""},
		{"pinned-7689757c87-ftddr runs on gpu-a.", "pinned-5f8dc9bd4c-2xzkt runs on gpu-b.", ""},
		{"node gpu-a (report 1):", "node gpu-b (report 12):", ""},
		{"second-5hwbq", "training-5hwbq", `"second-*"`},
		{"1 pod", "2 pods", `"1 pod"`},
		{shown, "NAMESPACE  POD                     NODE   NUMA  CPUS\ndefault    pinned-568f9d7c4d-bcdfg  gpu-b  1     2-9", ""},
		{shown, "NAMESPACE  POD                     NODE   NUMA  CPUS\ndefault    pinned-568f9d7c4d-bcdfg  gpu-b  -     2-9", "pinned"},
		{shown, "NAMESPACE  POD                     NODE   NUMA  CPUS\nother      pinned-568f9d7c4d-bcdfg  gpu-b  1     2-9", "default"},
	} {
		got := Differ(strings.Split(c.want, "\n"), strings.Split(c.got, "\n"), nodes)
		if (got == "") != (c.differ == "") || !strings.Contains(got, c.differ) {
			t.Errorf("%q for %q: %q: want %q", c.got, c.want, got, c.differ)
		}
	}
}
