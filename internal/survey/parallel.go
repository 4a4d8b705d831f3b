package survey

import (
	"context"
	"runtime"

	"k8s.io/client-go/util/workqueue"
)

// inParallel calls do for 0 to n-1, on all CPUs.
func inParallel(n int, do func(i int)) {
	workqueue.ParallelizeUntil(context.Background(), runtime.GOMAXPROCS(0), n, do, workqueue.WithChunkSize(16))
}
