package hollow

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// Child is a process that dies with its parent: its standard input is a pipe that the parent holds
// open and never writes to, so that the child reads its end however the parent ends. WithParent is
// the child's part.
type Child struct {
	Name string

	cmd   *exec.Cmd
	log   string
	stdin io.Closer
	done  chan struct{}
	err   error // set before done is closed
}

// StartChild runs argv with its output appended to the file log.
func StartChild(name string, argv []string, log string) (*Child, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer out.Close()
	c := &Child{Name: name, cmd: exec.Command(argv[0], argv[1:]...), log: log, done: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = out, out
	// A group of its own: an interrupt typed at the terminal is for the parent, which stops its
	// children in its order.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		defer close(c.done)
		c.err = c.cmd.Wait()
	}()
	return c, nil
}

// WithParent returns a context that ends when the parent goes away, that is when stdin does, or
// when SIGTERM or SIGINT comes.
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
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Done is closed when the process has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Ended returns nil while the process runs, then an error with the last lines of its log.
func (c *Child) Ended() error {
	select {
	case <-c.done:
	default:
		return nil
	}
	return fmt.Errorf("%s ended by itself: %v: %s", c.Name, c.err, c.logTail(2000))
}

// logTail returns the last bytes of the log.
func (c *Child) logTail(limit int) []byte {
	log, err := os.ReadFile(c.log)
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(log[max(0, len(log)-limit):])
}

// stopLimit is how long a child may take to end before it is killed.
const stopLimit = 10 * time.Second

// Stop ends the process and waits for it. Its files stay: they are the caller's. A process that
// does not end is made to say what it is doing, and killed.
func (c *Child) Stop() error {
	c.stdin.Close()
	if c.wait(stopLimit) {
		if c.err != nil {
			return fmt.Errorf("%s: %w", c.Name, c.err)
		}
		return nil
	}
	c.cmd.Process.Signal(syscall.SIGQUIT) // a Go program prints its goroutines
	if !c.wait(time.Second) {
		c.cmd.Process.Kill()
		<-c.done
	}
	return fmt.Errorf("%s did not end within %v: %s", c.Name, stopLimit, c.logTail(10000))
}

// wait says whether the process has ended within d.
func (c *Child) wait(d time.Duration) bool {
	select {
	case <-c.done:
		return true
	case <-time.After(d):
		return false
	}
}

// Kill ends the process as a power failure would.
func (c *Child) Kill() {
	c.cmd.Process.Kill()
	<-c.done
	c.stdin.Close()
}
