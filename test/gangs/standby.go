package main

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/test/line"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/test/wrongclock"
)

// A replica that never leads must not affect any gang, even if its view is wrong. Its watches are
// late, and its clock is ahead, by more time than gangs wait for their members. The working
// scheduler elects no leader, so it works again immediately after a kill. The Lease that the
// standby waits for is held by a name without a process.
const (
	standbyName  = "standby"
	standbyLate  = gangTimeout + 30*time.Second
	standbyAhead = 7 * time.Minute
	// leaseLife is longer than any run.
	leaseLife = 24 * time.Hour
)

// standby is a replica that never leads.
type standby struct {
	*trial.Part
	view line.Standby
}

// start starts the replica, and holds the Lease for which it waits.
func (s *standby) start(ctx context.Context, c *trial.Cluster) (err error) {
	if err := errors.Join(holdLease(ctx, c.Cluster), wrongclock.Set(wrongclock.File(c.Dir(), standbyName), standbyAhead)); err != nil {
		return err
	}
	s.view.Late(standbyLate)
	s.Part, err = c.StartReplica(schedulerOf(standbyName), &s.view, wrongclock.VerbScheduler)
	return err
}

// holdLease writes the Lease of the leader election, as if a leader held it.
func holdLease(ctx context.Context, c *demo.Cluster) error {
	holder, seconds, now := "the scheduler that works", int32(leaseLife.Seconds()), metav1.NewMicroTime(time.Now())
	_, err := c.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-scheduler"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}, metav1.CreateOptions{})
	return err
}

// standsBy describes a failure of the standby: it has ended, or leads.
func (s *standby) standsBy() error {
	if s.view.Leads() {
		return errors.New("the standby replica has written a Lease")
	}
	return s.Ended()
}
