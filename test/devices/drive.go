package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/test/obeying"
	"github.com/berth-dev/berth/topology"
)

// driver plays a seed.
type driver struct {
	*obeying.Observer
	rng      *rand.Rand
	reserved topology.CPUSet
	live     []string
	made     int
	crooked  map[string]string // decisions that are not as asked, by pod
}

// play starts the cluster, plays the seed and says what was wrong.
func play(ctx context.Context, o *options, out io.Writer) (r result, err error) {
	r.Seed = o.seed
	c, err := obeying.Start(ctx, obeying.Options{Dir: o.dir, Keep: o.keep, Nodes: specs()})
	defer func() { err = errors.Join(err, c.End()) }()
	if err != nil {
		return r, err
	}
	d := &driver{rng: rand.New(rand.NewPCG(o.seed, 17)), crooked: map[string]string{}}
	if d.Observer, err = obeying.NewObserver(c, specs()[:len(machines)]); err != nil {
		return r, err
	}
	d.Noticed = func(pod *corev1.Pod) {
		if m := d.Machines[pod.Spec.NodeName]; m != nil && d.Decisions[string(pod.UID)] != nil {
			if why := notAsAsked(m, pod, d.Decisions[string(pod.UID)]); why != "" {
				d.crooked[pod.Name] = why
			}
		}
	}
	d.reserved.Add(0)
	wrong := d.Observe(ctx, func() error { return d.drive(ctx, o.pods, out) })
	d.Lock()
	defer d.Unlock()
	r.Pods, r.Running, r.Refused = d.made, len(d.Ran), len(d.Refused)
	r.HeldTwice, r.Misaligned = len(d.Faults.HeldTwice), len(d.Faults.Outside)+len(d.Faults.Unconfined)+len(d.crooked)
	r.Leftover = d.Leftover() + len(d.Pods)
	if wrong == nil && r.HeldTwice+r.Misaligned+r.Refused+r.Leftover > 0 {
		fmt.Fprintf(out, "held twice %v\noutside %v\nunconfined %v\nnot as asked %v\nrefused %v\n", d.Faults.HeldTwice, d.Faults.Outside, d.Faults.Unconfined, d.crooked, d.Refused)
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
	return d.Empty(ctx)
}

func (d *driver) step(ctx context.Context, i int) error {
	if err := d.Ended(); err != nil {
		return err
	}
	for _, pod := range newPods(d.rng, i) {
		if _, err := d.Client.CoreV1().Pods(obeying.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		d.live = append(d.live, pod.Name)
		d.made++
	}
	if len(d.live) > 12 && d.rng.IntN(3) > 0 {
		at := d.rng.IntN(len(d.live))
		_ = d.Client.CoreV1().Pods(obeying.Namespace).Delete(ctx, d.live[at], metav1.DeleteOptions{}) // it may have been evicted
		d.live = append(d.live[:at], d.live[at+1:]...)
	}
	switch d.rng.IntN(25) {
	case 0:
		return d.RestartScheduler()
	case 1:
		return d.RestartAgent(ctx, specs()[d.rng.IntN(len(machines)+1)].Name)
	}
	return nil
}

// waiting says which pod is waited for; "" for none.
func (d *driver) waiting(context.Context) (string, error) {
	d.Lock()
	defer d.Unlock()
	return d.Waiting(d.roomFor), nil
}
