package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/test/line"
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

// holdLease writes the lease by which schedulers elect a leader, as if one did.
func (c *cluster) holdLease(ctx context.Context) error {
	holder, seconds, now := "the scheduler that works", int32(leaseLife.Seconds()), metav1.NewMicroTime(time.Now())
	_, err := c.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-scheduler"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}, metav1.CreateOptions{})
	return err
}

// startStandby starts the replica that stands by.
func (c *cluster) startStandby(ctx context.Context) error {
	if err := c.holdLease(ctx); err != nil {
		return err
	}
	config, err := c.ControlPlane.UserConfig("system:kube-scheduler", nil)
	if err != nil {
		return err
	}
	if c.standbyWay, err = line.New(config, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		c.standbyView.Forward(c.standbyWay, out, r)
	})); err != nil {
		return err
	}
	c.standbyView.Late(standbyLate)
	access, file := filepath.Join(c.Dir(), standbyName+".kubeconfig"), filepath.Join(c.Dir(), standbyName+".yaml")
	text, err := scheduler.Configuration(scheduler.ConfigOptions{Kubeconfig: access, LeaderElect: true, Args: &scheduler.Args{GangTimeout: metav1.Duration{Duration: gangTimeout}}})
	if err != nil {
		return err
	}
	clock := wrongclock.File(c.Dir(), standbyName)
	if err := errors.Join(c.standbyWay.WriteKubeconfig(access), os.WriteFile(file, text, 0o600), wrongclock.Set(clock, standbyAhead)); err != nil {
		return err
	}
	port, err := child.FreePort()
	if err != nil {
		return err
	}
	c.standby, err = child.Start(child.Spec{Name: standbyName, Log: filepath.Join(c.Dir(), standbyName+".log"), Argv: []string{
		os.Args[0], wrongclock.VerbScheduler, clock, "--config=" + file, "--bind-address=127.0.0.1", fmt.Sprint("--secure-port=", port),
		"--cert-dir=" + filepath.Join(c.Dir(), standbyName), "-v=2",
	}})
	return err
}

// standsBy says what is wrong with the standby: it has ended, or leads.
func (c *cluster) standsBy() error {
	if c.standby == nil {
		return nil
	}
	if c.standbyView.Leads() {
		return errors.New("the replica that stands by has written a lease")
	}
	return c.standby.Ended()
}

// stopStandby ends the standby, if it runs.
func (c *cluster) stopStandby() {
	if c.standby != nil {
		c.standby.Kill()
	}
	if c.standbyWay != nil {
		c.standbyWay.Close()
	}
}
