package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-dev/berth/test/sim"
)

// The range of the random time from a Binding until the pod runs and the agent reports it. A
// simulated agent writes all changes of its node in that time with one report.
const (
	ackMin = 300 * time.Millisecond
	ackMax = time.Second
)

// writers bounds the concurrent requests of the simulated nodes.
const writers = 24

// fleet is all simulated nodes.
type fleet struct {
	plane *plane
	kinds []*nodeKind
	// prepare, if not nil, is called for each node before its first report.
	prepare func(*simNode) error
	// silent means that agents do not report.
	silent atomic.Bool

	mu     sync.RWMutex
	byName map[string]*simNode
	list   []*simNode

	// due has the nodes that must write, after their delays; pending counts them.
	due     workqueue.TypedDelayingInterface[*simNode]
	pending atomic.Int64
	tally   tally
	beats   beats
	fail    chan error
}

func newFleet(p *plane, kinds []*nodeKind) *fleet {
	f := &fleet{plane: p, kinds: kinds, byName: map[string]*simNode{}, due: workqueue.NewTypedDelayingQueue[*simNode](), fail: make(chan error, 1)}
	f.tally.there, f.tally.cond = map[types.UID]bool{}, make(chan struct{})
	return f
}

// grow adds nodes, with reports and heartbeats, until there are count nodes.
func (f *fleet) grow(ctx context.Context, count int) error {
	from := len(f.list)
	added := make([]*simNode, max(0, count-from))
	for i := range added {
		k := f.kinds[(from+i)%len(f.kinds)]
		added[i] = &simNode{name: fmt.Sprintf("node-%05d", from+i), kind: k, kubelet: sim.NewKubelet(k.model), pods: map[types.UID]*simPod{}}
	}
	err := each(ctx, writers, len(added), func(ctx context.Context, i int) error { return f.join(ctx, added[i]) })
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range added {
		f.byName[n.name] = n
	}
	f.list = append(f.list, added...)
	return err
}

// join writes a node's object, its first report and its first heartbeat.
func (f *fleet) join(ctx context.Context, n *simNode) error {
	if _, err := f.plane.core.CoreV1().Nodes().Create(ctx, n.object(), metav1.CreateOptions{}); err != nil {
		return err
	}
	if f.prepare != nil {
		if err := f.prepare(n); err != nil {
			return err
		}
	}
	if _, err := n.report(ctx, f.plane); err != nil {
		return err
	}
	_, err := n.beat(ctx, f.plane)
	return err
}

func (f *fleet) node(name string) *simNode {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.byName[name]
}

// run watches pods and writes for the nodes until ctx ends.
func (f *fleet) run(ctx context.Context) error {
	list, err := f.plane.core.CoreV1().Pods(podNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	go func() { f.failed(f.follow(ctx, list.ResourceVersion)) }()
	for range writers {
		go f.write(ctx)
	}
	context.AfterFunc(ctx, f.due.ShutDown)
	return nil
}

// failed keeps the first error for waiting callers.
func (f *fleet) failed(err error) {
	if err == nil {
		return
	}
	select {
	case f.fail <- err:
	default:
	}
}

// follow watches from a resource version on. When the server ends a watch, follow continues from
// the last version.
func (f *fleet) follow(ctx context.Context, version string) error {
	for range 100 {
		w, err := f.plane.core.CoreV1().Pods(podNamespace).Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
		if err != nil {
			return err
		}
		version, err = f.drain(w, version)
		w.Stop()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return errors.New("the watch of pods ends again and again")
}

// drain reads a watch until it ends, and returns the last resource version.
func (f *fleet) drain(w watch.Interface, version string) (string, error) {
	for ev := range w.ResultChan() {
		pod, ok := ev.Object.(*corev1.Pod)
		if !ok {
			return version, fmt.Errorf("the watch of pods ended: %v", ev.Object)
		}
		version = pod.ResourceVersion
		if ev.Type == watch.Bookmark {
			continue
		}
		if err := f.see(pod, ev.Type == watch.Deleted); err != nil {
			return version, err
		}
	}
	return version, nil
}

// see records a pod event of the watch.
func (f *fleet) see(pod *corev1.Pod, deleted bool) error {
	f.tally.exists(pod.UID, !deleted)
	n := f.node(pod.Spec.NodeName)
	switch {
	case n == nil:
	case deleted:
		if n.remove(pod.UID) {
			f.later(n)
		}
	default:
		fresh, refused, err := n.admit(pod)
		if err != nil {
			return err
		}
		if fresh {
			f.tally.binding(refused)
			f.later(n)
		}
	}
	return nil
}

// later schedules the node's writes after its delay.
func (f *fleet) later(n *simNode) {
	n.mu.Lock()
	waiting := n.due
	n.due = true
	n.mu.Unlock()
	if !waiting {
		f.pending.Add(1)
		f.due.AddAfter(n, ackMin+rand.N(ackMax-ackMin))
	}
}

// write writes the reports and statuses of nodes that are due.
func (f *fleet) write(ctx context.Context) {
	for {
		n, over := f.due.Get()
		if over {
			return
		}
		err := f.tell(ctx, n)
		f.due.Done(n)
		f.pending.Add(-1)
		f.tally.changed()
		if err != nil && ctx.Err() == nil {
			f.failed(err)
		}
	}
}

// idle reports whether every node has written its changes.
func (f *fleet) idle() bool { return f.pending.Load() == 0 }

// tell writes the phases of a node's new pods, and the node's report.
func (f *fleet) tell(ctx context.Context, n *simNode) error {
	for _, p := range n.untold() {
		if err := f.phase(ctx, &p); err != nil {
			return err
		}
	}
	if f.silent.Load() {
		return nil
	}
	took, err := n.report(ctx, f.plane)
	if err == nil && took > 0 {
		f.tally.report(took)
	}
	return err
}

func (f *fleet) phase(ctx context.Context, p *simPod) error {
	status := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: new(metav1.Now()), ContainerStatuses: []corev1.ContainerStatus{{Name: containerName}}}
	if p.refused {
		status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "TopologyAffinityError", Message: "Pod was rejected: Resources cannot be allocated with Topology locality"}
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	f.tally.status(time.Since(p.seen))
	_, err = f.plane.core.CoreV1().Pods(podNamespace).Patch(ctx, p.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil // the pod was deleted meanwhile
	}
	return err
}

// quiet waits until there are at most that many pods and every node has written its changes.
func (f *fleet) quiet(ctx context.Context, pods int) error {
	return f.await(ctx, 10*time.Minute, func(t *tally) bool { return len(t.there) <= pods && f.idle() })
}

// await waits until done returns true for the tally.
func (f *fleet) await(ctx context.Context, limit time.Duration, done func(*tally) bool) error {
	timeout := time.After(limit)
	for {
		f.tally.mu.Lock()
		ok, change := done(&f.tally), f.tally.cond
		f.tally.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-change:
		case err := <-f.fail:
			return err
		case <-timeout:
			return errTimeout
		case <-ctx.Done():
			return ctx.Err()
		case <-f.plane.Done():
			return f.plane.Ended()
		}
	}
}

var errTimeout = errors.New("the cluster does not reach the expected state in time")

// pulse renews every node's Lease once in each interval, evenly, until ctx ends.
func (f *fleet) pulse(ctx context.Context, interval time.Duration) {
	f.evenly(ctx, interval, func(ctx context.Context, n *simNode) error {
		took, err := n.beat(ctx, f.plane)
		if err == nil {
			f.beats.add(took)
		}
		return err
	})
}

// workers starts goroutines that call do for each node on the channel, until it is closed.
func (f *fleet) workers(ctx context.Context, do func(context.Context, *simNode) error) chan<- *simNode {
	turns := make(chan *simNode, 4*writers)
	for range writers {
		go func() {
			for n := range turns {
				if err := do(ctx, n); err != nil && ctx.Err() == nil {
					f.failed(err)
				}
			}
		}()
	}
	return turns
}

// evenly calls do for every node once in each interval, until ctx ends.
func (f *fleet) evenly(ctx context.Context, interval time.Duration, do func(context.Context, *simNode) error) {
	const slice = 50 * time.Millisecond
	clock := time.NewTicker(slice)
	defer clock.Stop()
	turns := f.workers(ctx, do)
	defer close(turns)
	begun, done := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
		}
		f.mu.RLock()
		list := f.list
		f.mu.RUnlock()
		if len(list) == 0 {
			continue
		}
		for want := int(time.Since(begun).Seconds() / interval.Seconds() * float64(len(list))); done < want; done++ {
			select {
			case turns <- list[done%len(list)]:
			case <-ctx.Done():
				return
			}
		}
	}
}
