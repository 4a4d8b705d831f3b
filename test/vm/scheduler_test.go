package vm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/scheduler"
)

// schedulerUser is whom the manifests give the scheduler's rights to, and the only one who may
// write placements.
const schedulerUser = "system:kube-scheduler"

// berthScheduler starts Berth's scheduler, for all pods that name no other. Nobody else would lead:
// it does not stand for election, and cannot lose one while the host is busy with emulating.
func (c *cluster) berthScheduler() {
	config, err := scheduler.Configuration(scheduler.ConfigOptions{Kubeconfig: c.schedulerCredentials()})
	if err != nil {
		c.t.Fatal(err)
	}
	c.startScheduler(demo.VerbBerthScheduler, "--config="+c.write("scheduler.yaml", config))
}

// stockName is what pods call the scheduler that knows nothing of NUMA.
const stockName = "stock"

// stockScheduler starts kube-scheduler as it comes, beside Berth's, for the pods that name it.
func (c *cluster) stockScheduler() { c.kubeScheduler(stockName) }

// kubeScheduler starts kube-scheduler as it comes, under a name.
func (c *cluster) kubeScheduler(name string) {
	config := fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q}
profiles: [{schedulerName: %s}]
`, c.schedulerCredentials(), name)
	c.startScheduler(demo.VerbKubeScheduler, "--config="+c.write("stock.yaml", []byte(config)))
}

func (c *cluster) schedulerCredentials() string {
	kubeconfig, err := c.cp.Kubeconfig(schedulerUser, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.write("scheduler.kubeconfig", kubeconfig)
}

func (c *cluster) write(name string, data []byte) string {
	path, err := filepath.Abs(filepath.Join(c.dir, name))
	if err == nil {
		err = errors.Join(os.MkdirAll(c.dir, 0o755), os.WriteFile(path, data, 0o600))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return path
}

// startScheduler starts a process that ends with the test, and not before.
func (c *cluster) startScheduler(args ...string) {
	args = append([]string{os.Args[0]}, append(args, "--secure-port=0")...)
	p, err := child.Start(child.Spec{Name: "scheduler", Argv: args, Log: filepath.Join(c.dir, args[1]+".log")})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			c.t.Errorf("%s: %v", args[1], err)
		}
	})
	c.schedulers = append(c.schedulers, p)
}

// schedulersRun fails the test when a scheduler has ended by itself: nothing that is waited for
// would come.
func (c *cluster) schedulersRun() {
	c.t.Helper()
	for _, p := range c.schedulers {
		if err := p.Ended(); err != nil {
			c.t.Fatalf("a scheduler has ended: %v", err)
		}
	}
}
