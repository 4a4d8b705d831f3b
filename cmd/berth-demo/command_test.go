package main

import (
	"strings"
	"testing"
)

// TestVersion: packages of Kubernetes declare a flag --version of another kind.
func TestVersion(t *testing.T) {
	var stdout, stderr strings.Builder
	if code := run([]string{"berth-demo", "--version"}, nil, &stdout, &stderr); code != 0 || !strings.HasPrefix(stdout.String(), "berth-demo ") || stderr.Len() > 0 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
	}
}
