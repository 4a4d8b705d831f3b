package demo

import (
	"context"
	"errors"
)

// Berth is Berth's scheduler, with an agent on each node.
type Berth struct{}

// Title implements Scheduler.
func (Berth) Title() string { return "Berth" }

// Predicts implements Scheduler.
func (Berth) Predicts() bool { return true }

// Manifests implements Scheduler.
func (Berth) Manifests() ([][]byte, error) { return nil, nil }

// Start implements Scheduler.
func (Berth) Start(ctx context.Context, c *Cluster, self []string) (func() error, error) {
	return nil, errors.New("agents are not built in yet")
}
