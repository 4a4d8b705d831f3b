package main

import (
	"context"

	"github.com/berth-dev/berth/internal/demo"
	theirs "github.com/berth-dev/berth/test/volcano"
)

// volcano is Volcano's scheduler, with reports of Berth's agents.
type volcano struct{ *theirs.Scheduler }

// Manifests implements demo.Scheduler.
func (v volcano) Manifests() ([][]byte, error) {
	own, err := agents()
	if err != nil {
		return nil, err
	}
	more, err := v.Scheduler.Manifests()
	return append(own, more...), err
}

// Start implements demo.Scheduler.
func (v volcano) Start(ctx context.Context, c *demo.Cluster, self []string) (func() error, error) {
	if err := c.StartAgents(ctx); err != nil {
		return nil, err
	}
	return v.Scheduler.Start(ctx, c, self)
}
