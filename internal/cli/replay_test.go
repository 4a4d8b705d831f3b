package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const tinyCase = `{"id":"tiny","machine":{"nodes":[{"id":0,"memory":1073741824,"cores":[{"id":0,"socket":0,"threads":[0,2],"l3":0},{"id":1,"socket":0,"threads":[1,3],"l3":0}]}]},` +
	`"config":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0,2","memoryManagerPolicy":"None","topologyManagerPolicy":"restricted","topologyManagerScope":"container"},` +
	`"events":[{"type":"admit","pod":{"metadata":{"name":"p","uid":"p"},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"2","memory":"1Mi"}}}]}}}]}` + "\n"

func replayText(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	cmd := NewReplayCommand()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(context.Background())
	if err != nil {
		return 1, out.String(), err.Error()
	}
	return 0, out.String(), ""
}

func TestReplay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cases.ndjson")
	if err := os.WriteFile(file, []byte(tinyCase), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]func() (int, string, string){
		"file":  func() (int, string, string) { return replayText(t, "", file) },
		"stdin": func() (int, string, string) { return replayText(t, tinyCase) },
		"dash":  func() (int, string, string) { return replayText(t, tinyCase, "-") },
	} {
		code, out, errs := got()
		if code != 0 || strings.Count(out, "\n") != 1 || !strings.Contains(out, `"cpus":"1,3"`) || !strings.Contains(out, `"defaultCPUs":"0,2"`) {
			t.Errorf("%s: code %d, output %s, error %s", name, code, out, errs)
		}
	}
}

func TestReplayRefusesNonsense(t *testing.T) {
	for name, test := range map[string]struct {
		stdin string
		args  []string
		want  string
	}{
		"no JSON":       {"{", nil, "line 1"},
		"unknown field": {strings.Replace(tinyCase, `"machine"`, `"mashine"`, 1), nil, "mashine"},
		"second line":   {tinyCase + "nonsense\n", nil, "line 2"},
		"absurd amount": {strings.Replace(tinyCase, `"cpu":"2"`, `"cpu":"1000000000000000000"`, 1), nil, "spec.containers[0].resources.limits[cpu]"},
		"no quantity":   {strings.Replace(tinyCase, `"cpu":"2"`, `"cpu":"2 apples"`, 1), nil, "line 1"},
		"no file":       {"", []string{filepath.Join("does", "not", "exist")}, "does"},
		"release":       {tinyCase, []string{"--kubelet-version", "1.3"}, "1.33"},
	} {
		code, _, errs := replayText(t, test.stdin, test.args...)
		if code == 0 || !strings.Contains(errs, test.want) {
			t.Errorf("%s: code %d, error %q: want an error with %q", name, code, errs, test.want)
		}
	}
}

// TestReplayExample: the case of docs/replay.md is one, and comes out as the page says.
func TestReplayExample(t *testing.T) {
	code, stdout, stderr := run(t, "replay", "../../docs/replay-case.json")
	if code != ExitOK || !strings.Contains(stdout, `"cpus":"2,6"`) || !strings.Contains(stdout, `"admitted":false`) {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
