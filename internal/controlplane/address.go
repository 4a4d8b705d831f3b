package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// listen returns a listener on a free port of 127.0.0.1; for a control plane that is kept, on the
// port that it had.
func (cp *ControlPlane) listen(ctx context.Context) (net.Listener, error) {
	if !cp.kept {
		return net.Listen("tcp4", "127.0.0.1:0")
	}
	file := filepath.Join(cp.dir, "address")
	data, err := os.ReadFile(file)
	if err == nil {
		return listenAgain(ctx, strings.TrimSpace(string(data)))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := listenBelow()
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

// Ports that Linux does not give away by itself (ip_local_port_range begins at 32768, ip(7)): while
// a server is away, no connection of another program gets its port, and no client that tries to
// reach it is connected to itself.
const firstPort, endPort = 20000, 32768

// listenBelow listens on a random one of these ports.
func listenBelow() (net.Listener, error) {
	const tries = 100
	var last error
	for range tries {
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(endPort-firstPort)))
		if err == nil {
			return l, nil
		}
		last = err
	}
	return nil, last
}
