package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestWrongFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--volcano-lease", "x"}, "want NAMESPACE/NAME"},
		{[]string{"x"}, "unknown command"},
		{[]string{"--metrics-auth", "yes"}, "want none or cluster"},
		{[]string{"--metrics-cert-dir", "/certs"}, "want --metrics-auth=cluster"},
		{[]string{"--workers", "many"}, "invalid argument"},
	} {
		cmd := newCommand()
		cmd.SetArgs(c.args)
		cmd.SetOut(new(bytes.Buffer))
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want ...%s...", c.args, err, c.want)
		}
	}
}
