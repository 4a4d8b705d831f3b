package cli

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/test/golden"
)

// ownedSnapshot writes the playground's snapshot with a controller for every pod.
func ownedSnapshot(t *testing.T) string {
	t.Helper()
	in, err := os.Open(playgroundSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	unpacked, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	var s map[string]any
	if err := json.NewDecoder(unpacked).Decode(&s); err != nil {
		t.Fatal(err)
	}
	for _, p := range s["pods"].([]any) {
		meta := p.(map[string]any)["metadata"].(map[string]any)
		meta["ownerReferences"] = []any{map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": meta["name"], "uid": meta["uid"], "controller": true}}
	}
	s["podDisruptionBudgets"] = []any{}
	path := filepath.Join(t.TempDir(), "owned.berth")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	packer := gzip.NewWriter(out)
	if err := json.NewEncoder(packer).Encode(s); err != nil {
		t.Fatal(err)
	}
	if err := packer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDefrag plans room in the playground's snapshot.
func TestDefrag(t *testing.T) {
	in := newInputs(t)
	snapshot := ownedSnapshot(t)
	three := in.pod("three-gpus", `{limits: {cpu: "8", memory: 8Gi, nvidia.com/gpu: "3"}}`)
	code, stdout, stderr := run(t, "defrag", "--for", three, "--snapshot", snapshot)
	if code != ExitOK || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	golden.File(t, "testdata/defrag.txt", stdout)
	expect(t, ExitOK, "There is room already", "defrag", "--for", in.pod("one", `{limits: {cpu: "2", memory: 1Gi}}`), "--snapshot", snapshot)
	expect(t, ExitFailure, "no plan makes room", "defrag", "--for", in.pod("nine", `{limits: {cpu: "2", memory: 1Gi, nvidia.com/gpu: "9"}}`), "--snapshot", snapshot)
	expect(t, ExitFailure, "nothing would replace it", "defrag", "--for", three, "--snapshot", playgroundSnapshot)
	expect(t, ExitFailure, "PodDisruptionBudgets could not be read", "defrag", "--for", three, "--snapshot", playgroundSnapshot)
	expect(t, ExitOK, "train-3 gpu-2", "defrag", "--for", three, "--snapshot", snapshot, "-o", "jsonpath={.moves[0].name} {.moves[0].from}")
	expect(t, ExitFailure, "want a pod that waits for a node", "defrag", "train-0", "-n", "research", "--snapshot", snapshot)
	expect(t, ExitFailure, "no pod nobody", "defrag", "nobody", "--snapshot", snapshot)
	expect(t, ExitUsage, "want the name of a pod that waits, gang NAME, or a file", "defrag", "--snapshot", snapshot)
	expect(t, ExitUsage, "not both", "defrag", "x", "--for", three)
	expect(t, ExitUsage, "create the pods first", "defrag", "--for", three, "--execute", "--snapshot", snapshot)
	expect(t, ExitUsage, "the pods of a snapshot cannot be moved", "defrag", "big-gpu-1", "--execute", "--snapshot", snapshot)
	expect(t, ExitUsage, "--moves 0", "defrag", "--for", three, "--moves", "0")
}

// TestDefragGang plans room for the missing members of a gang, which is named directly or by a
// member.
func TestDefragGang(t *testing.T) {
	for _, args := range [][]string{{"gang", "fits"}, {"podgroup/fits"}, {"fits-1"}} {
		a := asked{args: append([]string{"defrag"}, args...), want: []string{"There is room already", "fits-0", "fits-1", "fits-2"}}
		a.check(t, gangWorld(t))
	}
	for _, a := range []asked{
		{args: []string{"defrag", "gang", "large"}, code: ExitFailure, want: []string{"no plan makes room"}},
		{args: []string{"defrag", "gang", "early"}, code: ExitFailure, want: []string{"gang default/early: its state is forming, so making room does not help: 0 of 2 pods are there"}},
		{args: []string{"defrag", "gang", "nobody"}, code: ExitFailure, want: []string{"no gang nobody in namespace default"}},
		{args: []string{"defrag", "job", "fits"}, code: ExitUsage, want: []string{`"job" is not a kind that this verb knows: want pod, gang or podgroup`}},
	} {
		a.check(t, gangWorld(t))
	}
}

// TestDefragLive uses an API server that serves no PodDisruptionBudgets.
func TestDefragLive(t *testing.T) {
	w := busyWorld(t)
	in := newInputs(t)
	a := asked{args: []string{"defrag", "--for", in.pod("two", `{limits: {cpu: "2", memory: 1Gi}}`)}, want: []string{"There is room already"}}
	a.check(t, w)
}
