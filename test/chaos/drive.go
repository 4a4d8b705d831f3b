package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
)

// namespace of all pods.
const namespace = metav1.NamespaceDefault

// driver carries out a plan. Only the goroutine of drive uses it.
type driver struct {
	*cluster
	*observer
	book  *book
	out   io.Writer
	begun time.Time
	due   []deed
	exits map[string]int
	said  outcomes
	// shadow has the findings of shadow mode.
	shadow looker
	// asks are the driver's own requests to the API server, which may be slow or stopped.
	asks chan func(context.Context) error
	// asked counts unanswered requests.
	asked sync.WaitGroup
}

// deed is a scheduled action, such as the end of a fault.
type deed struct {
	at   time.Time
	name string
	do   func() error
}

// maxViolations ends a run with many violations.
const maxViolations = 10

// drive carries the plan out and ends all faults.
func (d *driver) drive(ctx context.Context, plan []Op, length time.Duration) error {
	clock := time.NewTicker(20 * time.Millisecond)
	defer clock.Stop()
	shown, looked := time.Time{}, time.Time{}
	for i := 0; time.Since(d.begun) < length && d.book.count() < maxViolations; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-clock.C:
		}
		for ; i < len(plan) && time.Since(d.begun) >= plan[i].At; i++ {
			if err := d.carryOut(&plan[i]); err != nil {
				return fmt.Errorf("%v: %w", plan[i], err)
			}
		}
		if err := d.settleDue(time.Now()); err != nil {
			return err
		}
		if time.Since(looked) > 500*time.Millisecond {
			looked = time.Now()
			d.lookAtShadow(ctx)
		}
		if time.Since(shown) > 5*time.Second {
			shown = time.Now()
			d.show()
			d.judgeMistakes(shown.Add(-outcomePatience))
			if err := d.judgeOutcomes(shown.Add(-outcomePatience)); err != nil {
				return err
			}
		}
	}
	err := d.settleDue(time.Now().Add(time.Hour))
	d.asked.Wait()
	return err
}

// settleDue carries out due actions and restarts processes that have ended by themselves.
func (d *driver) settleDue(now time.Time) error {
	for len(d.due) > 0 && d.due[0].at.Before(now) {
		deed := d.due[0]
		d.due = d.due[1:]
		if err := deed.do(); err != nil {
			return fmt.Errorf("%s: %w", deed.name, err)
		}
	}
	return d.revive()
}

// later schedules an action.
func (d *driver) later(after time.Duration, name string, do func() error) {
	at := time.Now().Add(after)
	i, _ := slices.BinarySearchFunc(d.due, at, func(e deed, at time.Time) int { return e.at.Compare(at) })
	d.due = slices.Insert(d.due, i, deed{at, name, do})
}

// revive restarts every process that has ended by itself, as a deployment would. A scheduler ends
// when it loses its lease; any other end is noted. The rival ends when it finds its cache corrupted
// (kubernetes#141078). etcd has no reason to end: that is an error.
func (d *driver) revive() error {
	for _, name := range d.order {
		p := d.procs[name]
		ended := p.Ended()
		if ended == nil {
			continue
		}
		if name == storageName {
			return ended // no operation of the plan makes etcd exit
		}
		d.exits[name]++
		if !strings.HasPrefix(name, "scheduler-") {
			d.book.note(ended.Error())
		}
		p.Kill()
		d.later(time.Second, "start "+name, p.Start)
	}
	return nil
}

// requestLimit bounds the time of a request of the driver.
const requestLimit = 2 * time.Second

// ask queues a request.
func (d *driver) ask(f func(context.Context) error) {
	d.asked.Add(1)
	d.asks <- f
}

// askAll makes the requests in order and repeats each until it is answered. It has its own
// goroutine, because the end of a fault must not wait for the API server.
func (d *driver) askAll(ctx context.Context) {
	for f := range d.asks {
		for ctx.Err() == nil && !d.answered(ctx, f) {
		}
		d.asked.Done()
	}
}

func (d *driver) answered(ctx context.Context, f func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	err := f(ctx)
	return err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err)
}

func (d *driver) carryOut(o *Op) error {
	d.book.did(o, d.leading().name)
	pods := d.client.CoreV1().Pods(namespace)
	switch o.Kind {
	case Create:
		d.ask(func(ctx context.Context) error {
			_, err := pods.Create(ctx, o.Pod.object(), metav1.CreateOptions{})
			return err
		})
	case CreateGang:
		d.askForGang(o.Gang)
	case Delete, ForceDelete:
		opts := metav1.DeleteOptions{}
		if o.Kind == ForceDelete {
			opts.GracePeriodSeconds = new(int64)
		}
		d.ask(func(ctx context.Context) error { return pods.Delete(ctx, o.Target, opts) })
	default:
		return d.inflict(o)
	}
	return nil
}

// askForGang creates a gang: its object, if it has one, and all pods.
func (d *driver) askForGang(members []*PodPlan) {
	if members[0].Group {
		d.ask(func(ctx context.Context) error {
			_, err := d.groups.Resource(sigs.PodGroups).Namespace(namespace).Create(ctx, members[0].group(), metav1.CreateOptions{})
			return err
		})
	}
	for _, member := range members {
		d.ask(func(ctx context.Context) error {
			_, err := d.client.CoreV1().Pods(namespace).Create(ctx, member.object(), metav1.CreateOptions{})
			return err
		})
	}
}

// inflict begins a fault and schedules its end.
func (d *driver) inflict(o *Op) error {
	p := d.procs[o.Target]
	if o.Target == leader {
		p = d.leading()
	}
	if p == nil {
		return fmt.Errorf("fault %s: process %q does not exist", o.Kind, o.Target)
	}
	name := fmt.Sprintf("end of %s %s", o.Kind, o.Target)
	switch o.Kind {
	case Kill:
		if p.Process() == nil {
			return nil // it has ended by itself, and revive starts it again
		}
		p.Kill()
		d.later(o.For, name, p.Start)
	case Pause:
		p.signal(syscall.SIGSTOP)
		d.later(o.For, name, func() error { p.signal(syscall.SIGCONT); return nil })
	case Slow:
		end := time.Now().Add(o.For)
		go stutter(p, end)
		d.later(o.For, name, func() error { p.signal(syscall.SIGCONT); return nil })
	case Jump:
		return d.jump(p, o.By)
	case Cut:
		p.way.cut()
	case Lose, Late, Orphan:
		p.way.set(o.Kind)
		d.later(o.For, name, func() error { p.way.set(""); return nil })
	default:
		return fmt.Errorf("fault %s of %s: want a known fault", o.Kind, o.Target)
	}
	return nil
}

// leading returns the scheduler that was last seen to lead, or the first.
func (d *driver) leading() *process {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.procs[d.leader]; p != nil {
		return p
	}
	return d.procs["scheduler-0"]
}

// stutter lets the process run a quarter of the time.
func stutter(p *process, end time.Time) {
	clock := time.NewTicker(50 * time.Millisecond)
	defer clock.Stop()
	for i := 0; time.Now().Before(end); i++ {
		if i%4 == 3 {
			p.signal(syscall.SIGCONT)
		} else {
			p.signal(syscall.SIGSTOP)
		}
		<-clock.C
	}
	p.signal(syscall.SIGCONT)
}

// show prints the current progress line.
func (d *driver) show() {
	d.mu.Lock()
	defer d.mu.Unlock()
	pending, running := 0, 0
	for _, w := range d.pods {
		switch {
		case w.gone:
		case w.pod.Spec.NodeName == "":
			pending++
		case w.pod.Status.Phase == corev1.PodRunning:
			running++
		}
	}
	t := &d.tally
	faults := 0
	for k, n := range d.book.counts {
		if k != Create && k != CreateGang && k != Delete && k != ForceDelete {
			faults += n
		}
	}
	fmt.Fprintf(d.out, "%4.0fs  pods %d  running %d  pending %d  ran %d  exact %d (%d under a fault)  verdict %d  reports %d  faults %d  violations %d\n",
		time.Since(d.begun).Seconds(), t.pods, running, pending, t.ran, t.placed.exact+t.placed.exactDisturbed, t.placed.exactDisturbed, t.placed.verdict, t.reports, faults, d.book.count())
}

// outcomePatience is how long chaos must have watched a pod before it judges the scheduler's
// outcome for the pod.
const outcomePatience = 15 * time.Second

// judgeOutcomes compares the schedulers' outcomes with the observations; it leaves outcomes after
// until for later.
func (d *driver) judgeOutcomes(until time.Time) error {
	for i := range schedulers {
		if err := d.said.read(d.procs[fmt.Sprint("scheduler-", i)].log, time.Now()); err != nil {
			return err
		}
	}
	n := 0
	for ; n < len(d.said.waiting) && d.said.waiting[n].read.Before(until); n++ {
		d.observer.outcome(&d.said.waiting[n])
	}
	d.said.waiting = d.said.waiting[n:]
	return nil
}
