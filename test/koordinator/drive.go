package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/obeying"
	"github.com/berth-dev/berth/test/podgroup"
	"github.com/berth-dev/berth/topology"
)

// driver plays a seed.
type driver struct {
	*obeying.Observer
	rng      *rand.Rand
	reserved topology.CPUSet
	live     []string
	holds    *reservations
	// strange are pods that have what is held for others; stuck the ones that find no room in the
	// end.
	strange, stuck map[string]bool
}

// play starts the cluster, plays the seed and says what was wrong.
func play(ctx context.Context, o *options, out io.Writer) (r result, err error) {
	r.Seed = o.seed
	c, err := obeying.Start(ctx, obeying.Options{Dir: o.dir, Keep: o.keep, Nodes: specs(), Manifests: [][]byte{podgroup.Reservations()}})
	defer func() { err = errors.Join(err, c.End()) }()
	if err != nil {
		return r, err
	}
	d := &driver{rng: rand.New(rand.NewPCG(o.seed, 16)), strange: map[string]bool{}, stuck: map[string]bool{}}
	if d.holds, err = newReservations(c); err != nil {
		return r, err
	}
	if d.Observer, err = obeying.NewObserver(c, specs()); err != nil {
		return r, err
	}
	d.Noticed = func(pod *corev1.Pod) {
		if pod.Spec.NodeName != "" && wire.ReadAllocated(pod) != "" {
			d.holds.reused[string(pod.UID)] = true
		}
	}
	d.reserved.Add(0)
	wrong := d.Observe(ctx, func() error { return d.drive(ctx, o.pods, out) })
	d.Lock()
	defer d.Unlock()
	r.Pods, r.Running, r.Refused = o.pods, len(d.Ran), len(d.Refused)
	r.HeldTwice, r.OutsideItsNUMA, r.Unconfined = len(d.Faults.HeldTwice), len(d.Faults.Outside), len(d.Faults.Unconfined)
	r.Reservations, r.Reused, r.Strangers = d.holds.made, len(d.holds.reused), len(d.strange)
	r.Leftover = len(d.stuck) + d.Leftover()
	if wrong == nil && (r.HeldTwice+r.OutsideItsNUMA+r.Unconfined+r.Refused+r.Strangers+r.Leftover > 0) {
		fmt.Fprintf(out, "held twice %v\noutside %v\nunconfined %v\nrefused %v\nstrangers %v\nwithout room %v\n",
			d.Faults.HeldTwice, d.Faults.Outside, d.Faults.Unconfined, d.Refused, d.strange, d.stuck)
		wrong = errWrong
	}
	return r, wrong
}

// drive makes the pods and breaks things, then lets everything settle, and takes the pods away.
func (d *driver) drive(ctx context.Context, pods int, out io.Writer) error {
	for i := range pods {
		if err := d.step(ctx, i); err != nil {
			return err
		}
		obeying.Pause(ctx, time.Duration(d.rng.IntN(400))*time.Millisecond) // the pace of the load
	}
	fmt.Fprintf(out, "%d pods made; waiting for all that fit to run\n", pods)
	if err := d.Settle(ctx, out, d.waiting); err != nil {
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
	pod, err := d.Client.CoreV1().Pods(obeying.Namespace).Create(ctx, made, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	d.live = append(d.live, pod.Name)
	if len(d.live) > 12 && d.rng.IntN(3) > 0 {
		at := d.rng.IntN(len(d.live))
		_ = d.Client.CoreV1().Pods(obeying.Namespace).Delete(ctx, d.live[at], metav1.DeleteOptions{}) // it may have been evicted
		d.live = append(d.live[:at], d.live[at+1:]...)
	}
	switch d.rng.IntN(25) {
	case 0:
		return d.RestartScheduler()
	case 1:
		return d.RestartAgent(ctx, specs()[d.rng.IntN(len(machines))].Name)
	}
	return nil
}

// hold makes a Reservation of the place of a pod like this now and then, takes one away, or has the
// pod own one.
func (d *driver) hold(ctx context.Context, pod *corev1.Pod) error {
	if d.rng.IntN(6) == 0 {
		policies := []koordinator.ReservationAllocatePolicy{"", koordinator.AllocateAligned, koordinator.AllocateRestricted}
		return d.holds.make(ctx, pod.DeepCopy(), d.rng.IntN(2) == 0, policies[d.rng.IntN(len(policies))])
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
			if d.rng.IntN(3) == 0 { // it wants nothing else
				pod.Annotations[wire.ReservationAffinityAnnotation] = fmt.Sprintf(`{"name":%q}`, d.holds.live[at])
			}
		}
	}
	return nil
}

// waiting says which pod or Reservation is waited for; "" for none.
func (d *driver) waiting(ctx context.Context) (string, error) {
	all, err := d.holds.read(ctx)
	if err != nil {
		return "", err
	}
	d.Lock()
	defer d.Unlock()
	held := d.heldNow(all)
	for _, r := range all {
		if r.Phase == "" || r.Phase == koordinator.ReservationPending {
			if node := d.roomFor(r.Pod, held); node != "" {
				return "Reservation " + r.Name + " has no place, and there is room on " + node, nil
			}
		}
	}
	if why := d.Waiting(func(pod *corev1.Pod) string { return d.roomFor(pod, held) }); why != "" {
		return why, nil
	}
	if why := d.strangers(held); why != "" {
		d.strange[why] = true
	}
	return "", nil
}

// roomFor returns a node that could take the pod, of what a Reservation holds for it, or beside
// what is bound and held there, by the exhaustive twin; "" for none.
func (d *driver) roomFor(pod *corev1.Pod, all []held) string {
	for _, h := range all {
		if pod.Labels[ownerLabel] != h.Name {
			continue
		}
		t := twin{d.Machines[h.Node], d.reserved}
		if t.fitsWithin(h.Decision, h.rest, h.Pod, pod) || h.More && t.fitsBeyond(h.Decision, h.rest, d.freeOn(t, h.Node, all), pod) {
			return h.Node + ", of what Reservation " + h.Name + " holds"
		}
	}
	if _, picky := pod.Annotations[wire.ReservationAffinityAnnotation]; picky {
		return ""
	}
	for _, s := range specs() {
		there := d.On(s.Name)
		beside := maps.Clone(d.Decisions)
		for _, h := range all {
			if h.Node == s.Name {
				there, beside[string(h.UID)] = append(there, h.Pod), asDecision(h.rest)
			}
		}
		if (twin{d.Machines[s.Name], d.reserved}).fits(there, beside, pod) {
			return s.Name
		}
	}
	return ""
}

// freeOn is what a node's NUMA nodes have beside what is bound and held there.
func (d *driver) freeOn(t twin, node string, all []held) []room {
	empty, now := t.rooms(nil), t.rooms(nil)
	for _, pod := range d.On(node) {
		if got := d.Decisions[string(pod.UID)]; got != nil && !wire.Ended(pod) {
			now = minus(now, t.rooms(got), empty)
		}
	}
	for _, h := range all {
		if h.Node == node {
			now = minus(now, t.rooms(asDecision(h.rest)), empty)
		}
	}
	return now
}

// clean deletes all pods and Reservations and waits until they have gone, from the API and from the
// nodes. Then each node takes a pod that needs all of it.
func (d *driver) clean(ctx context.Context) error {
	for len(d.holds.live) > 0 {
		if err := d.holds.drop(ctx, 0); err != nil {
			return err
		}
	}
	if err := d.Empty(ctx); err != nil {
		return err
	}
	return errors.Join(d.fill(ctx), d.Empty(ctx))
}

// fill makes each node take a pod that needs every CPU, and notes which does not.
func (d *driver) fill(ctx context.Context) error {
	for _, s := range specs() {
		cpus := 0
		for i := range d.Machines[s.Name].NUMANodes {
			cpus += d.Machines[s.Name].NUMANodes[i].CPUs.Len()
		}
		if _, err := d.Client.CoreV1().Pods(obeying.Namespace).Create(ctx, wholePod(s.Name, cpus-1), metav1.CreateOptions{}); err != nil {
			return err
		}
		d.stuck["whole-"+s.Name] = true
	}
	ctx, cancel := context.WithTimeout(ctx, obeying.CalmLimit)
	defer cancel()
	for left := len(machines); left > 0 && ctx.Err() == nil; obeying.Pause(ctx, 100*time.Millisecond) {
		d.Lock()
		for name := range d.stuck {
			if d.Ran[name] {
				delete(d.stuck, name)
				delete(d.Ran, name) // it is none of the ones that should have run
			}
		}
		left = len(d.stuck)
		d.Unlock()
	}
	return nil
}
