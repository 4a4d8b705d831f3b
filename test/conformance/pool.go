package conformance

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Pool runs child processes that answer lines with lines. A child that dies or is silent for too
// long costs one answer, not the run.
type Pool struct {
	// Command returns a new, not yet started child.
	Command func() *exec.Cmd
	// Workers is the number of children at a time; 0 means one.
	Workers int
	// Renew is the number of lines after which a child is replaced; 0 means 500.
	Renew int
	// Silence is how long a child may take for a line; 0 means five minutes.
	Silence time.Duration
}

// Answer is the result of one line.
type Answer struct {
	// Index counts the lines from 0.
	Index int
	Line  []byte
	// Reply is without line end.
	Reply []byte
	// Err means that the child died or was silent; it has the end of its standard error.
	Err error
}

// Run sends every line of next (nil at the end) to some child and passes the answers to got, one at
// a time but in no particular order. It stops early when got returns false. The error means that no
// child can be started.
func (p *Pool) Run(next func() []byte, got func(Answer) bool) error {
	var mu sync.Mutex // guards next, index, stopped and calls of got
	index, stopped := 0, false
	take := func() (Answer, bool) {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return Answer{}, false
		}
		a := Answer{Index: index, Line: next()}
		index++
		return a, a.Line != nil
	}
	give := func(a Answer) {
		mu.Lock()
		defer mu.Unlock()
		if !stopped && !got(a) {
			stopped = true
		}
	}
	var wg sync.WaitGroup
	failures := make([]error, max(p.Workers, 1))
	for i := range failures {
		wg.Add(1)
		go func() {
			defer wg.Done()
			failures[i] = p.work(take, give)
		}()
	}
	wg.Wait()
	return errors.Join(failures...)
}

// work is one worker: a succession of children.
func (p *Pool) work(take func() (Answer, bool), give func(Answer)) error {
	asker := Asker{Command: p.Command, Renew: p.Renew, Silence: p.Silence}
	defer asker.Close()
	for {
		a, ok := take()
		if !ok {
			return nil
		}
		a.Reply, a.Err = asker.Ask(a.Line)
		var start *startError
		if errors.As(a.Err, &start) {
			return a.Err
		}
		give(a)
	}
}

// Asker sends lines to a child, one after another, and replaces the child when it dies or has
// answered Renew lines.
type Asker struct {
	// Command, Renew and Silence are as in Pool.
	Command func() *exec.Cmd
	Renew   int
	Silence time.Duration

	c *child
}

// Ask sends a line and returns the reply. It silently replaces a child that has ended since its
// last reply, as Serve does after a stop. If the child dies of the line, Ask returns an error.
func (a *Asker) Ask(line []byte) ([]byte, error) {
	for {
		fresh := a.c == nil
		if fresh {
			c, err := startChild(a.Command())
			if err != nil {
				return nil, &startError{err}
			}
			a.c = c
		}
		out, err := a.c.ask(line, orDuration(a.Silence, 5*time.Minute))
		if err != nil || a.c.asked >= orInt(a.Renew, 500) {
			a.Close()
		}
		if err == nil || fresh {
			return out, err
		}
	}
}

// Close ends the child.
func (a *Asker) Close() {
	a.c.end()
	a.c = nil
}

// startError means that no child can be started at all.
type startError struct{ err error }

func (e *startError) Error() string { return "start a child: " + e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

func orDuration(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}

func orInt(n, fallback int) int {
	if n == 0 {
		return fallback
	}
	return n
}

// child is a running process with its own directory in memory, which is deleted with it.
type child struct {
	cmd    *exec.Cmd
	dir    string
	in     io.WriteCloser
	out    *bufio.Reader
	stderr tail
	asked  int
}

func startChild(cmd *exec.Cmd) (*child, error) {
	dir, err := os.MkdirTemp("/dev/shm", "berth-conformance-")
	if err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, dir: dir}
	cmd.Stderr = &c.stderr
	cmd.Env = append(cmd.Environ(), "TMPDIR="+dir)
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReaderSize(out, 1<<20)
	return c, cmd.Start()
}

// ask sends a line and waits for the reply; a child that is silent for too long is killed.
func (c *child) ask(line []byte, silence time.Duration) ([]byte, error) {
	c.asked++
	timer := time.AfterFunc(silence, func() { c.cmd.Process.Kill() })
	defer timer.Stop()
	if _, err := c.in.Write(append(bytes.TrimSpace(line), '\n')); err != nil {
		return nil, fmt.Errorf("child died: %w: %s", err, c.stderr.String())
	}
	reply, err := c.out.ReadBytes('\n')
	if err != nil {
		c.cmd.Wait()
		return nil, fmt.Errorf("child died or was silent for %v: %w: %s", silence, err, c.stderr.String())
	}
	return bytes.TrimSpace(reply), nil
}

// end lets the child end by itself, and kills it otherwise.
func (c *child) end() {
	if c == nil {
		return
	}
	defer os.RemoveAll(c.dir)
	c.in.Close()
	timer := time.AfterFunc(5*time.Second, func() { c.cmd.Process.Kill() })
	defer timer.Stop()
	c.cmd.Wait()
}

// tail keeps the last few kilobytes that were written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const limit = 4096
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > limit {
		t.b = t.b[len(t.b)-limit:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}

// Serve runs in the child: it answers every line of in on out until in ends or answer returns stop.
// After a stop the process should end, since its work may still run.
func Serve(in io.Reader, out io.Writer, answer func(line []byte) (reply []byte, stop bool)) error {
	r := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			reply, stop := answer(line)
			if _, err := out.Write(append(bytes.TrimSpace(reply), '\n')); err != nil || stop {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Self is a Pool.Command that starts this executable again with an environment variable set to its
// role.
func Self(variable, role string) func() *exec.Cmd {
	return func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), variable+"="+role)
		return cmd
	}
}
