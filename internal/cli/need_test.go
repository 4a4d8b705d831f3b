package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// needs writes a load and a kubelet configuration, and returns the flags for them.
func needs(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"load.yaml": `{apiVersion: apps/v1, kind: Deployment, metadata: {name: serve}, spec: {replicas: 20, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}},
  spec: {containers: [{name: c, image: x, resources: {limits: {cpu: "36", memory: 60Gi, nvidia.com/gpu: "1"}}}]}}}}`,
		"kubelet.yaml": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n" +
			"topologyManagerPolicy: single-numa-node\nreservedSystemCPUs: 0,96\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"need", "-f", filepath.Join(dir, "load.yaml"), "--kubelet-config", filepath.Join(dir, "kubelet.yaml"), "--device", "nvidia.com/gpu=0:4,1:4"}
}

const needMachine = "package:2 numa:1 core:48 pu:2 mem:512Gi"

// TestNeed has the example of docs/dialects.md.
func TestNeed(t *testing.T) {
	code, stdout, stderr := run(t, append(needs(t), needMachine, "--set", "topologyManagerPolicy=restricted", "--set", "reservedSystemCPUs=0-3,96-99",
		"--set", "numaNodesPerPackage=4", "--set", "topologyManagerPolicy=none", "-o", "json")...)
	var got struct{ Groups []needed }
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != ExitFailure || len(got.Groups) != 5 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	for i, want := range []struct{ nodes, byAmounts, never int }{{5, 4, 0}, {5, 4, 0}, {5, 4, 0}, {0, 0, 20}, {4, 4, 0}} {
		if g := &got.Groups[i]; g.Nodes != want.nodes || g.ByAmounts != want.byAmounts || neverFit(g) != want.never {
			t.Errorf("%s: %d nodes, %d by amounts, %d pods never: want %+v", g.setText(), g.Nodes, g.ByAmounts, neverFit(g), want)
		}
	}
}

// TestNeedTable: a row shows how it differs from the first row of its machine.
func TestNeedTable(t *testing.T) {
	code, stdout, stderr := run(t, append(needs(t), needMachine, "package:2 numa:1 core:40 pu:2 mem:512Gi", "--set", "topologyManagerPolicy=none")...)
	if code != ExitOK || strings.Count(stdout, "\n") != 5 || !strings.Contains(stdout, "as configured") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

func TestNeedBadInput(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{needMachine, "--node", needMachine}, "want the machine as an argument or with the flag, not both"},
		{[]string{needMachine, "--state", "/var/lib/kubelet"}, "--state /var/lib/kubelet: leave out --state, because berth need counts new, empty nodes"},
		{[]string{needMachine, "--set", "policy=none"}, "--set \"policy=none\": want KEY=VALUE"},
		{[]string{needMachine, "--set", "reservedSystemCPUs=x"}, "want a list of CPUs"},
		{[]string{needMachine, "--set", "reservedSystemCPUs=0,"}, "want a list of CPUs"},
		{[]string{needMachine, "--set", "reservedSystemCPUs=0, 1"}, "want a list of CPUs and ranges without blanks"},
		{[]string{needMachine, "--set", "numaNodesPerPackage=7"}, "7 NUMA nodes in each package"},
		{[]string{needMachine, "--set", "numaNodesPerPackage=2", "--device", "a/b=5:1"}, "--device a/b: NUMA node 5: want"},
		{[]string{"package:2 numa:1 core:4 pu:2 mem:8Gi", "--set", "reservedSystemCPUs=200"}, "reservedSystemCPUs"},
	} {
		if code, _, stderr := run(t, append(needs(t), c.args...)...); code == ExitOK || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit code %d, %q: want %q", c.args, code, stderr, c.want)
		}
	}
}
