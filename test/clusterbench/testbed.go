package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/scheduler/handover"
	"github.com/berth-dev/berth/test/trial"
)

// testbed is the environment of a measurement: a control plane, simulated nodes and one scheduler
// at a time.
type testbed struct {
	journal
	ctx     context.Context
	options options
	places  split
	dir     string // for the control planes' and schedulers' files
	plane   *plane
	fleet   *fleet
	leave   context.CancelFunc // ends the fleet
	runs    int                // numbers schedulers and single pods
	// watched means that shadow mode runs next to the scheduler.
	watched bool
}

// start starts a control plane.
func (t *testbed) start() error {
	defer t.took("control plane", time.Now())
	dir, err := os.MkdirTemp(t.dir, "")
	if err != nil {
		return err
	}
	if t.plane, err = startPlane(t.ctx, dir, t.places.rest); err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: podNamespace}}
	if _, err = t.plane.core.CoreV1().Namespaces().Create(t.ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	if slices.Contains(t.options.profiles, profileStock) {
		if err := t.createApps(); err != nil {
			return fmt.Errorf("create ReplicaSets and Services: %w", err)
		}
	}
	return t.hold(true)
}

// stop ends the control plane.
func (t *testbed) stop() {
	if t.plane == nil {
		return
	}
	if err := t.plane.Stop(); err != nil {
		t.say("%v", err)
	}
}

// simulate starts the nodes' simulator. If beating is true, nodes also send heartbeats at the
// agents' interval.
func (t *testbed) simulate(kinds []*nodeKind, beating bool) error {
	var ctx context.Context
	ctx, t.leave = context.WithCancel(t.ctx)
	t.fleet = newFleet(t.plane, kinds)
	if err := t.fleet.run(ctx); err != nil {
		return err
	}
	if beating {
		go t.fleet.pulse(ctx, t.options.heartbeat)
	}
	return nil
}

// renew starts over on another control plane, with heartbeats.
func (t *testbed) renew(kinds []*nodeKind) error {
	t.leave()
	if err := t.plane.Stop(); err != nil {
		return err
	}
	if err := t.start(); err != nil {
		return err
	}
	return t.simulate(kinds, true)
}

func (t *testbed) grow(nodes int) error {
	begun := time.Now()
	defer t.took("nodes", begun)
	if err := t.fleet.grow(t.ctx, nodes); err != nil {
		return fmt.Errorf("make %d nodes: %w", nodes, err)
	}
	t.say("%d nodes after %v", nodes, time.Since(begun).Round(time.Second))
	return nil
}

// startScheduler starts a scheduler. It does not schedule before the Lease is free.
func (t *testbed) startScheduler(who contestant, profile string) (*sched, error) {
	t.runs++
	dir := filepath.Join(t.dir, fmt.Sprintf("scheduler-%03d-%s", t.runs, who))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	config, err := configuration(configure{who, filepath.Join(t.plane.dir, schedulerKubeconfig), profile, t.options.heartbeat})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, err
	}
	s := &sched{http: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
	var serving []string
	if s.port, serving, err = (trial.Scheduler{Dir: dir, Name: "certs"}).Serving(); err != nil {
		return nil, err
	}
	argv := append([]string{t.options.scheduler, "--config=" + file, "--authorization-always-allow-paths=/debug/*"}, serving...)
	s.Process, err = child.Start(child.Spec{Name: string(who), Argv: argv, Log: filepath.Join(dir, string(who)+".log"), Foreign: true, At: t.places.scheduler.start})
	return s, err
}

// hold takes the schedulers' Lease, so that no scheduler leads, or releases it.
func (t *testbed) hold(taken bool) error {
	leases := t.plane.core.CoordinationV1().Leases(metav1.NamespaceSystem)
	spec := coordinationv1.LeaseSpec{HolderIdentity: new(""), LeaseDurationSeconds: new(int32(1)), AcquireTime: new(metav1.NowMicro()), RenewTime: new(metav1.NowMicro())}
	if taken {
		spec.HolderIdentity, spec.LeaseDurationSeconds = new("clusterbench"), new(int32(24*3600))
	}
	for {
		old, err := leases.Get(t.ctx, leaseName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = leases.Create(t.ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName}, Spec: spec}, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		old.Spec = spec
		if _, err = leases.Update(t.ctx, old, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// forgetLeader makes the next scheduler the first one: it does not wait for unfinished work of its
// predecessor.
func (t *testbed) forgetLeader() error {
	err := t.plane.core.CoordinationV1().Leases(v1alpha1.HeartbeatNamespace).Delete(t.ctx, handover.LeaseName, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// lead starts a scheduler and makes it the leader once it has read the cluster.
func (t *testbed) lead(who contestant) (*sched, error) {
	s, err := t.startScheduler(who, t.options.profiles[0])
	if err != nil {
		return nil, err
	}
	err = t.hold(true)
	if err == nil {
		err = s.settle(t.ctx)
	}
	if err == nil {
		err = t.hold(false)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// createApps creates the owners of the pods of profileStock.
func (t *testbed) createApps() error {
	return each(t.ctx, 32, apps, func(ctx context.Context, i int) error {
		if _, err := t.plane.core.CoreV1().Services(podNamespace).Create(ctx, service(i), metav1.CreateOptions{}); err != nil {
			return err
		}
		_, err := t.plane.core.AppsV1().ReplicaSets(podNamespace).Create(ctx, replicaSet(i), metav1.CreateOptions{})
		return err
	})
}

// createPods creates count pods of the load.
func (t *testbed) createPods(load, profile string, count int) error {
	return each(t.ctx, 32, count, func(ctx context.Context, i int) error {
		pod := newPod(load, i)
		if profile == profileStock {
			own(pod, i)
		}
		_, err := t.plane.core.CoreV1().Pods(podNamespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

// deletePods deletes all pods without a grace period, and all events. It waits until the nodes have
// seen this.
func (t *testbed) deletePods() error {
	pods := t.plane.core.CoreV1().Pods(podNamespace)
	list, err := pods.List(t.ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return fmt.Errorf("delete the pods: %w", err)
	}
	err = each(t.ctx, 32, len(list.Items), func(ctx context.Context, i int) error {
		err := pods.Delete(ctx, list.Items[i].Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete the pods: %w", err)
	}
	if err := t.deleteEvents(); err != nil {
		return fmt.Errorf("delete the events: %w", err)
	}
	return t.fleet.quiet(t.ctx, 0)
}

// deleteEvents deletes all events, which otherwise live for an hour, so that the database does not
// grow from run to run. A request ends after a minute, in which a slow server may not delete all;
// the next request then continues.
func (t *testbed) deleteEvents() (err error) {
	events := t.plane.core.CoreV1().Events(podNamespace)
	for range 10 {
		if err = events.DeleteCollection(t.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err == nil || t.ctx.Err() != nil {
			return err
		}
	}
	return err
}

func (t *testbed) storage() (float64, error) {
	m, err := t.plane.metrics(t.ctx)
	return m.sum("apiserver_storage_size_bytes"), err
}
