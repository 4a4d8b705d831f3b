package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// LocalNames returns the names with which browsers reach a server on their own machine.
func LocalNames(l net.Listener) []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	if host, _, err := net.SplitHostPort(l.Addr().String()); err == nil {
		names = append(names, host)
	}
	return names
}

// Serve follows the cluster, keeps the history, and answers browsers until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Live.Run(ctx, s.Changed) })
	group.Go(func() error {
		s.Run(ctx)
		return nil
	})
	group.Go(func() error { return listen(ctx, l, s) })
	return group.Wait()
}

// Timeouts for slow browsers.
const (
	headerPatience = 10 * time.Second
	idlePatience   = 2 * time.Minute
	stopPatience   = 2 * time.Second
	maxHeader      = 64 << 10
)

// listen answers requests until ctx ends. listen then closes the streams that are still open.
func listen(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: headerPatience, IdleTimeout: idlePatience, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	if err := server.Shutdown(late); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return server.Close()
}
