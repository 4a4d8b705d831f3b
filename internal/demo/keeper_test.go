package demo

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/internal/child"
)

// TestPauses: a process that ends is restarted after a pause, which becomes longer up to a limit.
// The pauses start again after the process has run for some time.
func TestPauses(t *testing.T) {
	p, now := &part{}, time.Now()
	var got []time.Duration
	for range 8 {
		p.begun = now
		got = append(got, p.pause(now)/time.Second)
	}
	p.begun = now.Add(-steady)
	got = append(got, p.pause(now)/time.Second)
	if want := "[1ns 2ns 4ns 8ns 16ns 30ns 30ns 30ns 1ns]"; fmt.Sprint(got) != want {
		t.Errorf("pauses in seconds %v, want %s", got, want)
	}
}

// lines collects the output of a Keeper.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// keep runs a Keeper with shells as parts, until the test ends.
func keep(t *testing.T, out *lines, names ...string) *Keeper {
	t.Helper()
	dir := t.TempDir()
	k := &Keeper{cluster: &Cluster{dir: dir}, out: out, died: make(chan death), due: make(chan *part), asks: make(chan order), over: make(chan struct{})}
	for _, name := range names {
		p := &part{name: name, start: func() (*child.Process, error) {
			return child.Start(child.Spec{Name: name, Argv: []string{"/bin/sh", "-c", "cat"}, Log: filepath.Join(dir, "log")})
		}}
		if err := p.up(); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, schedulerPart) {
			k.cluster.schedulers = append(k.cluster.schedulers, p)
		}
		k.parts = append(k.parts, p)
	}
	var err error
	if k.line, err = net.Listen("unix", filepath.Join(dir, "s")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for _, p := range k.parts {
			if err := p.stop(); err != nil {
				t.Error(err)
			}
		}
	})
	return k
}

// ask sends a command to the Keeper.
func (k *Keeper) ask(words string) (string, error) {
	reply := make(chan answer, 1)
	k.asks <- order{strings.Fields(words), reply}
	got := <-reply
	return got.text, got.err
}

// TestTheDeadAreStartedAgain kills a process, and expects a new one and one sentence about it.
func TestTheDeadAreStartedAgain(t *testing.T) {
	out := &lines{}
	k := keep(t, out, "scheduler", "agent a", "node a")
	process := regexp.MustCompile(`(?m)^agent a +runs +(\d+)`)
	table, err := k.ask("parts")
	first := process.FindStringSubmatch(table)
	if err != nil || first == nil {
		t.Fatalf("%v\n%s", err, table)
	}
	var pid int
	fmt.Sscan(first[1], &pid)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextCancel(t.Context(), 10*time.Millisecond, true, func(context.Context) (bool, error) {
		table, err := k.ask("parts")
		again := process.FindStringSubmatch(table)
		return again != nil && again[1] != first[1], err
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("agent a (process %d) ended: signal: killed; the playground starts it again in 1 s.\n", pid); out.String() != want {
		t.Errorf("told %q, want %q", out, want)
	}
}

// TestBreakAndMend checks the answers, and that a broken part stays broken.
func TestBreakAndMend(t *testing.T) {
	out := &lines{}
	k := keep(t, out, "scheduler", "scheduler-2", "agent a", "agent b", "node a", "node b")
	process := regexp.MustCompile(`process \d+`)
	for _, c := range []struct{ words, want string }{
		{"mend", "Nothing is broken.\n"},
		{"mend agent a", "agent a is not broken, so there is nothing to mend (to break it: berth-demo break agent a)"},
		{"break agent a", "Killed: agent a (process). To start it again: berth-demo mend agent a\n"},
		{"break agent a", "agent a is already broken (to mend it: berth-demo mend agent a)"},
		{"break node a", "Killed: node a (process). To start it again: berth-demo mend node a\n"},
		{"mend node a", "Started: node a and agent a.\n"},
		{"break node b", "Killed: node b (process) and agent b (process). To start them again: berth-demo mend node b\n"},
		{"break scheduler", "Killed: scheduler (process). To start it again: berth-demo mend scheduler\n"},
		{"break scheduler", "Killed: scheduler-2 (process). To start it again: berth-demo mend scheduler\n"},
		{"break scheduler", "scheduler is already broken (to mend it: berth-demo mend scheduler)"},
		{"mend scheduler", "Started: scheduler and scheduler-2.\n"},
		{"break agent", "break agent: want scheduler, agent NODE, node NODE or api"},
		{"break scheduler 2", "break scheduler 2: want scheduler, agent NODE, node NODE or api"},
		{"mend kubelet a", "mend kubelet a: want scheduler, agent NODE, node NODE or api"},
		{"break node c", "break node c: there is no such node: want one of a, b"},
		{"mend api", "api is not broken, so there is nothing to mend (to break it: berth-demo break api)"},
		{"brake node a", `"brake": want break, mend or parts`},
		{"mend", "Started: agent b and node b.\n"},
	} {
		text, err := k.ask(c.words)
		if err != nil {
			text = err.Error()
		}
		if got := process.ReplaceAllString(text, "process"); got != c.want {
			t.Errorf("%s: %q, want %q", c.words, got, c.want)
		}
	}
	if out.String() != "" {
		t.Errorf("told %q, want nothing: all of it was asked for", out)
	}
}

// TestNoAgents: the demo with kube-scheduler has no agents.
func TestNoAgents(t *testing.T) {
	k := keep(t, &lines{}, "scheduler", "node a")
	if _, err := k.ask("break agent a"); err == nil || !strings.Contains(err.Error(), "without --stock") {
		t.Errorf("got %v", err)
	}
	if text, err := k.ask("break node a"); err != nil || !strings.HasPrefix(text, "Killed: node a (process") {
		t.Errorf("got %q, %v", text, err)
	}
}
