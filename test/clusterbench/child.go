package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is a process that ends with this one.
type child struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	log   string
	done  chan struct{}
	err   error // set before done is closed
}

// childSpec says how a child is started: its errors go into the file dir/NAME.log, and what it
// prints to stdout or, without one, into the log too. It runs at a place.
type childSpec struct {
	dir, name string
	stdout    io.Writer
	place     place
}

func startChild(s childSpec, argv ...string) (*child, error) {
	c := &child{name: s.name, log: filepath.Join(s.dir, s.name+".log"), done: make(chan struct{})}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c.cmd = exec.Command(argv[0], argv[1:]...)
	c.cmd.Stdout, c.cmd.Stderr = s.stdout, log
	if s.stdout == nil {
		c.cmd.Stdout = log
	}
	// An interrupt typed at the terminal is for this process, which stops its children itself.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := at(s.place, c.cmd.Start); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	go func() {
		defer close(c.done)
		c.err = c.cmd.Wait()
	}()
	return c, nil
}

// ended returns an error with the end of its log once the process is no more.
func (c *child) ended() error {
	select {
	case <-c.done:
	default:
		return nil
	}
	const limit = 1500
	log, _ := os.ReadFile(c.log)
	return fmt.Errorf("%s ended: %w: %s", c.name, errors.Join(c.err, errors.New("unexpectedly")), bytes.TrimSpace(log[max(0, len(log)-limit):]))
}

// stop ends the process and waits for it.
func (c *child) stop() {
	c.stdin.Close()
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(20 * time.Second):
		_ = c.cmd.Process.Kill()
		<-c.done
	}
}

// cpu returns the processor time of the process so far, user and system; 0 once it has ended.
func (c *child) cpu() time.Duration {
	const tick = time.Second / 100 // USER_HZ
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick
}

// memory returns a line of /proc/PID/status in bytes: VmHWM is the peak of the resident set, VmRSS
// its present size.
func (c *child) memory(line string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), line+":")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10
}

// loadAverage returns the three figures of the machine.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
