package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/obeyed"
	"github.com/berth-dev/berth/topology"
)

const (
	namespace = "default"
	// calmLimit is how long everything may take to settle once nothing is broken any more.
	calmLimit = 3 * time.Minute
	look      = 20 * time.Millisecond
)

// driver plays a seed.
type driver struct {
	*cluster
	rng      *rand.Rand
	machines map[string]*topology.Machine
	reserved topology.CPUSet
	live     []string
	holds    *reservations

	mu      sync.Mutex
	pods    map[string]*corev1.Pod // by name, as the API has them
	all     obeyed.Decisions
	ran     map[string]bool
	refused map[string]bool
	faults  obeyed.Faults
	// strange are pods that have what is held for others; stuck those that find no room in the end.
	strange, stuck map[string]bool
}

// play starts the cluster, plays the seed and says what was wrong.
func play(ctx context.Context, o *options, out io.Writer) (r result, err error) {
	r.Seed = o.seed
	c, err := startCluster(ctx, o)
	defer func() { err = errors.Join(err, c.stop()) }()
	if err != nil {
		return r, err
	}
	d := &driver{cluster: c, rng: rand.New(rand.NewPCG(o.seed, 16)), machines: map[string]*topology.Machine{}, pods: map[string]*corev1.Pod{},
		all: obeyed.Decisions{}, ran: map[string]bool{}, refused: map[string]bool{}, faults: obeyed.NewFaults(), strange: map[string]bool{}, stuck: map[string]bool{}}
	if d.holds, err = newReservations(c); err != nil {
		return r, err
	}
	d.reserved.Add(0)
	for _, s := range specs() {
		if d.machines[s.Name], err = topology.Parse(s.Machine); err != nil {
			return r, err
		}
	}
	watch, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	d.follow(watch)
	watching.Go(func() { d.watch(watch) })
	wrong := d.drive(ctx, o.pods, out)
	stop()
	watching.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	r.Pods, r.Running, r.Refused = o.pods, len(d.ran), len(d.refused)
	r.HeldTwice, r.OutsideItsNUMA, r.Unconfined = len(d.faults.HeldTwice), len(d.faults.Outside), len(d.faults.Unconfined)
	r.Reservations, r.Reused, r.Strangers, r.Leftover = d.holds.made, len(d.holds.reused), len(d.strange), len(d.stuck)
	for _, s := range specs() {
		r.Leftover += len(obeyed.ReadCgroups(d.groupsOf(s.Name)))
	}
	if wrong == nil && (r.HeldTwice+r.OutsideItsNUMA+r.Unconfined+r.Refused+r.Strangers+r.Leftover > 0) {
		fmt.Fprintf(out, "held twice %v\noutside %v\nunconfined %v\nrefused %v\nstrangers %v\nwithout room %v\n",
			d.faults.HeldTwice, d.faults.Outside, d.faults.Unconfined, d.refused, d.strange, d.stuck)
		wrong = errWrong
	}
	return r, wrong
}

// follow notes what the API says of pods.
func (d *driver) follow(ctx context.Context) {
	factory := informers.NewSharedInformerFactoryWithOptions(d.Client, 0, informers.WithNamespace(namespace))
	see := func(obj any) {
		pod := obj.(*corev1.Pod)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.pods[pod.Name] = pod
		d.all.Note(pod)
		if pod.Spec.NodeName != "" && wire.ReadAllocated(pod) != "" {
			d.holds.reused[string(pod.UID)] = true
		}
		if pod.Status.Phase == corev1.PodRunning {
			d.ran[pod.Name] = true
		}
		if wire.Refused(pod) {
			d.refused[pod.Name] = true
		}
	}
	_, _ = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{ // it has not been stopped
		AddFunc: see, UpdateFunc: func(_, obj any) { see(obj) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if pod, ok := obj.(*corev1.Pod); ok {
				d.mu.Lock()
				defer d.mu.Unlock()
				delete(d.pods, pod.Name)
			}
		},
	})
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
}

func (d *driver) groupsOf(node string) string {
	return hollow.Dir(filepath.Join(d.Dir(), node)).Cgroups()
}

// watch judges the cgroups of all nodes until ctx ends.
func (d *driver) watch(ctx context.Context) {
	for ctx.Err() == nil {
		for name, m := range d.machines {
			if f := d.judgeNow(name, m); !f.Empty() {
				if f = f.Both(d.judgeNow(name, m)); !f.Empty() {
					d.mu.Lock()
					d.faults.Add(f.Both(d.judge(name, m)))
					d.mu.Unlock()
				}
			}
		}
		pause(ctx, look)
	}
}

func (d *driver) judgeNow(node string, m *topology.Machine) obeyed.Faults {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.judge(node, m)
}

func (d *driver) judge(node string, m *topology.Machine) obeyed.Faults {
	return obeyed.Judge(m, obeyed.ReadCgroups(d.groupsOf(node)), d.all)
}

// drive makes the pods and breaks things, then lets everything settle, and takes the pods away.
func (d *driver) drive(ctx context.Context, pods int, out io.Writer) error {
	for i := range pods {
		if err := d.step(ctx, i); err != nil {
			return err
		}
		pause(ctx, time.Duration(d.rng.IntN(400))*time.Millisecond) // the pace of the load
	}
	fmt.Fprintf(out, "%d pods made; waiting for all that fit to run\n", pods)
	if err := d.settle(ctx, out); err != nil {
		return err
	}
	return d.clean(ctx)
}

func (d *driver) step(ctx context.Context, i int) error {
	if err := d.Ended(); err != nil {
		return err
	}
	made := newPod(d.rng, i)
	if err := d.hold(ctx, made); err != nil {
		return err
	}
	pod, err := d.Client.CoreV1().Pods(namespace).Create(ctx, made, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	d.live = append(d.live, pod.Name)
	if len(d.live) > 12 && d.rng.IntN(3) > 0 {
		at := d.rng.IntN(len(d.live))
		_ = d.Client.CoreV1().Pods(namespace).Delete(ctx, d.live[at], metav1.DeleteOptions{}) // it may have been evicted
		d.live = append(d.live[:at], d.live[at+1:]...)
	}
	switch d.rng.IntN(25) {
	case 0:
		return d.restartScheduler()
	case 1:
		return d.restartAgent(ctx, specs()[d.rng.IntN(len(machines))].Name)
	}
	return nil
}

// hold makes a Reservation of the place of a pod like this now and then, takes one away, or has the
// pod own one.
func (d *driver) hold(ctx context.Context, pod *corev1.Pod) error {
	if d.rng.IntN(6) == 0 {
		return d.holds.make(ctx, pod.DeepCopy(), d.rng.IntN(2) == 0)
	}
	if n := len(d.holds.live); n > 0 {
		at := d.rng.IntN(n)
		if n > 4 && d.rng.IntN(3) == 0 {
			return d.holds.drop(ctx, at)
		}
		if d.rng.IntN(2) == 0 { // half of them ask for the same as was held
			if like := d.holds.places[d.holds.live[at]]; d.rng.IntN(2) == 0 {
				pod.Labels, pod.Annotations = maps.Clone(like.Labels), maps.Clone(like.Annotations)
				pod.Spec.Containers, pod.Spec.InitContainers = like.DeepCopy().Spec.Containers, nil
			}
			pod.Labels[ownerLabel] = d.holds.live[at]
		}
	}
	return nil
}

// settle waits until every pod runs for which there is room.
func (d *driver) settle(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, calmLimit)
	defer cancel()
	for {
		all, err := d.holds.read(ctx)
		if err != nil {
			return err
		}
		waits := d.waiting(all)
		if waits == "" {
			return nil
		}
		if pause(ctx, 200*time.Millisecond); ctx.Err() != nil {
			fmt.Fprintln(out, waits)
			return fmt.Errorf("%s: %w", waits, errWrong)
		}
	}
}

// waiting says which pod does not run though there is room for it; "" for none. What is bound and
// does not run yet is waited for as well.
func (d *driver) waiting(all []*wire.Reservation) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := d.heldNow(all)
	for _, r := range all {
		if r.Phase == "" || r.Phase == koordinator.ReservationPending {
			if node := d.roomFor(r.Pod, held); node != "" {
				return "Reservation " + r.Name + " has no place, and there is room on " + node
			}
		}
	}
	for _, pod := range d.pods {
		switch {
		case pod.DeletionTimestamp != nil || wire.Ended(pod) || pod.Status.Phase == corev1.PodRunning:
		case pod.Spec.NodeName != "":
			return pod.Name + " is bound to " + pod.Spec.NodeName + " and does not run"
		default:
			if node := d.roomFor(pod, held); node != "" {
				return pod.Name + " has no node, and there is room on " + node
			}
		}
	}
	if why := d.strangers(held); why != "" {
		d.strange[why] = true
	}
	return ""
}

// roomFor returns a node that could take the pod beside what is bound and held there, by the
// exhaustive twin; "" for none.
func (d *driver) roomFor(pod *corev1.Pod, all []held) string {
	for _, s := range specs() {
		var there []*corev1.Pod
		for _, other := range d.pods {
			if other.Spec.NodeName == s.Name {
				there = append(there, other)
			}
		}
		beside := maps.Clone(d.all)
		for _, h := range all {
			if h.Node == s.Name {
				there, beside[string(h.UID)] = append(there, h.Pod), asDecision(h.rest)
			}
		}
		if (twin{d.machines[s.Name], d.reserved}).fits(there, beside, pod) {
			return s.Name
		}
	}
	return ""
}

// clean deletes all pods and Reservations and waits until they have gone, from the API and from the
// nodes. Then each node takes a pod that needs all of it.
func (d *driver) clean(ctx context.Context) error {
	for len(d.holds.live) > 0 {
		if err := d.holds.drop(ctx, 0); err != nil {
			return err
		}
	}
	if err := d.empty(ctx); err != nil {
		return err
	}
	return errors.Join(d.fill(ctx), d.empty(ctx))
}

// fill has each node take a pod that needs every CPU, and notes which does not.
func (d *driver) fill(ctx context.Context) error {
	for _, s := range specs() {
		cpus := 0
		for i := range d.machines[s.Name].NUMANodes {
			cpus += d.machines[s.Name].NUMANodes[i].CPUs.Len()
		}
		if _, err := d.Client.CoreV1().Pods(namespace).Create(ctx, wholePod(s.Name, cpus-1), metav1.CreateOptions{}); err != nil {
			return err
		}
		d.stuck["whole-"+s.Name] = true
	}
	ctx, cancel := context.WithTimeout(ctx, calmLimit)
	defer cancel()
	for left := len(machines); left > 0 && ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
		d.mu.Lock()
		for name := range d.stuck {
			if d.ran[name] {
				delete(d.stuck, name)
				delete(d.ran, name) // it is none of those that were to run
			}
		}
		left = len(d.stuck)
		d.mu.Unlock()
	}
	return nil
}

// empty deletes all pods and waits until they have gone.
func (d *driver) empty(ctx context.Context) error {
	if err := d.Client.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, calmLimit)
	defer cancel()
	for {
		left := 0
		for _, s := range specs() {
			left += len(obeyed.ReadCgroups(d.groupsOf(s.Name)))
		}
		d.mu.Lock()
		left += len(d.pods)
		d.mu.Unlock()
		if left == 0 || ctx.Err() != nil {
			return nil // what is left is counted
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// pause lets time pass.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
