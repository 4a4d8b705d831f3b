package child

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func start(t *testing.T, s Spec, script string) *Process {
	t.Helper()
	s.Name, s.Argv = "c", []string{"/bin/sh", "-c", script}
	if s.Log == "" {
		s.Log = filepath.Join(t.TempDir(), "log")
	}
	p, err := Start(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestStop(t *testing.T) {
	for what, c := range map[string]struct {
		spec   Spec
		script string
		want   string // of the error; "" if there is none
	}{
		"ends with its standard input": {script: "echo up; cat"},
		"ends with an error":           {script: "echo up; cat; exit 3", want: "c: exit status 3"},
		"does not look at its input":   {spec: Spec{Foreign: true}, script: "echo up; exec sleep 1000"},
		"ends by itself when told to":  {spec: Spec{Foreign: true}, script: "trap 'exit 4' TERM; echo up; cat; sleep 1000 & wait", want: "c: exit status 4"},
	} {
		t.Run(what, func(t *testing.T) {
			p := start(t, c.spec, c.script)
			for string(p.LogTail(3)) != "up" {
				if err := p.Ended(); err != nil {
					t.Fatalf("before Stop: %v", err)
				}
				time.Sleep(time.Millisecond)
			}
			err := p.Stop()
			if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err := syscall.Kill(p.PID(), 0); err == nil {
				t.Errorf("process %d is still there", p.PID())
			}
		})
	}
}

// TestEnded: if a process ends too early, the error has the reason from its log.
func TestEnded(t *testing.T) {
	p := start(t, Spec{}, "echo out of memory >&2; exit 7")
	<-p.Done()
	if err := p.Ended(); err == nil || !strings.Contains(err.Error(), "exit status 7: out of memory") {
		t.Errorf("got %v, want the exit code and the log", err)
	}
	if err := p.Stop(); err != nil {
		t.Errorf("told again: %v", err)
	}
}

// TestHow: an end without an error is described, too.
func TestHow(t *testing.T) {
	for script, want := range map[string]string{
		"exit 0": "exit status 0", "exit 7": "exit status 7", "kill -TERM $$": "signal: terminated", "kill -KILL $$": "signal: killed",
	} {
		p := start(t, Spec{}, script)
		<-p.Done()
		if got := p.How(); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
		if err := p.Ended(); err == nil || !strings.HasPrefix(err.Error(), "c ended by itself: "+want) {
			t.Errorf("%s: %v, want %q in it", script, err, want)
		}
	}
}

// TestLogTail: lines are not cut, unless a line is longer than the limit.
func TestLogTail(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("first\nsecond\nthird\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &Process{Log: log}
	for limit, want := range map[int]string{100: "first\nsecond\nthird", 18: "first\nsecond\nthird", 17: "second\nthird", 12: "second\nthird", 11: "third", 5: "third", 3: "ird"} {
		if got := string(p.LogTail(limit)); got != want {
			t.Errorf("%d bytes: %q, want %q", limit, got, want)
		}
	}
}

// TestOutput: standard output and standard error are appended to the log.
func TestOutput(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	<-start(t, Spec{Log: log}, "echo one; echo two >&2").Done()
	<-start(t, Spec{Log: log}, "echo three >&2").Done()
	if got, err := os.ReadFile(log); err != nil || string(got) != "one\ntwo\nthree\n" {
		t.Errorf("log %q, %v", got, err)
	}
}

// TestAt: the process is started inside At, and Start returns an error of At.
func TestAt(t *testing.T) {
	inside := false
	p := start(t, Spec{At: func(start func() error) error { inside = true; return start() }}, "cat")
	if !inside || p.Ended() != nil {
		t.Errorf("called: %v, ended: %v", inside, p.Ended())
	}
	_, err := Start(Spec{Name: "c", Argv: []string{"/bin/sh"}, Log: filepath.Join(t.TempDir(), "log"), At: func(func() error) error { return os.ErrPermission }})
	if err == nil || !strings.HasPrefix(err.Error(), "c: ") {
		t.Errorf("got %v, want the error of At with the name", err)
	}
}

// TestWithParent: the context of a child ends when its standard input is closed.
func TestWithParent(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := WithParent(t.Context(), r)
	defer cancel()
	if ctx.Err() != nil {
		t.Fatal("ended while the parent lives")
	}
	w.Close()
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Error("goes on without a parent")
	}
}

// TestFreePort: every port is different, and client connections do not get one of them.
func TestFreePort(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		port, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] || port < firstPort || port >= firstPort+ports {
			t.Errorf("port %d, after %v", port, seen)
		}
		seen[port] = true
	}
	l, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := net.Dial("tcp", l.Addr().String()); err != nil {
		t.Error(err)
	}
}
