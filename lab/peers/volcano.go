package main

import (
	"context"

	"github.com/berth-dev/berth/internal/demo"
)

// volcano is Volcano's scheduler, with reports of Berth's agents.
type volcano struct{ *demo.VolcanoScheduler }

// Manifests implements demo.Scheduler.
func (v volcano) Manifests() ([][]byte, error) {
	own, err := agents()
	if err != nil {
		return nil, err
	}
	theirs, err := v.VolcanoScheduler.Manifests()
	return append(own, theirs...), err
}

// Start implements demo.Scheduler.
func (v volcano) Start(ctx context.Context, c *demo.Cluster, self []string) (func() error, error) {
	if err := c.StartAgents(ctx); err != nil {
		return nil, err
	}
	return v.VolcanoScheduler.Start(ctx, c, self)
}
