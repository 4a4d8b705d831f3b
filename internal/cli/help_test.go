package cli

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/survey"
)

// TestHelpHasHeadings: what says which cluster is read, and what describes a node in its place,
// stand apart from a verb's own flags.
func TestHelpHasHeadings(t *testing.T) {
	_, help, _ := run(t, "explain", "--help")
	own, rest, _ := strings.Cut(help, "\n"+nodeHeading+":\n")
	node, cluster, found := strings.Cut(rest, "\n"+clusterHeading+":\n")
	if !found {
		t.Fatalf("no heading %q and then %q:\n%s", nodeHeading, clusterHeading, help)
	}
	for _, part := range []struct{ text, flags string }{
		{own, "--filename --node --nodes --output"},
		{node, "--kubelet-config --state --device"},
		{cluster, "--context --namespace --snapshot --stale-after"},
	} {
		for flag := range strings.FieldsSeq(part.flags) {
			line := " " + flag + " "
			if !strings.Contains(part.text, line) || strings.Count(help, line+"string")+strings.Count(help, line+"int")+strings.Count(help, line+"duration") != 1 {
				t.Errorf("%s is not listed once, in its part:\n%s", flag, help)
			}
		}
	}
}

// TestSettingsAreCompleted: --set offers its keys.
func TestSettingsAreCompleted(t *testing.T) {
	for _, verb := range []string{"fit", "need"} {
		_, keys, _ := run(t, "__complete", verb, "--set", "")
		if !strings.HasPrefix(keys, strings.Join(survey.SettingKeys(), "=\n")+"=\n:") {
			t.Errorf("%s --set offers %q", verb, keys)
		}
	}
}
