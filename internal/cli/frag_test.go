package cli

import (
	"testing"

	"github.com/berth-dev/berth/test/golden"
)

const playgroundSnapshot = "../../test/web/testdata/cluster.berth"

// TestFrag prints what is stranded in the playground's snapshot, in total and for each NUMA node.
func TestFrag(t *testing.T) {
	code, stdout, stderr := run(t, "frag", "--snapshot", playgroundSnapshot, "--limit", "4")
	if code != ExitOK || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	golden.File(t, "testdata/frag.txt", stdout)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-l", "pool=memory"}, ExitOK, "Cordoned"},
		{[]string{"-l", "pool=none"}, ExitOK, "No nodes."},
		{[]string{"gpu-1", "-o", "jsonpath={.stranded[*].resource}"}, ExitOK, "nvidia.com/gpu"},
		{[]string{"nobody"}, ExitFailure, "there is no Node nobody"},
		{[]string{"--limit", "-1"}, ExitUsage, "--limit -1: want 0 or more"},
		{[]string{"--limit", "0"}, ExitOK, "RESOURCE"},
	} {
		expect(t, c.code, c.want, append([]string{"frag", "--snapshot", playgroundSnapshot}, c.args...)...)
	}
}

// TestFragOfTrouble: free resources of an unreliable node are stranded.
func TestFragOfTrouble(t *testing.T) {
	w := busyWorld(t)
	a := asked{args: []string{"frag"}, want: []string{"Silent", "its berth-agent gave no sign of life for too long"}}
	a.check(t, w)
}
