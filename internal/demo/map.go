package demo

import (
	"context"
	"net"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/web"
)

// ServeMap serves the map of a cluster on a free port of this machine until ctx ends. It returns
// the page's address. stop waits until the server has ended.
func ServeMap(ctx context.Context, config *rest.Config) (address string, stop func() error, err error) {
	c, err := survey.Connect(survey.Options{Config: config, Heartbeats: v1alpha1.HeartbeatNamespace, StaleAfter: time.Minute, Where: "the playground"})
	if err != nil {
		return "", nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	server := web.New(web.Options{Live: c.NewLive(), Hosts: web.LocalNames(listener)})
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	return "http://" + listener.Addr().String() + "/", func() error {
		cancel()
		return <-done
	}, nil
}
