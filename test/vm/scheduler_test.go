package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/scheduler"
)

// schedulerUser is whom the manifests give the scheduler's rights to, and the only one who may write placements.
const schedulerUser = "system:kube-scheduler"

// berthScheduler starts Berth's scheduler; stockScheduler the one that knows nothing of NUMA. Both return what stops it.
func (c *cluster) berthScheduler() func() {
	kubeconfig := c.schedulerCredentials()
	config, err := scheduler.Configuration(scheduler.ConfigOptions{Kubeconfig: kubeconfig, LeaderElect: true})
	if err != nil {
		c.t.Fatal(err)
	}
	return c.startScheduler(demo.VerbBerthScheduler, "--config="+c.write("scheduler.yaml", config))
}

func (c *cluster) stockScheduler() func() {
	return c.startScheduler(demo.VerbKubeScheduler, "--kubeconfig="+c.schedulerCredentials(), "--leader-elect=true")
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

func (c *cluster) startScheduler(args ...string) (stop func()) {
	args = append([]string{os.Args[0]}, append(args, "--secure-port=0",
		"--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s")...)
	child, err := hollow.StartChild("scheduler", args, filepath.Join(c.dir, args[1]+".log"))
	if err != nil {
		c.t.Fatal(err)
	}
	stop = func() {
		if err := child.Stop(); err != nil {
			c.t.Errorf("%s: %v", args[1], err)
		}
	}
	c.t.Cleanup(stop)
	c.eventually(args[1]+" leads", func(ctx context.Context) error {
		l, err := c.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, "kube-scheduler", metav1.GetOptions{})
		if err == nil && (l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "") {
			err = fmt.Errorf("the lease has no holder")
		}
		return errors.Join(err, child.Ended())
	})
	return stop
}
