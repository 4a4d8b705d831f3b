package cli

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/berth-dev/berth/test/golden"
	"github.com/berth-dev/berth/topology/shapes"
)

// drawn is a GPU server with 32 huge pages of 1 GiB on each NUMA node.
var drawn = strings.Replace(shapes.GPUServer, "1Gi=0", "1Gi=32", 1)

func drawArgs(pods string) []string {
	return []string{"place", "-f", pods, "--node", drawn, "--kubelet-config", "testdata/berths/kubelet.yaml",
		"--device", "nvidia.com/gpu=0:4,1:4", "-o", "svg"}
}

// TestDocumentedBerths compares the README's picture with the drawing.
func TestDocumentedBerths(t *testing.T) {
	code, got, stderr := run(t, drawArgs("testdata/berths/pods.yaml")...)
	if code != ExitOK || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	golden.File(t, "../../docs/images/berths.svg", got)
	for text, want := range map[string]int{"research/train-0": 1 + 16 + 2 + 2, `class="tag" `: 16 + 16 + 26 + 12 + 6 + 4 + 1 + 2} {
		if n := strings.Count(got, text); n != want {
			t.Errorf("%d times %s, want %d", n, text, want)
		}
	}
}

// TestReferenceDrawings compares the pictures of docs/concepts.md with the drawings. `make
// reference` writes them.
func TestReferenceDrawings(t *testing.T) {
	in := newInputs(t)
	asks := func(cpus string) string { return `{limits: {cpu: "` + cpus + `", memory: 1Gi}}` }
	for file, c := range map[string]struct {
		policy string
		pods   []string
	}{
		"concept-free.svg":        {"single-numa-node", []string{in.pod("web-a", asks("4")), in.pod("web-b", asks("5"))}},
		"concept-best-effort.svg": {"best-effort", []string{in.pod("web-a", asks("4")), in.pod("web-b", asks("5")), in.pod("train", asks("4"))}},
	} {
		config := t.TempDir() + "/kubelet.yaml"
		text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedSystemCPUs: 0,8\ntopologyManagerPolicy: " + c.policy + "\n"
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"place", "--node", "package:2 numa:1 core:4 pu:2 mem:16Gi", "--kubelet-config", config, "-o", "svg"}
		for _, pod := range c.pods {
			args = append(args, "-f", pod)
		}
		code, got, stderr := run(t, args...)
		if code != ExitOK {
			t.Fatalf("%s: exit code %d: %s", file, code, stderr)
		}
		golden.File(t, "../../docs/images/"+file, got)
	}
}

// TestDrawingOfARefusedPod: admitted pods are drawn, but the exit code is that of a refusal.
func TestDrawingOfARefusedPod(t *testing.T) {
	file := t.TempDir() + "/pods.yaml"
	pod := `apiVersion: v1
kind: Pod
metadata: {name: toolarge}
spec: {containers: [{name: main, image: x, resources: {limits: {cpu: "100", memory: 1Gi}}}]}
`
	if err := os.WriteFile(file, []byte(pod), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, stderr := run(t, drawArgs(file)...)
	if code != ExitFailure || !strings.Contains(stderr, "toolarge: 100 CPUs need 2 NUMA nodes, and single-numa-node allows 1") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if err := wellFormed(out); err != nil || strings.Contains(out, "toolarge") {
		t.Errorf("%v: %.200s", err, out)
	}
}

func wellFormed(text string) error {
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// TestLiveNodeDrawn draws one node of a cluster, with the names of its pods.
func TestLiveNodeDrawn(t *testing.T) {
	w := manyNodes(t)
	for _, a := range []asked{
		{args: []string{"node", "n1", "-o", "svg"}, want: []string{"<svg", ">n1</text>", "2 pods with a berth", "default/six", "default/four", ": free<", "kept for the system"}},
		{args: []string{"node", "n2", "-o", "svg"}, want: []string{"0 pods with a berth"}, never: []string{"default/"}},
		{args: []string{"nodes", "-o", "svg"}, code: ExitUsage, want: []string{"want the name of one node"}},
		{args: []string{"nodes", "n1", "n2", "-o", "svg"}, code: ExitUsage, want: []string{"want the name of one node, got 2"}},
		{args: []string{"nodes", "n1", "-w", "-o", "svg"}, code: ExitUsage, want: []string{"a drawing cannot be watched"}},
	} {
		a.check(t, w)
	}
	w = &world{t: t}
	w.addNode("n1", 0)
	for _, a := range []asked{
		{args: []string{"node", "n1", "-o", "svg"}, code: ExitFailure, want: []string{"node n1: no NodeTopology"}, never: []string{"<svg"}},
	} {
		a.check(t, w)
	}
}
