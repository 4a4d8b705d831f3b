package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/test/line"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/test/wrongclock"
)

// A replica that stands by all the time must do nothing to any gang, whatever it believes: what its
// watches say comes later than gangs wait for their members, and its clock is ahead by more. The
// scheduler that works elects nobody, so that it is back at once when it was killed; the lease that
// the standby waits for is held by nobody who lives.
const (
	standbyName  = "standby"
	standbyLate  = gangTimeout + 30*time.Second
	standbyAhead = 7 * time.Minute
	// leaseLife is longer than any run.
	leaseLife = 24 * time.Hour
)

// standby is that replica.
type standby struct {
	process *child.Process
	way     *line.Line
	view    line.Standby
}

// start starts it, and holds the lease that it waits for.
func (s *standby) start(ctx context.Context, c *demo.Cluster) error {
	if err := holdLease(ctx, c); err != nil {
		return err
	}
	config, err := c.ControlPlane.UserConfig("system:kube-scheduler", nil)
	if err != nil {
		return err
	}
	if s.way, err = line.New(config, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		s.view.Forward(s.way, out, r)
	})); err != nil {
		return err
	}
	s.view.Late(standbyLate)
	argv, err := s.configure(c.Dir())
	if err != nil {
		return err
	}
	s.process, err = child.Start(child.Spec{Name: standbyName, Log: filepath.Join(c.Dir(), standbyName+".log"), Argv: argv})
	return err
}

// holdLease writes the lease by which schedulers elect a leader, as if one did.
func holdLease(ctx context.Context, c *demo.Cluster) error {
	holder, seconds, now := "the scheduler that works", int32(leaseLife.Seconds()), metav1.NewMicroTime(time.Now())
	_, err := c.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-scheduler"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}, metav1.CreateOptions{})
	return err
}

// configure writes its files into a folder, and returns the command that reads them.
func (s *standby) configure(dir string) ([]string, error) {
	files := trial.Scheduler{Dir: dir, Name: standbyName, LeaderElect: true, Args: &scheduler.Args{GangTimeout: metav1.Duration{Duration: gangTimeout}}}
	clock := wrongclock.File(dir, standbyName)
	if err := errors.Join(s.way.WriteKubeconfig(files.Access()), wrongclock.Set(clock, standbyAhead)); err != nil {
		return nil, err
	}
	_, flags, err := files.Flags()
	return append([]string{os.Args[0], wrongclock.VerbScheduler, clock, "-v=2"}, flags...), err
}

// standsBy says what is wrong with it: it has ended, or leads.
func (s *standby) standsBy() error {
	if s.process == nil {
		return nil
	}
	if s.view.Leads() {
		return errors.New("the replica that stands by has written a lease")
	}
	return s.process.Ended()
}

// stop ends it, if it runs.
func (s *standby) stop() {
	if s.process != nil {
		s.process.Kill()
	}
	if s.way != nil {
		s.way.Close()
	}
}
