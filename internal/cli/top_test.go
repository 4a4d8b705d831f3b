package cli

import (
	"testing"

	"github.com/berth-dev/berth/test/golden"
)

// TestTop prints the playground's snapshot once.
func TestTop(t *testing.T) {
	code, stdout, stderr := run(t, "top", "--snapshot", playgroundSnapshot)
	if code != ExitOK || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	golden.File(t, "testdata/top.txt", stdout)
	expect(t, ExitUsage, `--sort-by "x": want block, free, name, pods, trouble`, "top", "--sort-by", "x", "--snapshot", playgroundSnapshot)
}

// TestTopLive prints an API server's cluster once if the output is not a terminal.
func TestTopLive(t *testing.T) {
	w := busyWorld(t)
	a := asked{args: []string{"top"}, want: []string{"in trouble", "MOST ON ONE NUMA NODE", "n1"}}
	a.check(t, w)
}
