package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/test/obeyed"
	"github.com/berth-dev/berth/test/scrape"
	"github.com/berth-dev/berth/test/tenant"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/test/usage"
)

const (
	// hands is the number of the tenant's concurrent requests, perSecond their rate.
	hands, perSecond = 6, 60
	// late is the largest delay of the watches of a replica that does not lead: longer than gangs
	// wait.
	late = 90 * time.Second
	// wrongBy is how far the clock of one replica is ahead.
	wrongBy = 7 * time.Minute
	// showEvery is the interval of progress messages.
	showEvery = 10 * time.Second
	// goneLimit is how long the deletion of the tenant's objects may take. sweptLimit is how long
	// remains of a deleted object may exist; sweeps run once a minute.
	goneLimit, sweptLimit = 5 * time.Minute, 4 * time.Minute
	// nodesByName is the path of the names of nodes in a scheduler, including nodes that pods have
	// invented; nameOfNode is the path of each node's own name. The sweep forgets invented nodes
	// after 10 to 20 minutes (test/repo/README.md, "What is remembered"). No run waits that long,
	// so such nodes are counted and shown. The pods on these nodes are not excused.
	nodesByName, nameOfNode = ".core.table.byName[]", ".core.table.byName[].name"
	// heapBound is how much the heap of a process may have grown after the tenant is gone, in
	// bytes.
	heapBound = 48 * mib
	// slowest is the largest allowed ratio of placement times with and without the tenant, at the
	// 99th percentile.
	slowest = 2
)

// result is the last line.
type result struct {
	Seed     uint64 `json:"seed"`
	Attempts int    `json:"attempts"`
	Accepted int    `json:"accepted"`
	// Kinds are the attempts by kind of harm.
	Kinds map[string]int `json:"kinds"`
	// Friendly is how many units of the friendly load were placed while the tenant was active.
	Friendly int `json:"friendly"`
	// Killed are friendly pods that did not live until their owner deleted them.
	Killed int `json:"killed"`
	// NodesLost is how often a node became Ready=False.
	NodesLost int `json:"nodesLost"`
	// OverQuota is how often the tenant kept more CPUs from others than its quota.
	OverQuota int `json:"overQuota"`
	// Stuck is the number of units of the friendly load that were not placed.
	Stuck int `json:"stuck"`
	// Leftover is the number of remains of the tenant after all its objects were deleted.
	Leftover int `json:"leftover"`
	// Slower is the ratio of the friendly load's placement times with and without the tenant, at
	// the 99th percentile. SlowerByHarm compares with equally many harmless requests instead.
	Slower       float64 `json:"slower"`
	SlowerByHarm float64 `json:"slowerByHarm"`
	// MaxRSSMiB is the largest resident set of scheduler, agents and controller.
	MaxRSSMiB int64 `json:"maxRSSMiB"`
}

// wrong describes failures of the result; short means that the run was shortened on purpose.
func (r *result) wrong(short bool) (why []string) {
	not := func(is bool, format string, args ...any) {
		if is {
			why = append(why, fmt.Sprintf(format, args...))
		}
	}
	for what, n := range map[string]int{"killed": r.Killed, "nodesLost": r.NodesLost, "overQuota": r.OverQuota, "stuck": r.Stuck, "leftover": r.Leftover} {
		not(n != 0, "%s is %d", what, n)
	}
	not(r.MaxRSSMiB*mib > schedulerBound, "maxRSSMiB is %d: want at most %d", r.MaxRSSMiB, schedulerBound/mib)
	if !short {
		not(r.Slower > slowest, "slower is %.2f: want at most %d", r.Slower, slowest)
		not(r.Attempts < 20000, "attempts are %d: want 20000", r.Attempts)
		not(r.Accepted*4 < r.Attempts, "accepted are %d: want a quarter of %d", r.Accepted, r.Attempts)
		not(r.Friendly < 500, "friendly is %d: want 500", r.Friendly)
		for kind, n := range r.Kinds {
			not(n == 0, "no harm of kind %s was tried", kind)
		}
	}
	slices.Sort(why)
	return why
}

// driver runs the tenant.
type driver struct {
	*cluster
	*watcher
	o        *options
	friendly *friendly
	foe      *tenant.Tenant
	result   result
	begun    time.Time
	shown    time.Time
	stopped  []string // parts that have ended by themselves
	// unswept is the number of missing nodes that a scheduler still knows.
	unswept int
}

// play starts the cluster and runs the trial.
func play(ctx context.Context, o *options, out io.Writer) error {
	fmt.Fprintf(out, "seed %d: %v of friendly load, the same time with harmless requests, then %d attempts; SEED=%d repeats the acts, not their timing\n", o.seed, o.calm, o.attempts, o.seed)
	by, err := newDeletions(o.dir)
	if err != nil {
		return err
	}
	if !o.keep {
		defer os.RemoveAll(string(by))
	}
	return trial.With(ctx, out, func(ctx context.Context) (*cluster, error) { return startCluster(ctx, o, by) }, func(c *cluster) error {
		if o.keep {
			fmt.Fprintf(out, "logs are in %s, deletions of pods in %s\n", c.Dir(), by)
		}
		return playOn(ctx, c, o, out)
	})
}

// playOn runs the tenant and the friendly load on a cluster and prints the result.
func playOn(ctx context.Context, c *cluster, o *options, out io.Writer) error {
	w, err := newWatcher(out)
	if err != nil {
		return err
	}
	foe, err := tenant.New(tenant.Options{Config: c.foe, Nodes: nodeNames(), Lanes: lanes, Others: friends, Hands: hands, PerSecond: perSecond, Pods: w.foePods})
	if err != nil {
		return err
	}
	owner, err := c.owner()
	if err != nil {
		return err
	}
	load := &friendly{cluster: c, watcher: w, clients: owner}
	d := &driver{cluster: c, watcher: w, o: o, foe: foe, friendly: load, result: result{Seed: o.seed}, begun: time.Now()}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := w.start(watching, c); err != nil {
		return err
	}
	if err := errors.Join(d.drive(ctx), w.accuse(c.deletions)); err != nil {
		return err
	}
	return d.last()
}

// drive runs the friendly load three times: without the tenant, with harmless requests of the
// tenant, and with its attacks. It deletes everything and checks what remains.
func (d *driver) drive(ctx context.Context) error {
	if err := d.unsettle(late, wrongBy); err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, lanes)
	var load sync.WaitGroup
	for n := range lanes {
		load.Go(func() { failed <- d.friendly.lane(working, n, rand.New(rand.NewPCG(d.o.seed, uint64(n)))) })
	}
	if err := d.calm(ctx, failed); err != nil {
		return err
	}
	alone := d.tell("alone")
	if err := d.baseline(ctx); err != nil {
		return err
	}
	if err := d.toil(ctx, failed); err != nil {
		return err
	}
	harmless := d.tell("with harmless requests")
	if err := d.attack(ctx, failed); err != nil {
		return err
	}
	stop()
	load.Wait()
	beside := d.tell("with the tenant")
	p99 := percentile(beside, 99)
	d.result.Friendly, d.result.Slower, d.result.SlowerByHarm = len(beside), ratio(p99, percentile(alone, 99)), ratio(p99, percentile(harmless, 99))
	if d.o.until != "" && d.harms().of(d.o.until) > 0 {
		return nil // the expected fault was found
	}
	return d.clean(ctx)
}

// calm lets the friendly load run for a while.
func (d *driver) calm(ctx context.Context, failed chan error) error {
	begun := time.Now()
	return d.watchUntil(ctx, failed, func() bool { return time.Since(begun) > d.o.calm })
}

// toil lets the tenant send harmless requests for the same time.
func (d *driver) toil(ctx context.Context, failed chan error) error {
	toiling, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() { defer close(done); d.foe.Toil(toiling, d.o.seed) }()
	err := d.calm(ctx, failed)
	stop()
	<-done
	return err
}

// tell ends a phase of the friendly load and prints its result. It prints the placement times and
// what the slowest units waited for.
func (d *driver) tell(phase string) []time.Duration {
	took, slowest := d.friendly.phase()
	var all []time.Duration
	for _, kind := range slices.Sorted(maps.Keys(took)) {
		all = append(all, took[kind]...)
		fmt.Fprintf(d.out, "   %s: %d placed, p50 %v, p90 %v, p99 %v\n", kind, len(took[kind]), percentile(took[kind], 50), percentile(took[kind], 90), percentile(took[kind], 99))
	}
	fmt.Fprintf(d.out, "%s: %d placed, p50 %v, p90 %v, p99 %v\n", phase, len(all), percentile(all, 50), percentile(all, 90), percentile(all, 99))
	for _, w := range slowest {
		fmt.Fprintf(d.out, "   waited %v: %s\n", w.took.Round(time.Millisecond), w.what)
	}
	return all
}

// attack lets the tenant act until it has made enough requests.
func (d *driver) attack(ctx context.Context, failed chan error) error {
	harming, stop := context.WithTimeout(ctx, d.o.limit)
	defer stop()
	done := make(chan struct{})
	go func() { defer close(done); d.foe.Harm(harming, d.o.seed) }()
	err := d.watchUntil(ctx, failed, func() bool {
		enough := d.foe.Counts().Attempts >= d.o.attempts && d.friendly.placed() >= d.o.friendly
		return enough || harming.Err() != nil || d.o.until != "" && d.harms().of(d.o.until) > 0
	})
	stop()
	<-done
	c := d.foe.Counts()
	d.result.Attempts, d.result.Accepted, d.result.Kinds = c.Attempts, c.Accepted, c.Kinds
	fmt.Fprintf(d.out, "the tenant sent %d requests in %v: %d were accepted; refused, by reason: %v\n", d.result.Attempts, time.Since(d.begun).Round(time.Second), c.Accepted, c.Refused)
	return err
}

// watchUntil keeps everything running until done.
func (d *driver) watchUntil(ctx context.Context, failed chan error, done func() bool) error {
	clock := time.NewTicker(200 * time.Millisecond)
	defer clock.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return fmt.Errorf("the friendly load: %w", err)
		case <-clock.C:
		}
		ended, err := d.keep()
		if err != nil {
			return err
		}
		for _, why := range ended {
			fmt.Fprintf(d.out, "ended by itself: %s\n", why)
		}
		d.stopped = append(d.stopped, ended...)
		d.show()
	}
	return nil
}

// show prints progress at every showEvery.
func (d *driver) show() {
	if time.Since(d.shown) < showEvery {
		return
	}
	d.shown = time.Now()
	c := d.foe.Counts()
	var rss []string
	for _, name := range slices.Sorted(maps.Keys(d.parts)) {
		if !strings.HasPrefix(name, "agent-") {
			rss = append(rss, fmt.Sprintf("%s %d", name, usage.Memory(d.parts[name].Process(), "VmRSS")/mib))
		}
	}
	fmt.Fprintf(d.out, "%4.0fs  attempts %d  accepted %d  friendly %d  foes %d  harm %+v  MiB %v\n",
		time.Since(d.begun).Seconds(), c.Attempts, c.Accepted, d.friendly.placed(), len(d.foePods()), d.harms(), rss)
}

// clean deletes all objects of the tenant, and checks until nothing of them is left.
func (d *driver) clean(ctx context.Context) error {
	if err := d.unsettle(0, wrongBy); err != nil {
		return err
	}
	if err := d.Client.CoreV1().Namespaces().Delete(ctx, tenant.Namespace, metav1.DeleteOptions{}); err != nil {
		return err
	}
	gone := time.Now().Add(goneLimit)
	for {
		_, err := d.Client.CoreV1().Namespaces().Get(ctx, tenant.Namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			break
		}
		if time.Now().After(gone) {
			return fmt.Errorf("the namespace %s is still there after %v", tenant.Namespace, goneLimit)
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
	fmt.Fprintln(d.out, "the tenant's objects are gone")
	return d.sweep(ctx)
}

// sweep waits until nothing of the tenant is left, and counts the remains.
func (d *driver) sweep(ctx context.Context) error {
	var left []string
	for end := time.Now().Add(sweptLimit); ; {
		var err error
		if left, err = d.left(ctx); err != nil {
			return err
		}
		if len(left) == 0 || time.Now().After(end) {
			break
		}
		if err := pause(ctx, 10*time.Second); err != nil {
			return err
		}
	}
	for _, what := range left {
		fmt.Fprintln(d.out, "LEFT", what)
	}
	d.result.Leftover = len(left)
	return nil
}

// left describes the remains of the tenant in schedulers, reports, cgroups and heaps.
func (d *driver) left(ctx context.Context) (left []string, err error) {
	marks := d.marks()
	d.unswept = 0
	for _, name := range slices.Sorted(maps.Keys(d.parts)) {
		p := d.parts[name]
		got, err := d.ask(ctx, p, marks)
		if err != nil {
			return nil, err
		}
		for _, place := range slices.Sorted(maps.Keys(got.Places)) {
			if place == nodesByName || place == nameOfNode {
				d.unswept = max(d.unswept, got.Places[place])
				continue
			}
			left = append(left, fmt.Sprintf("%s remembers the tenant in %s, %d times", name, place, got.Places[place]))
		}
		if p.Restarts() == 0 && got.Heap > p.heap+heapBound {
			left = append(left, fmt.Sprintf("%s has %d MiB of heap in use, and had %d before", name, got.Heap/mib, p.heap/mib))
		}
	}
	for _, name := range replicas {
		metrics, err := scrape.Scheduler(d.parts[name].Port)
		if err != nil {
			return nil, err
		}
		if what := scrape.Left(metrics, scrape.Held...); what != "" {
			left = append(left, name+": "+what)
		}
	}
	onNodes, err := d.leftOnNodes(ctx, marks)
	return append(left, onNodes...), err
}

// leftOnNodes describes the remains of the tenant in reports and cgroups.
func (d *driver) leftOnNodes(ctx context.Context, marks []string) (left []string, err error) {
	reports, err := d.Objects.Resource(v1alpha1.NodeTopologies).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	left = append(left, inReports(reports.Items, marks)...)
	for name := range d.machines {
		if n := len(obeyed.ReadCgroups(d.hollowDir(name).Cgroups())); n > 0 {
			left = append(left, fmt.Sprintf("node %s has %d containers", name, n))
		}
	}
	return left, nil
}

// baseline records the heap of each part before the tenant begins.
func (d *driver) baseline(ctx context.Context) error {
	for _, p := range d.parts {
		got, err := d.ask(ctx, p, nil)
		if err != nil {
			return err
		}
		p.heap = got.Heap
	}
	return nil
}

// ask makes a process search its memory for the marks, and reads the result.
func (d *driver) ask(ctx context.Context, p *part, marks []string) (out remembered, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := errors.Join(os.WriteFile(p.base+".marks", []byte(strings.Join(marks, "\n")), 0o600), os.RemoveAll(p.base+".remembered")); err != nil {
		return out, err
	}
	p.Process().Signal(syscall.SIGUSR1)
	text, err := trial.AwaitFile(ctx, p.Process(), p.base+".remembered")
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(text, &out)
}

// last prints the excuses and the last line.
func (d *driver) last() error {
	h := d.harms()
	d.result.Killed, d.result.NodesLost, d.result.OverQuota, d.result.Stuck = h.Killed, h.NodesLost, h.OverQuota, h.Stuck
	held := 0
	for _, v := range d.views {
		held += v.Held()
	}
	why := d.tooLarge()
	fmt.Fprintf(d.out, "excused: %d names of nodes that do not exist, which the sweep removes within 20 minutes\n", d.unswept)
	d.watcher.mu.Lock()
	fmt.Fprintf(d.out, "excused: %d friendly pods were refused because a pod of the tenant came first with the node's name; %d parts ended by themselves and were started again\n",
		d.contended, len(d.stopped))
	fmt.Fprintf(d.out, "%d pieces of watches were late, one clock was %v ahead; the tenant's pods kept at most %d CPUs from others, with a quota of %d\n", held, wrongBy, d.withheld, quotaCPUs)
	d.watcher.mu.Unlock()
	if why = append(why, d.result.wrong(d.o.until != "")...); len(why) > 0 {
		fmt.Fprintln(d.out, "wrong:", strings.Join(why, "; "))
	}
	if err := json.NewEncoder(d.out).Encode(d.result); err != nil {
		return err
	}
	if len(why) > 0 {
		return errHarmed
	}
	return nil
}

// percentile returns the smallest duration that at least n percent do not exceed; 0 for none.
func percentile(of []time.Duration, n int) time.Duration {
	if len(of) == 0 {
		return 0
	}
	all := slices.Sorted(slices.Values(of))
	return all[(len(all)*n+99)/100-1].Round(time.Millisecond)
}

// ratio divides two durations, with two digits.
func ratio(a, b time.Duration) float64 {
	if b <= 0 {
		return 0
	}
	return float64(int(100*a.Seconds()/b.Seconds()+0.5)) / 100
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// tooLarge records the largest part, and returns the parts above their memory limits.
func (d *driver) tooLarge() (why []string) {
	for name, p := range d.parts {
		d.result.MaxRSSMiB = max(d.result.MaxRSSMiB, p.peak/mib)
		if p.peak > p.bound {
			why = append(why, fmt.Sprintf("%s had %d MiB: want at most %d", name, p.peak/mib, p.bound/mib))
		}
	}
	return why
}
