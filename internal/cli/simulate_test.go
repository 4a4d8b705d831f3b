package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/simulate"
)

// lists writes a list of nodes and one of pods, and returns the flags that name them.
func lists(t *testing.T) (dir string, flags []string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"nodes": "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,4,T4\nb,96000,262144,8,A10\n",
		"pods":  "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,4000,4096,1,500,\nq,8000,8192,2,1000,A10\nr,2000,2048,0,0,\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, []string{"--nodes", filepath.Join(dir, "nodes"), "--trace", filepath.Join(dir, "pods")}
}

func TestSimulate(t *testing.T) {
	_, flags := lists(t)
	ask := append([]string{"simulate", "--arrive", "1.3", "--seeds", "3", "--strategy", "BestFit,FGD"}, flags...)
	code, stdout, stderr := run(t, ask...)
	if code != ExitOK || stderr != "" || !strings.Contains(stdout, "\nBestFit") || !strings.Contains(stdout, "\nFGD") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	_, stdout, _ = run(t, append(ask, "-o", "json")...)
	_, again, _ := run(t, append(ask, "-o", "json")...)
	var got struct {
		Nodes, Pods int
		Seeds       []int64
		Strategies  []simulate.Summary
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || stdout != again {
		t.Fatalf("%v; twice the same: %t", err, stdout == again)
	}
	if got.Nodes != 2 || got.Pods != 3 || len(got.Seeds) != 3 || len(got.Strategies) != 2 || got.Strategies[0].Runs != 3 || got.Strategies[0].GPUs.Mean < 50 {
		t.Errorf("%+v", got)
	}
}

// TestSimulateNUMA: with an overlay every strategy can be asked, and a synthetic load played.
func TestSimulateNUMA(t *testing.T) {
	_, flags := lists(t)
	code, stdout, stderr := run(t, append(append([]string{"simulate"}, flags...), "--trace", "synthetic:inference", "--arrive", "1.3", "--overlay", "sockets/restricted", "--strategy", "StockLeast,Berth")...)
	if code != ExitOK || stderr != "" || !strings.Contains(stdout, "\nBerth") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

// TestSimulatePage: the page names the lists without their folders, and how to make it again.
func TestSimulatePage(t *testing.T) {
	dir, flags := lists(t)
	code, stdout, stderr := run(t, append([]string{"simulate", "-o", "html", "--seeds", "2", "--overlay", "sockets/restricted", "--strategy", "KAI,Berth"}, flags...)...)
	if code != ExitOK || stderr != "" || !strings.HasPrefix(stdout, "<!DOCTYPE html>") || strings.Contains(stdout, dir) {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	const command = "berth simulate --nodes nodes --output html --overlay sockets/restricted --seeds 2 --strategy KAI,Berth --trace pods"
	_, timed, _ := run(t, append([]string{"simulate", "-o", "html", "--load", "0.8", "--hours", "2", "--overlay", "sockets/restricted", "--strategy", "KAI,Berth"}, flags...)...)
	if !strings.Contains(timed, "How long pods wait") || !strings.Contains(timed, "--hours 2 --load 0.8") || strings.Contains(timed, "NaN") {
		t.Errorf("with times: %s", timed)
	}
	if !strings.Contains(stdout, command) {
		t.Errorf("want %q in\n%s", command, stdout)
	}
}

// TestSimulateTimed: with a load pods come and go, and the same seed gives the same.
func TestSimulateTimed(t *testing.T) {
	_, flags := lists(t)
	ask := append([]string{"simulate"}, append(flags, "--trace", "synthetic:inference", "--load", "0.9", "--hours", "8", "--failures", "50h", "--overlay", "sockets/restricted", "--strategy", "StockMost,Berth")...)
	code, stdout, stderr := run(t, ask...)
	if code != ExitOK || stderr != "" || !strings.Contains(stdout, "WAITING P50") || !strings.Contains(stdout, "\nBerth") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	_, stdout, _ = run(t, append(ask, "-o", "json")...)
	_, again, _ := run(t, append(ask, "-o", "json")...)
	var got struct {
		Load, Hours float64
		Strategies  []simulate.Summary
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || stdout != again {
		t.Fatalf("%v; twice the same: %t", err, stdout == again)
	}
	if s := got.Strategies[1].Timed; got.Load != 0.9 || got.Hours != 8 || s == nil || s.GPUHours.Mean < 20 || len(s.Course) < 100 || s.Course[50].InUse == 0 {
		t.Errorf("%+v, %+v", got, s)
	}
}

// TestSimulateDefrag: with moves each strategy has two rows, and the same seed gives the same.
func TestSimulateDefrag(t *testing.T) {
	for _, from := range [][]string{{"--snapshot", aCluster, "--timed"}, {"--snapshot", aCluster, "--trace", "synthetic:inference", "--load", "0.5"}} {
		ask := append([]string{"simulate", "--defrag", "1h", "--hours", "6", "--strategy", "KAI,Berth"}, from...)
		code, stdout, stderr := run(t, ask...)
		_, again, _ := run(t, ask...)
		if code != ExitOK || stdout != again || !strings.Contains(stdout, "ROOM MADE FOR") || !strings.Contains(stdout, "\nBerth, defrag 1h") || !strings.Contains(stdout, "\nKAI ") {
			t.Errorf("%v: exit code %d, twice the same: %t\n%s%s", from, code, stdout == again, stdout, stderr)
		}
	}
}

// TestSimulateManifests: pods of manifests are played, gangs whole, and what is not simulated is
// refused by name.
func TestSimulateManifests(t *testing.T) {
	dir, flags := lists(t)
	pod := func(name, more, asks string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + more + "}\nspec: {activeDeadlineSeconds: 600, containers: [{name: c, image: i, resources: {limits: {" + asks + "}}}]}\n---\n"
	}
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, creationTimestamp: \"2026-01-01T00:00:07Z\"}\nspec: {parallelism: 2, completions: 2, template: {metadata: " +
		"{annotations: {berth.dev/gang: g, berth.dev/gang-minimum: \"2\"}}, spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {limits: {cpu: 4, memory: 4Gi, nvidia.com/gpu: 1}}}]}}}\n"
	at := ", creationTimestamp: \"2026-01-01T00:00:05Z\""
	for _, c := range []struct {
		text string
		args []string
		code int
		want string
	}{
		{pod("a", at, "cpu: 2500m, memory: 3Gi") + pod("b", at, "cpu: 8, memory: 1Gi, nvidia.com/gpu: 2"), []string{"--timed"}, ExitOK, "\"arrived\":{\"mean\":2"},
		{pod("a", "", "cpu: 2, memory: 3Gi"), []string{"--timed"}, ExitFailure, "it has no times"},
		{pod("a", "", "cpu: 2, memory: 3Gi") + job, []string{"--load", "0.5", "--hours", "40"}, ExitOK, "\"gangsWhole\":{\"mean\":100"},
		{job, nil, ExitUsage, "is a gang of 2: want --load or --timed"},
		{pod("a", "", "cpu: 2, hugepages-2Mi: 4Mi, memory: 1Gi"), nil, ExitFailure, "pod a: it asks for \"hugepages-2Mi\": want cpu, memory and nvidia.com/gpu"},
		{pod("a", "", "cpu: 2, memory: 1Gi, nvidia.com/gpu: 100"), nil, ExitFailure, "pod a: it asks for 100 of nvidia.com/gpu"},
		{"kind: [", nil, ExitFailure, "document 1"},
	} {
		file := filepath.Join(dir, "pods.yaml")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := run(t, append(append([]string{"simulate"}, append(flags, "--trace", file, "-o", "json", "--strategy", "BestFit")...), c.args...)...)
		if code != c.code || !strings.Contains(strings.Join(strings.Fields(stdout), "")+stderr, c.want) {
			t.Errorf("%v: exit code %d, %.300s%s: want %d, %q", c.args, code, stdout, stderr, c.code, c.want)
		}
	}
}

// TestSimulateBadInput: the error names the flag, or file, line and field.
func TestSimulateBadInput(t *testing.T) {
	dir, flags := lists(t)
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,-1,1,0,0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	gangs := filepath.Join(dir, "gangs")
	if err := os.WriteFile(gangs, []byte("name,cpu_milli,memory_mib,num_gpu,gpu_milli,members\ng,1,1,0,0,3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, ExitUsage, "--trace: want a file with pods"},
		{[]string{"--trace", bad}, ExitUsage, "--nodes: want a file with nodes"},
		{append(flags, "--arrive", "-1"), ExitUsage, "--arrive -1: want 0 to 10"},
		{append(flags, "--arrive", "NaN"), ExitUsage, "--arrive NaN: want 0 to 10"},
		{append(flags, "--seeds", "0"), ExitUsage, "--seeds 0: want 1 to 1000"},
		{append(flags, "--strategy", "BestFi"), ExitUsage, "did you mean"},
		{append(flags, "--strategy", "Berth"), ExitUsage, "--strategy Berth: it goes by NUMA nodes: want --overlay or --snapshot too"},
		{append(flags, "--overlay", "sockets"), ExitUsage, "want sockets/restricted"},
		{append(flags, "--trace", "synthetic:telko"), ExitUsage, "did you mean \"telco\""},
		{append(flags, "--load", "0.9", "--arrive", "1.3"), ExitUsage, "--arrive: want it without --load"},
		{append(flags, "--load", "0.9", "--timed"), ExitUsage, "--timed: want it without --load"},
		{append(flags, "--load", "0"), ExitUsage, "--load 0: want more than 0, and at most 10"},
		{append(flags, "--load", "NaN"), ExitUsage, "--load NaN: want more than 0"},
		{append(flags, "--hours", "5"), ExitUsage, "--hours: want --load too"},
		{append(flags, "--load", "0.9", "--hours", "0"), ExitUsage, "--hours 0: want 0.1 to 8760"},
		{append(flags, "--failures", "5h"), ExitUsage, "--failures: want --load or --timed too"},
		{append(flags, "--load", "0.9", "--failures", "-5h"), ExitUsage, "--failures -5h0m0s: want at least 1m"},
		{append(flags, "--defrag", "1h"), ExitUsage, "--defrag: want --load or --timed too"},
		{append(flags, "--load", "0.9", "--defrag", "1s"), ExitUsage, "--defrag 1s: want at least 1m"},
		{append(flags, "--load", "0.9", "--defrag", "1h"), ExitUsage, "--defrag: want --overlay or --snapshot too"},
		{append(flags, "--load", "0.9", "--defrag", "1h", "--overlay", "sockets/restricted"), ExitUsage, "--defrag: strategy BestFit knows no NUMA nodes"},
		{append(flags, "--timed"), ExitFailure, "pod \"p\": it has no times: want them for all pods, or a load"},
		{append(flags, "--trace", gangs), ExitUsage, "pod \"g\" is a gang of 3: want --load or --timed"},
		{append(flags, "--trace", bad), ExitFailure, "bad, line 2, cpu_milli: \"-1\": want"},
		{append(flags, "--nodes", bad), ExitFailure, "want a column sn"},
		{append(flags, "--nodes", dir+"/none"), ExitFailure, "no such file"},
	} {
		code, _, stderr := run(t, append([]string{"simulate"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit code %d, %q: want %d, %q", c.args, code, stderr, c.code, c.want)
		}
	}
}
