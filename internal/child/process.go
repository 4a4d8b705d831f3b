package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// Spec describes the program to start.
type Spec struct {
	// Name is the process's name in errors.
	Name string
	// Argv is the program with its arguments.
	Argv []string
	// Log is the file to which standard output and standard error are appended.
	Log string
	// Foreign means that the program ignores the end of its standard input. So Stop sends it
	// SIGTERM, and the kernel kills it when the thread that started it ends (prctl(2),
	// PR_SET_PDEATHSIG).
	Foreign bool
	// At calls start in the environment in which the process should run, such as another network
	// namespace. nil means the present environment.
	At func(start func() error) error
}

// Process is a running child. Its standard input is a pipe that the parent keeps open and never
// writes to. When the parent ends for any reason, the pipe ends, and the child, unless it is
// Foreign, detects this with WithParent.
type Process struct {
	Name string
	Log  string // the file to which it writes

	cmd     *exec.Cmd
	foreign bool
	stdin   io.Closer
	done    chan struct{}
	err     error // set before done is closed
	told    atomic.Bool
}

// Start starts the program.
func Start(s Spec) (*Process, error) {
	p := &Process{Name: s.Name, cmd: exec.Command(s.Argv[0], s.Argv[1:]...), Log: s.Log, foreign: s.Foreign, done: make(chan struct{})}
	if err := p.start(&s); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

func (p *Process) start(s *Spec) error {
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// The child has its own process group, so an interrupt at the terminal reaches only the parent.
	// The parent then stops its children in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.Foreign {
		p.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if s.At != nil {
		return s.At(p.cmd.Start)
	}
	return p.cmd.Start()
}

// WithParent returns a context that ends when the parent ends and closes stdin, or on SIGTERM or
// SIGINT.
func WithParent(ctx context.Context, stdin io.Reader) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		io.Copy(io.Discard, stdin)
		cancel()
	}()
	return ctx, func() { cancel(); stop() }
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends a signal to the process, unless it has ended.
func (p *Process) Signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// Ended returns nil while the process runs, and an error after its end, even after exit status 0.
// Unless a signal ended the process, the error has the last lines of its log. Once Ended has
// returned an error, Stop does not report the exit status again.
func (p *Process) Ended() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	p.told.Store(true)
	err := fmt.Errorf("%s ended by itself: %s", p.Name, p.How())
	if p.signalled() != 0 {
		return err
	}
	return fmt.Errorf("%w: %s", err, p.LogTail(2000))
}

// How waits for the end of the process, and returns how it has ended: "exit status 0" or
// "signal: killed".
func (p *Process) How() string {
	<-p.done
	if p.err == nil {
		return "exit status 0"
	}
	return p.err.Error()
}

// LogTail returns the last complete lines of the log within limit bytes, or the end of a longer
// line.
func (p *Process) LogTail(limit int) []byte {
	log, err := os.ReadFile(p.Log)
	if err != nil {
		return []byte(err.Error())
	}
	log = bytes.TrimSpace(log)
	cut := len(log) - limit
	if cut <= 0 {
		return log
	}
	if line := bytes.IndexByte(log[cut-1:], '\n'); line >= 0 {
		cut += line
	}
	return log[cut:]
}

// stopLimit is the time after which Stop kills a child that has not ended.
const stopLimit = 20 * time.Second

// Stop ends the process and waits for it. It does not remove the process's files. It returns an
// error if the process has failed or does not end in time. In the second case, Stop makes a Go
// program print its goroutines, and kills the process.
func (p *Process) Stop() error {
	p.stdin.Close()
	if p.foreign {
		p.Signal(syscall.SIGTERM)
	}
	if p.wait(stopLimit) {
		if p.err != nil && !p.terminated() && !p.told.Load() {
			return fmt.Errorf("%s: %w", p.Name, p.err)
		}
		return nil
	}
	p.Signal(syscall.SIGQUIT) // a Go program prints its goroutines
	if !p.wait(time.Second) {
		p.Kill()
	}
	return fmt.Errorf("%s did not end within %v: %s", p.Name, stopLimit, p.LogTail(10000))
}

// terminated reports whether the signal of Stop ended the process.
func (p *Process) terminated() bool { return p.foreign && p.signalled() == syscall.SIGTERM }

// signalled returns the signal that ended the process, or 0.
func (p *Process) signalled() syscall.Signal {
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) {
		return 0
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal()
	}
	return 0
}

// wait reports whether the process has ended within d.
func (p *Process) wait(d time.Duration) bool {
	select {
	case <-p.done:
		return true
	case <-time.After(d):
		return false
	}
}

// Kill kills the process and waits for its end. It may be called twice.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
	p.stdin.Close()
}
