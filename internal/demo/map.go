package demo

import (
	"context"
	"net"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/web"
)

// survey connects to the cluster as kubectl berth does, for the pods of a namespace ("" means all
// namespaces).
func (c *Cluster) survey(namespace string) (*survey.Cluster, error) {
	return survey.Connect(source.Options{
		Config: c.ControlPlane.RESTConfig(), Namespace: namespace, Heartbeats: v1alpha1.HeartbeatNamespace, StaleAfter: time.Minute, Where: "the playground",
	})
}

// ServeMap serves the map of the cluster on a free port of this machine, and returns the address of
// its page. stop ends the server and waits for it. The server also ends when ctx ends.
func (c *Cluster) ServeMap(ctx context.Context) (address string, stop func() error, err error) {
	found, err := c.survey(metav1.NamespaceAll)
	if err != nil {
		return "", nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	server := web.New(web.Options{Live: found.NewLive(), Hosts: web.LocalNames(listener)})
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	return "http://" + listener.Addr().String() + "/", func() error {
		cancel()
		return <-done
	}, nil
}
