package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/test/scrape"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/topology"
)

const (
	// tick is the interval of the driver's steps.
	tick = 100 * time.Millisecond
	// showEvery is the interval of progress messages.
	showEvery = 10 * time.Second
	// idle is how long the cluster may be unchanged while a gang that fits waits, after all gangs
	// have come. A gang that did not fit is tried again after at most 30 s (package gang), and a
	// new leader waits for at most a minute.
	idle = 2 * time.Minute
	// endLimit is how long remains of deleted objects may exist.
	endLimit = time.Minute
)

// driver carries a plan out.
type driver struct {
	*cluster
	*observer
	out   io.Writer
	each  bool
	plan  Plan
	begun time.Time

	actors   []*actor
	singles  map[types.UID]*single
	restarts int
	mender   *mender
	next     struct{ gang, single, restart int }
	shown    time.Time

	killing sync.Mutex
	kills   map[string]*killing // by gang
}

// actor has the state of a gang in the plan.
type actor struct {
	*watched
	slots []slot
	pods  int // created so far
	acted bool
	ended bool // its deletion was requested
	done  bool
}

// slot is a member's place in the gang; a later pod may replace the first pod.
type slot struct {
	member Member
	uid    types.UID
}

// killing is the progress of a Kill: the scheduler is killed between two Bindings of a gang.
type killing struct {
	Kill
	count int
	done  bool
}

type single struct {
	*Single
	runs time.Time
}

// play starts the cluster and carries the plan out.
func play(ctx context.Context, o *options, out io.Writer) error {
	plan := NewPlan(o.seed, o.gangs)
	fmt.Fprintf(out, "seed %d: %d gangs and %d single pods on %d nodes; SEED=%d replays the plan\n", o.seed, o.gangs, len(plan.Singles), len(kinds), o.seed)
	return trial.With(ctx, out, func(ctx context.Context) (*cluster, error) { return startCluster(ctx, o) }, func(c *cluster) error {
		if o.keep {
			fmt.Fprintln(out, "logs are kept in", c.Dir())
		}
		return newDriver(c, o, plan, out).play(ctx)
	})
}

func newDriver(c *cluster, o *options, plan Plan, out io.Writer) *driver {
	d := &driver{cluster: c, out: out, each: o.each, plan: plan, singles: map[types.UID]*single{}, kills: map[string]*killing{}}
	d.observer = newObserver(out, d.mispredicted)
	d.mender = &mender{cluster: c, out: out, startAgain: d.startAgain, unproved: map[string]time.Time{}}
	d.result.Seed, d.result.Gangs = o.seed, o.gangs
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = d.killsBefore
	return d
}

// play carries the plan out and returns the result.
func (d *driver) play(ctx context.Context) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := d.observer.start(watching, d.Client); err != nil {
		return err
	}
	if err := d.drive(ctx); err != nil {
		return errors.Join(err, d.last())
	}
	if err := d.finish(ctx); err != nil {
		return err
	}
	return d.last()
}

// last prints the last line.
func (d *driver) last() error {
	d.observer.mu.Lock()
	defer d.observer.mu.Unlock()
	fits := 0
	for i := range d.plan.Gangs {
		if !d.plan.Gangs[i].TooLarge {
			fits++
		}
	}
	fmt.Fprintf(d.out, "the standby replica saw %d pieces of its watches up to %v late, with a clock %v ahead\n", d.standby.view.Held(), standbyLate, standbyAhead)
	fmt.Fprintf(d.out, "%d of %d gangs that fit were whole, %d schedulers were killed between two Bindings, %d kubelets restarted and %d of them mended, %d pods evicted; %d exact placements held, %d were excused by a restart, %d by a pod that left\n",
		d.result.Whole, fits, d.scheduler.Restarts(), d.restarts, d.mender.mended, d.evicted, d.exact, d.excused, d.overtaken)
	if err := json.NewEncoder(d.out).Encode(d.result); err != nil {
		return err
	}
	if d.wrong > 0 || !d.result.clean() || d.result.Whole < fits {
		return errWrong
	}
	return nil
}

// mispredicted reads the checkpoints of the pod's node. It returns the pod's CPUs, and a
// description of wrong predictions.
func (d *driver) mispredicted(pod *corev1.Pod) (held topology.CPUSet, wrong string, err error) {
	node, err := d.Node(pod.Spec.NodeName)
	if err != nil {
		return held, "", err
	}
	of := &hollow.Process{Dir: node.Dir}
	if held, err = demo.Held(of, pod); err != nil {
		return held, "", err
	}
	wrong, err = demo.Mispredicted(of, pod)
	if wrong != "" {
		d.evidence(node.Dir, pod)
	}
	return held, wrong, err
}

// evidence saves the checkpoints of a pod's node. The flag -keep keeps them.
func (d *driver) evidence(dir hollow.Dir, pod *corev1.Pod) {
	ctx, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
	dump := map[string]any{"at": time.Now(), "pod": pod}
	if state, err := os.ReadFile(dir.Checkpoint(kubeletstate.CPUFile)); err == nil {
		dump["state"] = json.RawMessage(state)
	}
	if report, err := d.Objects.Resource(v1alpha1.NodeTopologies).Get(ctx, pod.Spec.NodeName, metav1.GetOptions{}); err == nil {
		dump["report"] = report.Object
	}
	if list, err := d.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + pod.Spec.NodeName}); err == nil {
		dump["pods"] = list.Items
	}
	text, err := json.MarshalIndent(dump, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(d.Dir(), "wrong-"+pod.Name+".json"), text, 0o600)
	}
	if err != nil {
		fmt.Fprintln(d.out, "no evidence was written:", err)
	}
}

// killsBefore implements cluster.before.
func (d *driver) killsBefore(pod string) (kill, arrives bool) {
	_, name, _ := strings.Cut(pod, "/")
	name, _, _ = strings.Cut(name, "-")
	d.killing.Lock()
	defer d.killing.Unlock()
	k := d.kills[name]
	if k == nil || k.done {
		return false, false
	}
	k.count++
	k.done = k.count > k.After
	return k.done, k.Arrives
}

// drive runs the plan until all its objects are gone or the cluster no longer changes. The last
// gang that is too large stays.
func (d *driver) drive(ctx context.Context) error {
	d.begun, d.progress = time.Now(), time.Now()
	for range trial.Every(ctx, tick) {
		left, err := d.tick(ctx)
		if err != nil {
			return err
		}
		d.show(false)
		if d.next.gang == len(d.plan.Gangs) && (left == 0 || d.stuck()) {
			d.show(true)
			return nil
		}
	}
	return ctx.Err()
}

// tick carries out all due actions, and returns how many gangs and single pods are left.
func (d *driver) tick(ctx context.Context) (left int, err error) {
	if err := errors.Join(d.scheduler.Keep(), d.standby.standsBy()); err != nil {
		return 0, err
	}
	d.late(d.scheduler.Since())
	if err := d.come(ctx); err != nil {
		return 0, err
	}
	if err := d.mender.mend(ctx); err != nil {
		return 0, err
	}
	return d.act(ctx)
}

// stuck reports whether the cluster no longer changes, and counts the gangs that have not run.
func (d *driver) stuck() bool {
	d.observer.mu.Lock()
	defer d.observer.mu.Unlock()
	if time.Since(d.progress) < idle {
		return false
	}
	for _, a := range d.actors {
		if !a.TooLarge && a.whole.IsZero() {
			d.result.Deadlocks++
			d.complain("gang %s fits, and has not run", a.Name)
		}
	}
	return true
}

// come creates all objects that are due.
func (d *driver) come(ctx context.Context) error {
	now := time.Since(d.begun)
	for ; d.next.gang < len(d.plan.Gangs) && d.plan.Gangs[d.next.gang].At <= now; d.next.gang++ {
		if err := d.make(ctx, &d.plan.Gangs[d.next.gang]); err != nil {
			return err
		}
	}
	for ; d.next.single < len(d.plan.Singles) && d.plan.Singles[d.next.single].At <= now; d.next.single++ {
		s := &d.plan.Singles[d.next.single]
		pod, err := d.Client.CoreV1().Pods(namespace).Create(ctx, s.Member.pod(s.Name), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		d.singles[pod.UID] = &single{Single: s}
	}
	for ; d.next.restart < len(d.plan.Restarts) && d.plan.Restarts[d.next.restart].At <= now; d.next.restart++ {
		if err := d.restart(d.plan.Restarts[d.next.restart].Node); err != nil {
			return err
		}
	}
	return nil
}

// restart kills a kubelet and starts it again.
func (d *driver) restart(node int) error {
	d.restarts++
	return d.startAgain(d.Nodes[node].Name)
}

// startAgain ends a node's kubelet and starts it.
func (d *driver) startAgain(name string) error {
	mark := func() {
		d.observer.mu.Lock()
		defer d.observer.mu.Unlock()
		d.restarted[name] = time.Now()
	}
	mark()
	defer mark()
	d.mender.expect(name)
	return d.RestartNode(name)
}

// make creates a gang: its object, and all pods.
func (d *driver) make(ctx context.Context, g *Gang) error {
	a := &actor{watched: &watched{Gang: g, made: time.Now()}}
	d.observer.mu.Lock()
	d.gangs[g.Name] = a.watched
	d.observer.mu.Unlock()
	if g.Kill.After > 0 {
		d.killing.Lock()
		d.kills[g.Name] = &killing{Kill: g.Kill}
		d.killing.Unlock()
	}
	d.actors = append(d.actors, a)
	if !g.ObjectLast {
		if err := d.declare(ctx, g); err != nil {
			return err
		}
	}
	for _, m := range g.Members {
		if err := d.add(ctx, a, m); err != nil {
			return err
		}
	}
	if g.ObjectLast {
		return d.declare(ctx, g)
	}
	return nil
}

func (d *driver) declare(ctx context.Context, g *Gang) error {
	object, where := g.object()
	if object == nil {
		return nil
	}
	_, err := d.Objects.Resource(where).Namespace(namespace).Create(ctx, object, metav1.CreateOptions{})
	return err
}

// add creates a pod for a new slot of the gang.
func (d *driver) add(ctx context.Context, a *actor, m Member) error {
	a.slots = append(a.slots, slot{member: m})
	return d.fill(ctx, a, &a.slots[len(a.slots)-1])
}

// fill creates a pod for a slot.
func (d *driver) fill(ctx context.Context, a *actor, s *slot) error {
	pod, err := d.Client.CoreV1().Pods(namespace).Create(ctx, a.member(&s.member, fmt.Sprintf("%s-%03d", a.Name, a.pods)), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	a.pods++
	s.uid = pod.UID
	return nil
}

// act carries out the due actions on gangs and single pods, and returns how many are left.
func (d *driver) act(ctx context.Context) (left int, err error) {
	for _, a := range d.actors {
		if a.done {
			continue
		}
		if err := d.step(ctx, a); err != nil {
			return 0, err
		}
		if !a.done && !d.isProbe(a) {
			left++
		}
	}
	for uid, s := range d.singles {
		if gone, err := d.stepSingle(ctx, uid, s); err != nil {
			return 0, err
		} else if gone {
			delete(d.singles, uid)
		}
	}
	return left + len(d.singles), nil
}

// isProbe reports whether the gang is the last one that is too large. It stays until all other
// gangs are gone. This shows that it holds no resources.
func (d *driver) isProbe(a *actor) bool {
	if !a.TooLarge {
		return false
	}
	for i := len(d.plan.Gangs) - 1; i >= 0; i-- {
		if d.plan.Gangs[i].TooLarge {
			return &d.plan.Gangs[i] == a.Gang
		}
	}
	return false
}

// step carries out the due actions on a gang.
func (d *driver) step(ctx context.Context, a *actor) error {
	d.observer.mu.Lock()
	whole, evicted := a.whole, a.evicted
	_, _, alive := d.tally(a.watched)
	d.observer.mu.Unlock()
	since := time.Since(whole)
	switch {
	case a.ended:
		a.done = len(alive) == 0 && d.isGone(a)
		return nil
	case a.TooLarge:
		if time.Since(a.made) > a.Stays && !d.isProbe(a) {
			return d.end(ctx, a)
		}
		return nil
	case whole.IsZero():
		return d.replace(ctx, a)
	case evicted, a.acted && since > a.Stays:
		if d.each {
			fmt.Fprintf(d.out, "gang %s: %d of %d members, whole after %.1fs\n", a.Name, a.Minimum, len(a.Members), whole.Sub(a.made).Seconds())
		}
		return d.end(ctx, a)
	case !a.acted:
		a.acted = true
		return d.meddle(ctx, a, alive)
	}
	return nil
}

// meddle adds members to a complete gang, or deletes one of its members.
func (d *driver) meddle(ctx context.Context, a *actor, alive []*corev1.Pod) error {
	for _, m := range a.More {
		if err := d.add(ctx, a, m); err != nil {
			return err
		}
	}
	if !a.Loses {
		return nil
	}
	for i := range a.slots {
		s := &a.slots[i]
		if !slices.ContainsFunc(alive, func(p *corev1.Pod) bool { return p.UID == s.uid && p.Spec.NodeName != "" }) {
			continue
		}
		if err := d.remove(ctx, s.uid); err != nil {
			return err
		}
		return d.fill(ctx, a, s)
	}
	return nil
}

// replace creates missing pods of an incomplete gang again, as a controller would.
func (d *driver) replace(ctx context.Context, a *actor) error {
	for i := range a.slots {
		s := &a.slots[i]
		d.observer.mu.Lock()
		gone, seen := d.ended[s.uid], d.pods[s.uid]
		failed := seen != nil && seen.pod.Status.Phase == corev1.PodFailed && !seen.leaving
		d.observer.mu.Unlock()
		if failed {
			if err := d.remove(ctx, s.uid); err != nil {
				return err
			}
		}
		if gone || failed {
			if err := d.fill(ctx, a, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove deletes a pod.
func (d *driver) remove(ctx context.Context, uid types.UID) error {
	d.observer.mu.Lock()
	s := d.pods[uid]
	if s != nil {
		s.leaving = true
	}
	d.observer.mu.Unlock()
	if s == nil {
		return nil
	}
	err := d.Client.CoreV1().Pods(namespace).Delete(ctx, s.pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(uid))})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// end deletes a gang.
func (d *driver) end(ctx context.Context, a *actor) error {
	a.ended = true
	d.observer.mu.Lock()
	for _, s := range d.pods {
		if s.pod.Labels[gangLabel] == a.Name {
			s.leaving = true
		}
	}
	d.observer.mu.Unlock()
	err := d.Client.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: gangLabel + "=" + a.Name})
	object, where := a.object()
	if err != nil || object == nil {
		return err
	}
	if err = d.Objects.Resource(where).Namespace(namespace).Delete(ctx, a.Name, metav1.DeleteOptions{}); apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// isGone reports whether all pods that were created for the gang are gone.
func (d *driver) isGone(a *actor) bool {
	d.observer.mu.Lock()
	defer d.observer.mu.Unlock()
	for i := range a.slots {
		if uid := a.slots[i].uid; !d.observer.ended[uid] {
			if s := d.pods[uid]; s != nil {
				s.leaving = true // it was first seen after the request to delete it
			}
			return false
		}
	}
	return true
}

// stepSingle carries out the due actions on a single pod, and reports whether the pod is gone.
func (d *driver) stepSingle(ctx context.Context, uid types.UID, s *single) (gone bool, err error) {
	d.observer.mu.Lock()
	gone = d.ended[uid]
	seen := d.pods[uid]
	over := seen != nil && (seen.pod.Status.Phase == corev1.PodRunning || seen.pod.Status.Phase == corev1.PodFailed) && !seen.leaving
	d.observer.mu.Unlock()
	switch {
	case gone || !over:
		return gone, nil
	case s.runs.IsZero():
		s.runs = time.Now()
	case time.Since(s.runs) > s.Stays:
		return false, d.remove(ctx, uid)
	}
	return false, nil
}

// show prints the current state.
func (d *driver) show(now bool) {
	if !now && time.Since(d.shown) < showEvery {
		return
	}
	d.shown = time.Now()
	d.observer.mu.Lock()
	defer d.observer.mu.Unlock()
	bound, waiting := 0, 0
	for _, s := range d.pods {
		if s.pod.Spec.NodeName != "" {
			bound++
		}
	}
	for _, a := range d.actors {
		if a.whole.IsZero() && !a.ended {
			waiting++
		}
	}
	fmt.Fprintf(d.out, "%4.0fs  gangs %d  whole %d  waiting %d  pods %d  bound %d  kills %d  wrong %d\n",
		time.Since(d.begun).Seconds(), len(d.actors), d.result.Whole, waiting, len(d.pods), bound, d.scheduler.Restarts(), d.wrong)
}

// finish checks that a gang that does not fit holds nothing, and that deleted gangs leave nothing.
func (d *driver) finish(ctx context.Context) error {
	for _, a := range d.actors {
		if !d.isProbe(a) || a.ended {
			continue
		}
		if left := d.until(ctx, func() string { return d.held(scrape.Held[:2]...) }); left != "" {
			d.wrongly("gang %s, which does not fit, waits alone, and %s", a.Name, left)
		}
		if err := d.end(ctx, a); err != nil {
			return err
		}
	}
	if left := d.until(ctx, func() string { return d.leftover(ctx) }); left != "" {
		d.wrongly("everything is gone, and %s", left)
		d.observer.mu.Lock()
		d.result.Leftover++
		d.observer.mu.Unlock()
	}
	return ctx.Err()
}

func (d *driver) wrongly(format string, args ...any) {
	d.observer.mu.Lock()
	defer d.observer.mu.Unlock()
	d.complain(format, args...)
}

// until repeats ask until it returns "", and returns the last text.
func (d *driver) until(ctx context.Context, ask func() string) (last string) {
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	trial.Until(ctx, tick, func() bool {
		err := d.scheduler.Keep()
		if err != nil {
			last = err.Error()
		} else {
			last = ask()
		}
		return err != nil || last == ""
	})
	return last
}

// held describes the resources that the scheduler still counts as used.
func (d *driver) held(gauges ...string) string {
	m, err := scrape.Scheduler(d.scheduler.Port)
	if err != nil {
		return err.Error()
	}
	return scrape.Left(m, gauges...)
}

// leftover describes the remains; "" for none.
func (d *driver) leftover(ctx context.Context) string {
	pods, err := d.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	if n := len(pods.Items); n > 0 {
		return fmt.Sprintf("%d pods are left, %s among them", n, pods.Items[0].Name)
	}
	for _, where := range []schema.GroupVersionResource{volcano.PodGroups, sigs.PodGroups} {
		list, err := d.Objects.Resource(where).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		if n := len(list.Items); n > 0 {
			return fmt.Sprintf("%d groups are left, %s among them", n, list.Items[0].GetName())
		}
	}
	return d.held(scrape.Held...)
}
