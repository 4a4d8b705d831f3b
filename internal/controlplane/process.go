package controlplane

import (
	"context"
	"net"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/berth-dev/berth/internal/child"
)

// startServerProcess runs opts.Server. Its log is a file in the control plane's directory.
func startServerProcess(ctx context.Context, cp *ControlPlane, storage string, opts *Options) (*apiServer, error) {
	addr, err := cp.reserve(ctx)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	argv := append([]string{opts.Server, "--bind-address=" + host, "--advertise-address=" + host, "--secure-port=" + port}, defaultFlags(cp.pki, storage, opts)...)
	p, err := child.Start(child.Spec{Name: "kube-apiserver", Argv: append(argv, opts.Flags...), Log: filepath.Join(cp.dir, "kube-apiserver.log"), Foreign: true})
	if err != nil {
		return nil, err
	}
	var asked atomic.Bool
	s := &apiServer{addr: addr, cut: p.Kill, done: make(chan struct{})}
	s.cancel = func() {
		asked.Store(true)
		p.Signal(syscall.SIGTERM)
	}
	go func() {
		defer close(s.done)
		<-p.Done()
		if !asked.Load() {
			s.err = p.Ended()
		}
	}()
	return s, nil
}

// reserve returns a free address. For a kept control plane, it returns the address that the control
// plane had before.
func (cp *ControlPlane) reserve(ctx context.Context) (string, error) {
	l, err := cp.listen(ctx)
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
