package main

import (
	"strings"
	"testing"
)

// said is the output of go build -gcflags=-e.
const said = `go: downloading k8s.io/api v0.37.2
# github.com/berth-dev/berth/internal/scheduler
internal/scheduler/plugin.go:41:19: cannot use (*Plugin)(nil) (value of type *Plugin) as framework.QueueSortPlugin value in variable declaration: *Plugin does not implement framework.QueueSortPlugin (wrong type for method Less)
		have Less(*framework.QueuedPodInfo, *framework.QueuedPodInfo) bool
		want Less(framework.QueuedEntityInfo, framework.QueuedEntityInfo) bool
internal/scheduler/filter.go:7:2: undefined: framework.NodeScore
# k8s.io/example/pkg
/go/pkg/mod/k8s.io/example@v0.1.0/pkg/a.go:9: undefined: b
internal/agent/machine.go:12:2: no required module provides package github.com/google/cadvisor/info/v1; to add it:
	go get github.com/google/cadvisor/info/v1
go: updates to go.mod needed
`

// TestRead: compiler errors are listed by package, file and line, with all their text, and no line
// of the output is lost.
func TestRead(t *testing.T) {
	var out strings.Builder
	err := run(nil, strings.NewReader(said), &out)
	const want = `github.com/berth-dev/berth/internal/scheduler
  internal/scheduler/filter.go:7: undefined: framework.NodeScore
  internal/scheduler/plugin.go:41: cannot use (*Plugin)(nil) (value of type *Plugin) as framework.QueueSortPlugin value in variable declaration: *Plugin does not implement framework.QueueSortPlugin (wrong type for method Less); have Less(*framework.QueuedPodInfo, *framework.QueuedPodInfo) bool; want Less(framework.QueuedEntityInfo, framework.QueuedEntityInfo) bool
k8s.io/example/pkg
  /go/pkg/mod/k8s.io/example@v0.1.0/pkg/a.go:9: undefined: b
  internal/agent/machine.go:12: no required module provides package github.com/google/cadvisor/info/v1; to add it:; go get github.com/google/cadvisor/info/v1
go: updates to go.mod needed
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if err == nil || !strings.Contains(err.Error(), "breaks: 4, packages: 2, other messages: 1;") {
		t.Errorf("error %v: want it to count 4 breaks in 2 packages, and 1 other message", err)
	}
}

func TestNothingBreaks(t *testing.T) {
	var out strings.Builder
	if err := run(nil, strings.NewReader("go: downloading k8s.io/api v0.37.2\n"), &out); err != nil || out.String() != "nothing breaks\n" {
		t.Errorf("%q, error %v", out.String(), err)
	}
}

func TestNewest(t *testing.T) {
	for text, want := range map[string]string{
		"k8s.io/kubernetes v1.9.11 v1.10.0 v1.36.3 v1.37.0-rc.1 v1.37.0 v1.37.2 v1.38.0-alpha.1 v1.33.13\n": "v1.37.2",
		"k8s.io/kubernetes v1.38.0-alpha.1": "",
		"":                                  "",
	} {
		var out strings.Builder
		err := run([]string{"newest"}, strings.NewReader(text), &out)
		if got := strings.TrimSpace(out.String()); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, error %v, want %q", text, got, err, want)
		}
	}
	if err := run([]string{"oldest"}, strings.NewReader(""), new(strings.Builder)); err == nil {
		t.Error("an argument that there is not is accepted")
	}
}
