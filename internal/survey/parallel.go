package survey

import (
	"runtime"

	"golang.org/x/sync/errgroup"
)

// inParallel calls do for 0 to n-1, on all CPUs.
func inParallel(n int, do func(i int)) {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	const chunk = 16
	for from := 0; from < n; from += chunk {
		g.Go(func() error {
			for i := from; i < min(n, from+chunk); i++ {
				do(i)
			}
			return nil
		})
	}
	_ = g.Wait() // do returns nothing
}
