package main

import (
	"cmp"
	"context"

	"golang.org/x/sync/errgroup"
)

// each calls do for 0 to count-1, at most width at a time, and returns the first error.
func each(ctx context.Context, width, count int, do func(ctx context.Context, i int) error) error {
	g, within := errgroup.WithContext(ctx)
	g.SetLimit(width)
	for i := 0; i < count && within.Err() == nil; i++ {
		g.Go(func() error { return do(within, i) })
	}
	return cmp.Or(g.Wait(), ctx.Err())
}
