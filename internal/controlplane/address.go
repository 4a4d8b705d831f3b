package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/berth-dev/berth/internal/child"
)

// listen returns a listener on a free port of 127.0.0.1. If the control plane is kept
// (Options.Keep), every later process uses the port of the first one.
func (cp *ControlPlane) listen(ctx context.Context) (net.Listener, error) {
	if !cp.kept {
		return child.Listen()
	}
	file := filepath.Join(cp.dir, "address")
	data, err := os.ReadFile(file)
	if err == nil {
		return listenAgain(ctx, strings.TrimSpace(string(data)))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := child.Listen()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, []byte(l.Addr().String()+"\n"), 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// listenAgain listens at the address of an earlier process, which may be about to end.
func listenAgain(ctx context.Context, addr string) (net.Listener, error) {
	clock := time.NewTicker(readyPoll)
	defer clock.Stop()
	for {
		l, err := net.Listen("tcp4", addr)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
		select {
		case <-clock.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, ctx.Err())
		}
	}
}
