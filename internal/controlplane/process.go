package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
)

// startServerProcess runs opts.Server.
func startServerProcess(ctx context.Context, cp *ControlPlane, storage string, opts *Options) (*apiServer, error) {
	addr, err := cp.reserve(ctx)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	flags := append(defaultFlags(cp.pki, storage), "--bind-address="+host, "--advertise-address="+host, "--secure-port="+port)
	cmd := exec.Command(opts.Server, append(flags, opts.Flags...)...)
	last := &lastWords{}
	cmd.Stdout, cmd.Stderr = last, last
	if opts.Log != nil {
		cmd.Stdout, cmd.Stderr = opts.Log, opts.Log
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var asked atomic.Bool
	s := &apiServer{addr: addr, done: make(chan struct{})}
	s.cancel = func() {
		asked.Store(true)
		_ = cmd.Process.Signal(syscall.SIGTERM) // an error says that it has ended
	}
	s.cut = func() { _ = cmd.Process.Kill() }
	go func() {
		defer close(s.done)
		if err := cmd.Wait(); err != nil && !asked.Load() {
			s.err = errors.Join(err, last.err())
		}
	}()
	return s, nil
}

// reserve returns an address that nobody listens at, and that Linux does not give to anybody by
// itself.
func (cp *ControlPlane) reserve(ctx context.Context) (string, error) {
	listen := listenBelow
	if cp.kept {
		listen = func() (net.Listener, error) { return cp.listen(ctx) }
	}
	l, err := listen()
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// lastWords keeps the end of what a process says.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

// maxLastWords bounds them, in bytes.
const maxLastWords = 2000

// Write implements io.Writer.
func (w *lastWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	w.text = bytes.Clone(w.text[max(0, len(w.text)-maxLastWords):])
	return len(p), nil
}

func (w *lastWords) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.text) == 0 {
		return nil
	}
	return fmt.Errorf("its last words: %s", w.text)
}
