// Package parallel uses all CPUs for many small independent tasks.
package parallel

import (
	"context"
	"runtime"

	"k8s.io/client-go/util/workqueue"
)

// Do calls the function do with each number from 0 to n-1, on all CPUs, and returns when all calls
// have returned.
func Do(n int, do func(i int)) {
	workqueue.ParallelizeUntil(context.Background(), runtime.GOMAXPROCS(0), n, do, workqueue.WithChunkSize(16))
}
