package play

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const tinyCase = `{"id":"tiny","machine":{"nodes":[{"id":0,"memory":1073741824,"cores":[{"id":0,"socket":0,"threads":[0,2],"l3":0},{"id":1,"socket":0,"threads":[1,3],"l3":0}]}]},` +
	`"config":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0,2","memoryManagerPolicy":"None","topologyManagerPolicy":"restricted","topologyManagerScope":"container"},` +
	`"events":[{"type":"admit","pod":{"metadata":{"name":"p","uid":"p"},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"2","memory":"1Mi"}}}]}}}]}` + "\n"

func replayText(stdin string, args ...string) (stdout string, err error) {
	var out strings.Builder
	err = Command(args, strings.NewReader(stdin), &out)
	return out.String(), err
}

func TestReplay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cases.ndjson")
	if err := os.WriteFile(file, []byte(tinyCase), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{"file": {file}, "stdin": nil, "dash": {"-"}} {
		out, err := replayText(tinyCase, args...)
		if err != nil || strings.Count(out, "\n") != 1 || !strings.Contains(out, `"cpus":"1,3"`) || !strings.Contains(out, `"defaultCPUs":"0,2"`) {
			t.Errorf("%s: output %s, error %v", name, out, err)
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
		"release":       {tinyCase, []string{"-kubelet-version", "1.36"}, `want a release like "v1.36.3"`},
		"old release":   {tinyCase, []string{"-kubelet-version", "v1.3"}, "want v1.33 to v1.37"},
		"two files":     {"", []string{"a", "b"}, "2 files: want one"},
	} {
		_, err := replayText(test.stdin, test.args...)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v: want one with %q", name, err, test.want)
		}
	}
}

// TestReplayExample: the README's example gives the result that the README shows.
func TestReplayExample(t *testing.T) {
	out, err := replayText("", "../case.json")
	if err != nil || !strings.Contains(out, `"cpus":"2,6"`) || !strings.Contains(out, `"admitted":false`) {
		t.Errorf("%v\n%s", err, out)
	}
}
