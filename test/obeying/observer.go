// Package obeying is the common part of programs that test nodes with authority berth with random
// loads from a seed. It runs a load on a cluster and observes pods and nodes.
package obeying

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"

	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/obeyed"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/topology"
)

const (
	// Namespace is the namespace of all pods.
	Namespace = "default"
	// CalmLimit is how long the cluster may take to settle after the last fault.
	CalmLimit = 3 * time.Minute
	look      = 20 * time.Millisecond
)

// Observer observes the pods of a cluster, and how its nodes with authority berth run them.
type Observer struct {
	*trial.Cluster
	// Machines are the machines of the nodes with authority berth, by name.
	Machines map[string]*topology.Machine
	// Noticed is called with each version of a pod after the Observer has recorded it. The Observer
	// is locked. It may be nil.
	Noticed func(*corev1.Pod)
	// Judge returns the faults on a node. The Observer is locked. nil means obeyed.Judge with
	// Decisions.
	Judge func(node string, groups []obeyed.Group) obeyed.Faults

	sync.Mutex
	// Pods are the pods in the API by name. Ran and Refused are the pods that have ever run, and
	// that their kubelet has rejected.
	Pods         map[string]*corev1.Pod
	Ran, Refused map[string]bool
	// Decisions are the decisions of all observed Bindings. Faults are the containers that did not
	// run as decided.
	Decisions obeyed.Decisions
	Faults    obeyed.Faults
}

// NewObserver returns an Observer of these nodes with authority berth.
func NewObserver(c *trial.Cluster, nodes []hollow.Spec) (*Observer, error) {
	o := &Observer{Cluster: c, Machines: map[string]*topology.Machine{}, Pods: map[string]*corev1.Pod{}, Ran: map[string]bool{},
		Refused: map[string]bool{}, Decisions: obeyed.Decisions{}, Faults: obeyed.NewFaults()}
	for _, s := range nodes {
		m, err := topology.Parse(s.Machine)
		if err != nil {
			return nil, err
		}
		o.Machines[s.Name] = m
	}
	return o, nil
}

// Observe observes pods and nodes while f runs.
func (o *Observer) Observe(ctx context.Context, f func() error) error {
	watch, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	o.follow(watch)
	watching.Go(func() { o.watch(watch) })
	err := f()
	stop()
	watching.Wait()
	return err
}

// follow watches pods and records them.
func (o *Observer) follow(ctx context.Context) {
	factory := informers.NewSharedInformerFactoryWithOptions(o.Client, 0, informers.WithNamespace(Namespace))
	see := func(pod *corev1.Pod) {
		o.Lock()
		defer o.Unlock()
		o.note(pod)
	}
	gone := func(pod *corev1.Pod) {
		o.Lock()
		defer o.Unlock()
		delete(o.Pods, pod.Name)
	}
	_, _ = factory.Core().V1().Pods().Informer().AddEventHandler(trial.Handler(see, gone)) // cannot fail: the informer is not stopped
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
}

// note records a version of a pod. The caller holds the lock.
func (o *Observer) note(pod *corev1.Pod) {
	o.Pods[pod.Name] = pod
	o.Decisions.Note(pod)
	if pod.Status.Phase == corev1.PodRunning {
		o.Ran[pod.Name] = true
	}
	if wire.Refused(pod) {
		o.Refused[pod.Name] = true
	}
	if o.Noticed != nil {
		o.Noticed(pod)
	}
}

func (o *Observer) groups(node string) []obeyed.Group {
	return obeyed.ReadCgroups(hollow.Dir(filepath.Join(o.Dir(), node)).Cgroups())
}

// Leftover counts the containers on nodes with authority berth.
func (o *Observer) Leftover() (n int) {
	for name := range o.Machines {
		n += len(o.groups(name))
	}
	return n
}

// watch checks the cgroups of all nodes repeatedly until ctx ends.
func (o *Observer) watch(ctx context.Context) {
	for range trial.Every(ctx, look) {
		for name, m := range o.Machines {
			if f := o.judgeNow(name, m); !f.Empty() {
				if f = f.Both(o.judgeNow(name, m)); !f.Empty() {
					o.Lock()
					o.Faults.Add(f.Both(o.judge(name, m)))
					o.Unlock()
				}
			}
		}
	}
}

func (o *Observer) judgeNow(node string, m *topology.Machine) obeyed.Faults {
	o.Lock()
	defer o.Unlock()
	return o.judge(node, m)
}

func (o *Observer) judge(node string, m *topology.Machine) obeyed.Faults {
	if o.Judge != nil {
		return o.Judge(node, o.groups(node))
	}
	return obeyed.Judge(m, o.groups(node), o.Decisions)
}

// Groups returns the cgroups of the containers that run on a node now.
func (o *Observer) Groups(node string) []obeyed.Group { return o.groups(node) }

// Settle waits until waiting returns "". Until then, waiting describes a pod that is not settled.
func (o *Observer) Settle(ctx context.Context, out io.Writer, waiting func(context.Context) (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, CalmLimit)
	defer cancel()
	var waits string
	var err error
	if !trial.Until(ctx, 200*time.Millisecond, func() bool { waits, err = waiting(ctx); return err != nil || waits == "" }) {
		fmt.Fprintln(out, waits)
		return fmt.Errorf("waited %s: %s", CalmLimit, waits)
	}
	return err
}

// Waiting describes a pod that is not running, although it is bound or roomFor returns a node for
// it. It returns "" if there is none. The caller holds the lock.
func (o *Observer) Waiting(roomFor func(*corev1.Pod) string) string {
	for _, pod := range o.Pods {
		switch {
		case pod.DeletionTimestamp != nil || wire.Ended(pod) || pod.Status.Phase == corev1.PodRunning:
		case pod.Spec.NodeName != "":
			return pod.Name + " is bound to " + pod.Spec.NodeName + " and does not run"
		default:
			if node := roomFor(pod); node != "" {
				return pod.Name + " has no node, and there is room on " + node
			}
		}
	}
	return ""
}

// On returns the pods that are bound to a node. The caller holds the lock.
func (o *Observer) On(node string) (there []*corev1.Pod) {
	for _, pod := range o.Pods {
		if pod.Spec.NodeName == node {
			there = append(there, pod)
		}
	}
	return there
}

// Empty deletes all pods and waits until they are gone from the API and from the nodes. If this
// takes too long, it returns, and the caller counts the remaining containers.
func (o *Observer) Empty(ctx context.Context) error {
	if err := o.Client.CoreV1().Pods(Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, CalmLimit)
	defer cancel()
	trial.Until(ctx, 100*time.Millisecond, func() bool {
		o.Lock()
		defer o.Unlock()
		return len(o.Pods) == 0 && o.Leftover() == 0
	})
	return nil
}

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
