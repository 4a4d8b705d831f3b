package main

import (
	"strings"
	"testing"
)

// TestVersion: packages of Kubernetes declare a different flag --version.
func TestVersion(t *testing.T) {
	var stdout, stderr strings.Builder
	if code := run([]string{"berth-demo", "--version"}, nil, &stdout, &stderr); code != 0 || !strings.HasPrefix(stdout.String(), "berth-demo ") || stderr.Len() > 0 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
	}
}

// TestWrongCommandLines: each is refused with one sentence, before anything is started.
func TestWrongCommandLines(t *testing.T) {
	for line, want := range map[string]string{
		"up --schedulers 0":   "--schedulers 0: want 1 to 5",
		"up --nodes 0":        "--nodes: 0 nodes: want 1 to 100",
		"run --runs 0":        "--runs 0: want 1 to 99",
		"break node a b":      "accepts at most 2 arg(s), received 3",
		"mend --kubeconfig":   "flag needs an argument: --kubeconfig",
		"scene broken-mirror": `"broken-mirror": want one of gpus-apart, nowhere, silent-agent, two-gangs`,
	} {
		var stdout, stderr strings.Builder
		code := run(append([]string{"berth-demo"}, strings.Fields(line)...), nil, &stdout, &stderr)
		if got := stderr.String(); code != 2 || got != "berth-demo: "+want+"\n" {
			t.Errorf("%s: exit code %d, %q: want 2, %q", line, code, got, want)
		}
	}
	var stdout, stderr strings.Builder
	if code := run([]string{"berth-demo", "break", "api", "--kubeconfig", "/nowhere"}, nil, &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), "want the kubeconfig of a running playground") {
		t.Errorf("exit code %d, %q", code, stderr.String())
	}
}
