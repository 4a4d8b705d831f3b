package vm

import "github.com/berth-dev/berth/test/trial"

// berthScheduler starts Berth's scheduler, for all pods that name no other. Nobody else would lead:
// it does not stand for election, and cannot lose one while the host is busy with emulating.
func (c *cluster) berthScheduler() {
	c.t.Helper()
	if _, err := c.StartScheduler(trial.Scheduler{Name: "scheduler"}, nil); err != nil {
		c.t.Fatal(err)
	}
}

// stockName is what pods call the scheduler that knows nothing of NUMA.
const stockName = "stock"

// stockScheduler starts kube-scheduler as it comes, beside Berth's, for the pods that name it.
func (c *cluster) stockScheduler() { c.kubeScheduler(stockName) }

// kubeScheduler starts kube-scheduler as it comes, under a name.
func (c *cluster) kubeScheduler(name string) {
	c.t.Helper()
	if err := c.StartStock(name); err != nil {
		c.t.Fatal(err)
	}
}

// schedulersRun fails the test when a scheduler has ended by itself: nothing that is waited for
// would come.
func (c *cluster) schedulersRun() {
	c.t.Helper()
	if err := c.Ended(); err != nil {
		c.t.Fatalf("a scheduler has ended: %v", err)
	}
}
