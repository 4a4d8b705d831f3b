package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/simulate"
)

// aCluster is a snapshot with running and waiting pods.
const aCluster = "../../test/web/testdata/cluster.berth"

// changedCluster writes a copy of aCluster with a changed text.
func changedCluster(t *testing.T, name string, change func(string) string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(change(unpackedSnapshot(t, aCluster)))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSimulateSnapshot: a simulation starts with a cluster. Its running pods use resources, and its
// waiting pods or other pods arrive. The same seed gives the same result.
func TestSimulateSnapshot(t *testing.T) {
	load := someLoad(t)
	for name, args := range map[string][]string{
		"who waits":          nil,
		"who waits, timed":   {"--timed", "--hours", "10"},
		"others":             {"--trace", load},
		"others come and go": {"--trace", load, "--timed"},
	} {
		ask := append([]string{"simulate", "--snapshot", aCluster, "--strategy", "StockLeast,Berth", "--seeds", "2", "-o", "json"}, args...)
		code, stdout, stderr := run(t, ask...)
		if code != ExitOK || !strings.Contains(stderr, "node pmem-1 is left out: it is cordoned") {
			t.Errorf("%s: exit code %d: %s", name, code, stderr)
		}
		var got struct {
			Nodes, Pods int
			Snapshot    string
			Strategies  []simulate.Summary
		}
		_, again, _ := run(t, ask...)
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || stdout != again {
			t.Fatalf("%s: %v; twice the same: %t", name, err, stdout == again)
		}
		if got.Nodes != 5 || got.Snapshot != "cluster.berth" || len(got.Strategies) != 2 || got.Strategies[1].Aligned.Mean < 70 {
			t.Errorf("%s: %d nodes, %d pods, %+v", name, got.Nodes, got.Pods, got.Strategies)
		}
	}
}

// TestSimulateBadSnapshot: the error names the file and the object.
func TestSimulateBadSnapshot(t *testing.T) {
	all := func(old, new string) func(string) string {
		return func(text string) string { return strings.ReplaceAll(text, old, new) }
	}
	for _, c := range []struct {
		file string
		args []string
		code int
		want string
	}{
		{aCluster, []string{"--hours", "4"}, ExitUsage, "--hours: want --timed too"},
		{filepath.Join(t.TempDir(), "none"), nil, ExitFailure, "none: no such file"},
		{changedCluster(t, "few", all(`"nvidia.com/gpu":"8"`, `"nvidia.com/gpu":"800"`)), nil, ExitFailure, "few: node gpu-1: status.allocatable"},
		{changedCluster(t, "closed", all(`"taken":"2026`, `"taken":"2027`)), nil, ExitFailure, "closed: no node accepts new pods"},
	} {
		code, _, stderr := run(t, append([]string{"simulate", "--snapshot", c.file, "--strategy", "Berth"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s %v: exit code %d, %q: want %d, %q", filepath.Base(c.file), c.args, code, stderr, c.code, c.want)
		}
	}
}

// TestSimulateSkips: a waiting pod that cannot be simulated is left out with a note. Other
// resources of the nodes are simulated.
func TestSimulateSkips(t *testing.T) {
	waits := func(name, resources, more string) string {
		return `{"metadata":{"name":"` + name + `","namespace":"x","uid":"` + name + `","creationTimestamp":"2026-01-01T00:00:00Z"` + more + `},"spec":{"schedulerName":"berth","containers":[{"name":"c","resources":{"requests":` + resources + `,"limits":` + resources + `}}]},"status":{"phase":"Pending"}}`
	}
	member := `,"annotations":{"berth.dev/gang":"g","berth.dev/gang-minimum":"2"}`
	file := changedCluster(t, "more", func(text string) string {
		text = strings.ReplaceAll(text, `"nvidia.com/gpu":"8"`, `"nvidia.com/gpu":"8","rdma/hca":"2","hugepages-1Gi":"4Gi"`)
		return strings.Replace(text, `"pods":[{"metadata"`, `"pods":[`+strings.Join([]string{
			waits("typo-1", `{"cpu":"1","memory":"1Gi","nvidia.com/gpus":"1"}`, ""), waits("typo-2", `{"cpu":"1","memory":"1Gi","nvidia.com/gpus":"1"}`, ""),
			waits("nic", `{"cpu":"1","memory":"1Gi","rdma/hca":"1"}`, ""), waits("huge", `{"cpu":"1","memory":"1Gi","hugepages-1Gi":"1Gi"}`, ""),
			waits("m1", `{"cpu":"1","memory":"1Gi"}`, member), waits("m2", `{"cpu":"2","memory":"1Gi"}`, member),
		}, ",")+`,{"metadata"`, 1)
	})
	_, before, _ := run(t, "simulate", "--snapshot", aCluster, "--timed", "--strategy", "Berth", "-o", "json")
	code, stdout, stderr := run(t, "simulate", "--snapshot", file, "--timed", "--strategy", "Berth", "-o", "json")
	if code != ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{
		"note: 2 waiting pods not simulated (x/typo-1, x/typo-2): a request for \"nvidia.com/gpus\": only cpu, memory, nvidia.com/gpu, hugepages-1Gi, hugepages-2Mi and rdma/hca are simulated (did you mean \"nvidia.com/gpu\"?)",
		"note: 2 waiting pods not simulated (x/m1, x/m2): members of the gang of x/m1 ask for different amounts",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in\n%s", want, stderr)
		}
	}
	var a, b struct{ Pods int }
	if json.Unmarshal([]byte(before), &a) != nil || json.Unmarshal([]byte(stdout), &b) != nil || b.Pods != a.Pods+2 {
		t.Errorf("%d pods are played, want %d: those of before, one with a NIC, one with huge pages", b.Pods, a.Pods+2)
	}
}

// TestSimulateCluster: without --snapshot, the simulation starts with the cluster itself.
func TestSimulateCluster(t *testing.T) {
	w := &world{t: t}
	w.addNode("n1", time.Second).Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("14"), "memory": resource.MustParse("15Gi"), "pods": resource.MustParse("20"), "example.com/gpu": resource.MustParse("3")}
	w.addTopology(reportOf(t, "n1"), nil)
	w.addPod("waits", "", 4, 1)
	w.addPod("too-big", "", 40, 0)
	code, stdout, stderr := run(t, "simulate", "--kubeconfig", w.kubeconfig(), "--strategy", "StockLeast,Berth", "--more", "n1=1", "-o", "json")
	var got struct {
		Nodes, Pods int
		Strategies  []simulate.Summary
	}
	if err := json.Unmarshal([]byte(stdout), &got); code != ExitOK || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, stderr)
	}
	if got.Nodes != 2 || got.Pods != 2 || len(got.Strategies) != 2 || got.Strategies[1].Pods.Mean != 50 {
		t.Errorf("%+v", got)
	}
	code, _, stderr = run(t, "simulate", "--kubeconfig", w.kubeconfig(), "--without", "n1")
	if code != ExitUsage || !strings.Contains(stderr, "--without n1: no node is left") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
