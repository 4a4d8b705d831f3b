package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/simulate"
)

// someLoad writes a file with single pods, which come at once and run for 8 hours.
func someLoad(t *testing.T) string {
	t.Helper()
	text := ""
	for i, asks := range []string{"cpu: 8, memory: 32Gi, nvidia.com/gpu: 1", "cpu: 4, memory: 16Gi", "cpu: 16, memory: 64Gi, nvidia.com/gpu: 2"} {
		text += fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: p%d, creationTimestamp: \"2026-01-01T00:00:00Z\"}\nspec: {activeDeadlineSeconds: 28800, containers: [{name: c, image: i, resources: {limits: {%s}}}]}\n---\n", i, asks)
	}
	file := filepath.Join(t.TempDir(), "load.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestSimulateTimed: pods come and go at their times, and the same seed gives the same result.
func TestSimulateTimed(t *testing.T) {
	ask := []string{"simulate", "--snapshot", aCluster, "--trace", someLoad(t), "--timed", "--strategy", "StockMost,Berth"}
	code, stdout, stderr := run(t, ask...)
	if code != ExitOK || !strings.Contains(stdout, "WAITING P50") || !strings.Contains(stdout, "\nBerth") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	_, stdout, _ = run(t, append(ask, "-o", "json")...)
	_, again, _ := run(t, append(ask, "-o", "json")...)
	var got struct {
		Timed      bool
		Strategies []simulate.Summary
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || stdout != again {
		t.Fatalf("%v; twice the same: %t", err, stdout == again)
	}
	if s := got.Strategies[1].Timed; !got.Timed || s == nil || s.GPUHours.Mean < 10 || len(s.Course) < 100 || s.Course[50].InUse == 0 {
		t.Errorf("%+v, %+v", got, s)
	}
}

// TestSimulateDefrag: with moves, each strategy has two rows, and the same seed gives the same
// result.
func TestSimulateDefrag(t *testing.T) {
	for _, from := range [][]string{{"--snapshot", aCluster, "--timed", "--hours", "6"}, {"--snapshot", aCluster, "--trace", someLoad(t), "--timed"}} {
		ask := append([]string{"simulate", "--defrag", "1h", "--strategy", "BerthKeep,Berth"}, from...)
		code, stdout, stderr := run(t, ask...)
		_, again, _ := run(t, ask...)
		if code != ExitOK || stdout != again || !strings.Contains(stdout, "ROOM MADE FOR") || !strings.Contains(stdout, "\nBerth, defrag 1h") || !strings.Contains(stdout, "\nBerthKeep ") {
			t.Errorf("%v: exit code %d, twice the same: %t\n%s%s", from, code, stdout == again, stdout, stderr)
		}
	}
}

// TestSimulateManifests: pods of manifests are simulated, and gangs as a whole. A note names
// pods that cannot be simulated.
func TestSimulateManifests(t *testing.T) {
	dir := t.TempDir()
	pod := func(name, more, asks string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + more + "}\nspec: {activeDeadlineSeconds: 600, containers: [{name: c, image: i, resources: {limits: {" + asks + "}}}]}\n---\n"
	}
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, creationTimestamp: \"2026-01-01T00:00:07Z\"}\nspec: {parallelism: 2, completions: 2, template: {metadata: " +
		"{creationTimestamp: \"2026-01-01T00:00:07Z\", annotations: {berth.dev/gang: g, berth.dev/gang-minimum: \"2\"}}, spec: {activeDeadlineSeconds: 600, restartPolicy: Never, containers: [{name: c, image: i, resources: {limits: {cpu: 4, memory: 4Gi, nvidia.com/gpu: 1}}}]}}}\n"
	gang := ", annotations: {berth.dev/gang: g, berth.dev/gang-minimum: \"2\"}"
	at := ", creationTimestamp: \"2026-01-01T00:00:05Z\""
	for _, c := range []struct {
		text string
		args []string
		code int
		want string
	}{
		{pod("a", at, "cpu: 2500m, memory: 3Gi") + pod("b", at, "cpu: 8, memory: 1Gi, nvidia.com/gpu: 2"), []string{"--timed"}, ExitOK, "\"arrived\":{\"mean\":2"},
		{pod("a", "", "cpu: 2, memory: 3Gi"), []string{"--timed"}, ExitFailure, "no times"},
		{pod("a", at, "cpu: 2, memory: 3Gi") + job, []string{"--timed", "--more", "gpu-1=4"}, ExitOK, "\"gangsWhole\":{\"mean\":100"},
		{job, nil, ExitUsage, "stands for a gang of 2: want --timed"},
		{pod("a", "", "cpu: 2, example.com/nic: 1, memory: 1Gi"), nil, ExitFailure, "note: 1 pod not simulated (a): a request for \"example.com/nic\": only cpu, memory, nvidia.com/gpu"},
		{pod("a", "", "cpu: 2, memory: 1Gi, nvidia.com/gpu: 100"), nil, ExitFailure, "note: 1 pod not simulated (a): a request for 100 of nvidia.com/gpu"},
		{pod("a", "", "cpu: 2, memory: 1Gi, nvidia.com/gpu: 100") + pod("b", "", "cpu: 2, memory: 1Gi"), nil, ExitOK, "\"pods\":1"},
		{pod("a", "", "cpu: 2, memory: 3Gi") + pod("b", at, "cpu: 2, memory: 1Gi"), []string{"--timed"}, ExitOK, "\"arrived\":{\"mean\":1"},
		{pod("a", gang, "cpu: 2, memory: 3Gi") + pod("b", gang, "cpu: 2, memory: 1Gi") + pod("c", "", "cpu: 2, memory: 1Gi"), nil, ExitOK,
			"note: 2 pods not simulated (a, b): members of the gang of a ask for different amounts: want equal amounts for all members"},
		{pod("a", gang, "cpu: 2, memory: 3Gi") + pod("b", gang, "cpu: 2, memory: 3Gi"), nil, ExitUsage, "stands for a gang of 2: want --timed"},
		{"kind: [", nil, ExitFailure, "document 1"},
	} {
		file := filepath.Join(dir, "pods.yaml")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := run(t, append([]string{"simulate", "--snapshot", aCluster, "--trace", file, "-o", "json", "--strategy", "Berth"}, c.args...)...)
		if code != c.code || !strings.Contains(strings.Join(strings.Fields(stdout), "")+stderr, c.want) {
			t.Errorf("%v: exit code %d, %.300s%s: want %d, %q", c.args, code, stdout, stderr, c.code, c.want)
		}
	}
}

// TestSimulateBadInput: the error names the flag, or the file.
func TestSimulateBadInput(t *testing.T) {
	flags := []string{"--snapshot", aCluster, "--trace", someLoad(t)}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{append(flags, "--seeds", "0"), ExitUsage, "--seeds 0: want 1 to 1000"},
		{append(flags, "--strategy", "Bert"), ExitUsage, "did you mean"},
		{append(flags, "--strategy", "FGD"), ExitUsage, "want StockLeast, StockMost, Berth, BerthKeep, BerthProfile"},
		{append(flags, "--timed", "--hours", "5"), ExitUsage, "--hours and --trace: want only one of these flags"},
		{append(flags[:2:2], "--timed", "--hours", "0"), ExitUsage, "--hours 0: want 0.1 to 8760"},
		{append(flags, "--defrag", "1h"), ExitUsage, "--defrag: want --timed too"},
		{append(flags, "--timed", "--defrag", "1s"), ExitUsage, "--defrag 1s: want at least 1m"},
		{append(flags, "--timed", "--defrag", "1h"), ExitUsage, "--defrag: strategy StockLeast ignores NUMA nodes"},
		{append(flags, "--timed", "--without", "gpu-1"), ExitUsage, "--without, --timed and --trace: want at most two of these flags"},
		{append(flags, "--without", "gpu-7"), ExitUsage, "--without: node \"gpu-7\" is not simulated"},
		{append(flags, "--more", "gpu-1=0"), ExitUsage, "--more gpu-1=0: want 1 to"},
		{append(flags, "--more", "gpu-7=1"), ExitUsage, "--more: node \"gpu-7\" is not simulated"},
		{flags[:2:2], ExitOK, ""},
		{append(flags[:2:2], "--trace", "none.yaml"), ExitFailure, "none.yaml"},
	} {
		code, _, stderr := run(t, append([]string{"simulate"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit code %d, %q: want %d, %q", c.args, code, stderr, c.code, c.want)
		}
	}
}

// TestSimulateChange: more nodes serve more pods. The pods of a node that is removed arrive again.
func TestSimulateChange(t *testing.T) {
	type answer struct {
		Nodes, Pods int
		Strategies  []simulate.Summary
	}
	play := func(args ...string) (got answer) {
		t.Helper()
		code, stdout, stderr := run(t, append([]string{"simulate", "--snapshot", aCluster, "--strategy", "Berth", "-o", "json"}, args...)...)
		if err := json.Unmarshal([]byte(stdout), &got); code != ExitOK || err != nil {
			t.Fatalf("%v: exit code %d, %v\n%s", args, code, err, stderr)
		}
		return got
	}
	load := filepath.Join(t.TempDir(), "many.yaml")
	text := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: 60, selector: {matchLabels: {app: d}}, template: {metadata: {labels: {app: d}}, spec: " +
		"{containers: [{name: c, image: i, resources: {limits: {cpu: 8, memory: 8Gi, nvidia.com/gpu: 1}}}]}}}\n"
	if err := os.WriteFile(load, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	as := play("--trace", load)
	if more := play("--trace", load, "--more", "gpu-1=3"); more.Nodes != as.Nodes+3 || more.Strategies[0].Pods.Mean == as.Strategies[0].Pods.Mean {
		t.Errorf("%+v, with three nodes more %+v", as, more)
	}
	for _, args := range [][]string{nil, {"--timed", "--hours", "4"}} {
		as, less := play(args...), play(append(args, "--without", "gpu-1")...)
		if less.Nodes != as.Nodes-1 || less.Pods <= as.Pods {
			t.Errorf("%v: %d nodes and %d pods, without gpu-1 %d and %d", args, as.Nodes, as.Pods, less.Nodes, less.Pods)
		}
	}
	if same := play("--more", "gpu-1=1", "--without", "gpu-1"); same.Strategies[0].Pods.Mean < 50 {
		t.Errorf("a new node in the place of an old one: %+v", same)
	}
}
