package cli

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/survey/query"
)

// TestHelpHasHeadings: the flags that select a cluster, and those that describe a node instead,
// have their own headings.
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

// TestSettingsAreCompleted: the keys of --set are completed.
func TestSettingsAreCompleted(t *testing.T) {
	for _, verb := range []string{"fit", "need"} {
		_, keys, _ := run(t, "__complete", verb, "--set", "")
		if !strings.HasPrefix(keys, strings.Join(query.SettingKeys(), "=\n")+"=\n:") {
			t.Errorf("%s --set offers %q", verb, keys)
		}
	}
}

// TestHelpFits: no line of help is wider than a terminal of 120 columns, unless it is one word or
// an example.
func TestHelpFits(t *testing.T) {
	for _, verb := range newRoot("berth").Commands() {
		_, help, _ := run(t, verb.Name(), "--help")
		before, examples, _ := strings.Cut(help, "\nExamples:\n")
		_, flags, _ := strings.Cut(examples, "\n\n")
		for line := range strings.Lines(before + flags) {
			if len(line) > helpColumns+1 && len(strings.Fields(line)) > 3 {
				t.Errorf("%s: %d columns: %s", verb.Name(), len(line)-1, line)
			}
		}
	}
}

// TestArgumentsAreCounted: the error for a wrong number of arguments names the right arguments.
func TestArgumentsAreCounted(t *testing.T) {
	for want, args := range map[string][]string{
		"version x: want no arguments (see berth version --help)":                                {"version", "x"},
		"snapshot: want the file to write, or - for standard output (see berth snapshot --help)": {"snapshot"},
		"check: want a kubelet's root directory, files of it or of NodeTopologies":               {"check"},
		"pods a b: want at most one pod":                                                         {"pods", "a", "b"},
	} {
		expect(t, ExitUsage, want, args...)
	}
}

// TestUnknownShellsAreRefused: a script that asks for the completion of an unknown shell fails, and
// without a shell there is help.
func TestUnknownShellsAreRefused(t *testing.T) {
	expect(t, ExitUsage, `unknown command "foo" (see berth completion --help)`, "completion", "foo")
	expect(t, ExitUsage, `unknown command "zhs" (did you mean "zsh"?)`, "completion", "zhs")
	for _, args := range [][]string{{"completion"}, {"completion", "--help"}, {"completion", "bash"}} {
		if code, out, _ := run(t, args...); code != ExitOK || !strings.Contains(out, "berth") {
			t.Errorf("%q: exit code %d, %q", args, code, out)
		}
	}
}
