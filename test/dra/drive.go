package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/obeyed"
	"github.com/berth-dev/berth/test/scrape"
	"github.com/berth-dev/berth/test/trial"
)

const (
	// tick is the interval of the driver's checks.
	tick = 100 * time.Millisecond
	// calm is how long the cluster must be unchanged before a running pod makes room for waiting
	// pods.
	calm = 3 * time.Second
	// idle is how long the cluster may be unchanged while pods wait and none runs. A killed
	// scheduler may wait for a minute after its start.
	idle = 2 * time.Minute
	// endLimit is how long the effects of deleted objects may last.
	endLimit = 90 * time.Second
)

// result is the last line.
type result struct {
	Seed    uint64 `json:"seed"`
	Pods    int    `json:"pods"`
	Running int    `json:"running"`
	// SteeredElsewhere counts pods with a device on another NUMA node than the first that was free.
	SteeredElsewhere int `json:"steeredElsewhere"`
	// Neutral counts pods with a mode but without exclusive CPUs or a device on a NUMA node.
	Neutral int `json:"neutral"`
	// RefusedByName counts pods that waited for a reason that names a claim, a device or the
	// annotation.
	RefusedByName   int `json:"refusedByName"`
	StockMisaligned int `json:"stockMisaligned"`
	// Misaligned, KubeletRefused, HeldTwice and Leftover count failures in Berth's run.
	Misaligned     int `json:"misaligned"`
	KubeletRefused int `json:"kubeletRefused"`
	HeldTwice      int `json:"heldTwice"`
	Leftover       int `json:"leftover"`
}

// errWrong ends the program with exit code 1; the output already has the reason.
var errWrong = errors.New("a check of claims has failed")

// play starts the cluster and plays the plan under each scheduler.
func play(ctx context.Context, o *options, out io.Writer) error {
	plan := NewPlan(o.seed, o.pods)
	fmt.Fprintf(out, "seed %d: %d pods on %d nodes; SEED=%d replays the plan\n", o.seed, o.pods, len(kinds), o.seed)
	return trial.With(ctx, out, func(ctx context.Context) (*cluster, error) { return startCluster(ctx, o) }, func(c *cluster) error {
		if o.keep {
			fmt.Fprintln(out, "logs are kept in", c.Dir())
		}
		r, wrong := result{Seed: o.seed, Pods: len(plan)}, false
		for _, which := range []string{stock, berth} {
			if o.only != "" && o.only != which {
				continue
			}
			d := &driver{observer: newObserver(c, plan), out: out, which: which, begun: time.Now(), due: map[string]bool{}, hasty: map[string]bool{}, broken: map[string]bool{}}
			if err := d.play(ctx, plan, which == berth || o.only == stock); err != nil {
				return err
			}
			wrong = d.tell(&r) || wrong
		}
		if o.only != berth && r.StockMisaligned == 0 {
			fmt.Fprintln(out, "kube-scheduler has misaligned no pod: the load proves nothing")
			wrong = true
		}
		if o.only != stock && r.SteeredElsewhere == 0 {
			fmt.Fprintln(out, "Berth has steered no pod to another device: the load proves nothing")
			wrong = true
		}
		if err := json.NewEncoder(out).Encode(r); err != nil || !wrong {
			return err
		}
		return errWrong
	})
}

// driver carries a plan out under one scheduler.
type driver struct {
	*observer
	out      io.Writer
	which    string
	begun    time.Time
	left     []string // remains at the end
	starved  []string // pods that did not run although the cluster was unchanged
	stays    []string // pods that existed until the end
	restarts int
	due      map[string]bool // pods that end when they run
	hasty    map[string]bool // pods that ended before they ran
	broken   map[string]bool // nodes whose kubelet will be killed
	kubelets int             // number of killed kubelets
}

// play creates the pods, lets all of them run, and deletes them; then it plays the scenes.
func (d *driver) play(ctx context.Context, plan Plan, scenes bool) error {
	name := "default-scheduler"
	if d.which == stock {
		name = stock
	}
	if err := d.start(ctx, d.which); err != nil {
		return err
	}
	defer func() {
		d.restarts = d.scheduler.Restarts()
		d.scheduler.Kill()
	}()
	for i := range plan {
		if err := d.step(ctx, &plan[i], name); err != nil {
			return err
		}
	}
	fmt.Fprintf(d.out, "%s: %d pods created after %.0fs; waiting for all to run\n", d.which, len(plan), time.Since(d.begun).Seconds())
	d.hook.Store(nil)
	if err := d.drain(ctx); err != nil {
		return err
	}
	if err := d.clean(ctx); err != nil || !scenes {
		return err
	}
	return d.scenes(ctx, name)
}

func (d *driver) step(ctx context.Context, s *Step, scheduler string) error {
	api := d.Client.CoreV1().Pods(namespace)
	if _, err := api.Create(ctx, s.Pod.object(scheduler), metav1.CreateOptions{}); err != nil {
		return err
	}
	switch {
	case s.Ends == "":
	case s.Hasty:
		d.hasty[s.Ends] = !d.ran[s.Ends]
		if err := d.end(ctx, s.Ends); err != nil {
			return err
		}
	default:
		d.due[s.Ends] = true
	}
	switch {
	case s.Kill == KillMidway:
		claims := func(pod string) bool { p := d.plan[pod]; return p != nil && len(p.Claims) > 0 }
		d.hook.Store(&hook{bindingOf(claims), func() bool { d.scheduler.Kill(); return false }})
	case s.Kill == KillNow:
		if err := d.scheduler.Restart(); err != nil {
			return err
		}
	case s.Kill == KillKubelet:
		d.broken[s.Node] = true
	}
	return d.pass(ctx, s.Then)
}

// pass checks repeatedly for a while.
func (d *driver) pass(ctx context.Context, how time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, how)
	defer cancel()
	var err error
	trial.Until(ctx, tick, func() bool { err = d.tick(context.WithoutCancel(ctx)); return err != nil })
	return err
}

// tick checks once, and acts as a user's controllers would.
func (d *driver) tick(ctx context.Context) error {
	if err := errors.Join(d.scheduler.Keep(), d.Ended(), d.look(ctx)); err != nil {
		return err
	}
	for i := range d.pods {
		name := d.pods[i].Name
		if wire.Refused(&d.pods[i]) || d.due[name] && (d.ran[name] || !d.serves(name)) {
			delete(d.due, name)
			if err := d.end(ctx, name); err != nil {
				return err
			}
		}
	}
	return d.breakKubelets()
}

// serves reports whether the scheduler can promise what the pod asks.
func (d *driver) serves(pod string) bool {
	p := d.plan[pod]
	return p != nil && (d.which == stock || p.served() == always)
}

// breakKubelets kills the kubelets in broken and starts them again. It waits for a moment at which
// no pod starts or ends, because a kubelet that is killed between two writes of its checkpoints may
// not start again.
func (d *driver) breakKubelets() error {
	for node := range d.broken {
		mine := slices.DeleteFunc(slices.Clone(d.pods), func(pod corev1.Pod) bool { return pod.Spec.NodeName != node })
		if slices.ContainsFunc(mine, func(pod corev1.Pod) bool {
			return pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil
		}) {
			continue
		}
		delete(d.broken, node)
		d.kubelets++
		for i := range mine {
			delete(d.judged, mine[i].UID) // judged again: it must have the same resources afterwards
		}
		if err := d.RestartNode(node); err != nil {
			return err
		}
		d.restarted[node] = time.Now()
	}
	return nil
}

func (d *driver) end(ctx context.Context, pod string) error {
	err := d.Client.CoreV1().Pods(namespace).Delete(ctx, pod, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil // the kubelet had refused the pod
	}
	return err
}

// drain deletes running pods to make room, until no pod waits that could ever run.
func (d *driver) drain(ctx context.Context) error {
	for range trial.Every(ctx, tick) {
		if err := d.tick(ctx); err != nil {
			return err
		}
		var running, waiting []string
		for i := range d.pods {
			pod := &d.pods[i]
			switch {
			case pod.DeletionTimestamp != nil:
			case pod.Status.Phase == corev1.PodRunning:
				running = append(running, pod.Name)
			case !d.serves(pod.Name):
			default:
				waiting = append(waiting, pod.Name)
			}
		}
		quiet := time.Since(d.changed)
		switch {
		case len(waiting) == 0:
			return nil
		case len(running) > 0 && quiet > calm:
			if err := d.end(ctx, running[0]); err != nil {
				return err
			}
			d.changed = time.Now()
		case len(running) == 0 && quiet > idle:
			d.starved = waiting
			return nil
		}
	}
	return ctx.Err()
}

// clean deletes all pods and waits until nothing is left of them.
func (d *driver) clean(ctx context.Context) error {
	for i := range d.pods {
		pod := &d.pods[i]
		d.stays = append(d.stays, pod.Name)
		if slices.Contains(d.starved, pod.Name) {
			fmt.Fprintf(d.out, "%s never ran: %s\n", pod.Name, wire.Unscheduled(pod).Message)
		}
	}
	if err := d.Client.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	var err error
	var left []string
	trial.Until(limited, tick, func() bool {
		if err = d.tick(ctx); err == nil {
			left, err = d.leftover(ctx)
		}
		return err != nil || len(left) == 0
	})
	d.left = append(d.left, left...)
	return err
}

// leftover lists the remains after all pods have been deleted.
func (d *driver) leftover(ctx context.Context) (left []string, err error) {
	for i := range d.pods {
		left = append(left, "pod "+d.pods[i].Name)
	}
	claims, err := d.Client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range claims.Items {
		if c := &claims.Items[i]; len(c.OwnerReferences) > 0 || c.Status.Allocation != nil || len(c.Status.ReservedFor) > 0 {
			left = append(left, fmt.Sprintf("claim %s, allocated: %t", c.Name, c.Status.Allocation != nil))
		}
	}
	for of, driver := range d.drivers {
		for claim, devices := range driver.Prepared() {
			left = append(left, fmt.Sprintf("%v of %v, prepared for claim %s", devices, of, claim))
		}
	}
	for _, node := range obeyingNodes() {
		dir, err := d.dir(node)
		if err != nil {
			return nil, err
		}
		for _, g := range obeyed.ReadCgroups(dir.Cgroups()) {
			left = append(left, fmt.Sprintf("container %s of pod %s on %s", g.Container, g.UID, node))
		}
	}
	for node := range d.machines {
		entries, err := d.held(node, d.pods)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			left = append(left, fmt.Sprintf("CPUs %v of %s for pod %s", e.cpus, node, e.uid))
		}
	}
	if d.which == berth {
		gauges, err := scrape.Scheduler(d.scheduler.Port)
		if err != nil {
			return append(left, err.Error()), nil // the scheduler is still starting
		}
		if held := scrape.Left(gauges, scrape.Held...); held != "" {
			left = append(left, held)
		}
	}
	return left, nil
}

// tell adds the run to the result, and reports whether it had failures.
func (d *driver) tell(r *result) bool {
	fmt.Fprintf(d.out, "%s: %d of %d pods ran, %d were refused by kubelets, %d were misaligned, and %d with the mode near, %d neutral, %d steered, %d refused by name; %d ended before they ran; the scheduler was killed %d times, kubelets %d times; %.0fs\n",
		d.which, len(d.ran), len(d.observer.plan), len(d.refused), len(d.misaligned), len(d.strayed), len(d.neutral), len(d.steered), len(d.named), count(d.hasty), d.restarts, d.kubelets, time.Since(d.begun).Seconds())
	twice, wrong := slices.Sorted(maps.Keys(d.twice)), slices.Sorted(maps.Keys(d.wrong))
	for name := range d.observer.plan {
		if d.serves(name) && !d.ran[name] && !d.hasty[name] && d.refused[name] == "" {
			wrong = append(wrong, "pod "+name+" never ran")
		}
	}
	slices.Sort(wrong)
	if d.which == stock {
		r.StockMisaligned = len(d.misaligned) + len(d.strayed)
		return d.complain("held twice", twice) || d.complain("wrong", wrong) || d.complain("left", d.left)
	}
	r.Running, r.SteeredElsewhere, r.Neutral, r.RefusedByName = len(d.ran), len(d.steered), len(d.neutral), len(d.named)
	r.Misaligned, r.KubeletRefused, r.HeldTwice, r.Leftover = len(d.misaligned), len(d.refused), len(twice), len(d.left)
	for _, p := range d.observer.plan {
		switch ran := d.ran[p.Name]; {
		case p.served() == never && ran:
			wrong = append(wrong, "pod "+p.Name+" ran with a claim for administrators, of which nothing can be promised")
		case p.served() != always && !ran && d.named[p.Name] == "" && slices.Contains(d.stays, p.Name):
			wrong = append(wrong, "pod "+p.Name+" asks for what Berth cannot promise, and no message names its claim or a device")
		}
	}
	bad := false
	for what, all := range map[string][]string{"held twice": twice, "wrong": wrong, "left": d.left, "misaligned": values(d.misaligned), "refused by its kubelet": values(d.refused)} {
		bad = d.complain(what, all) || bad
	}
	return bad
}

func count(set map[string]bool) (n int) {
	for _, is := range set {
		if is {
			n++
		}
	}
	return n
}

func values(m map[string]string) (all []string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, m[k])
	}
	return all
}

// complain prints failures, and reports whether there are any.
func (d *driver) complain(what string, all []string) bool {
	if len(all) > 0 {
		fmt.Fprintf(d.out, "%s: %s:\n  %s\n", d.which, what, strings.Join(all, "\n  "))
	}
	return len(all) > 0
}
