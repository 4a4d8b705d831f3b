package vm

import "github.com/berth-dev/berth/test/trial"

// berthScheduler starts Berth's scheduler for all pods that name no other. It uses no leader
// election, because it is the only replica and could lose its Lease while the host is busy.
func (c *cluster) berthScheduler() {
	c.t.Helper()
	if _, err := c.StartScheduler(trial.Scheduler{Name: "scheduler"}, nil); err != nil {
		c.t.Fatal(err)
	}
}

// stockName is the schedulerName of kube-scheduler.
const stockName = "stock"

// stockScheduler starts an unchanged kube-scheduler next to Berth's, for the pods that name it.
func (c *cluster) stockScheduler() { c.kubeScheduler(stockName) }

// kubeScheduler starts an unchanged kube-scheduler under a name.
func (c *cluster) kubeScheduler(name string) {
	c.t.Helper()
	if err := c.StartStock(name); err != nil {
		c.t.Fatal(err)
	}
}

// schedulersRun fails the test if a scheduler has ended by itself.
func (c *cluster) schedulersRun() {
	c.t.Helper()
	if err := c.Ended(); err != nil {
		c.t.Fatalf("a scheduler has ended: %v", err)
	}
}
