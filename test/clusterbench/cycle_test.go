package main

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/dynamicinformer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/scheduler/command"
)

// nodesOfCycle is how many nodes BenchmarkCycle has.
const nodesOfCycle = 5000

// slice is how many pods are placed before any of them is bound. most is how many pods run at most
// in addition to the initial pods.
const (
	slice = 25
	most  = 8 * slice
)

// BenchmarkCycle measures the cost of a whole scheduling cycle, from the queue to the end of
// Reserve and Permit, with snapshot and all plugins. Berth with its defaults and the stock
// scheduler, which checks 500 of 5,000 nodes, run in turn in one process. The clock is the
// processor time of the process. Nothing else runs in the process meanwhile. Garbage is collected
// between the slices, and has its own column.
//
// Pods of a known shape have the shape of earlier pods. Pods of a new shape all have different
// shapes.
func BenchmarkCycle(b *testing.B) {
	inProfiles(b, nodesOfCycle, func(b *testing.B, pair [2]*cycles) {
		for _, load := range []string{"known", "new", loadOrdinary} {
			b.Run(load, func(b *testing.B) { compareCycles(b, pair, load) })
		}
	})
}

// inProfiles runs a benchmark with the chart's and with kube-scheduler's arguments of other
// plugins. run gets the stock scheduler and Berth, in this order, in worlds with that many nodes.
func inProfiles(b *testing.B, nodes int, run func(*testing.B, [2]*cycles)) {
	klog.SetLogger(klog.Logger{})
	for _, profile := range []string{profileChart, profileStock} {
		b.Run(profile, func(b *testing.B) {
			var pair [2]*cycles
			for i, who := range []contestant{stock, berth} {
				pair[i] = startCycles(b, cyclesOptions{who: who, world: newWorld(b, nodes, nil), chart: profile == profileChart})
			}
			run(b, pair)
		})
	}
}

// floors has the largest allowed ratio of Berth's cost to the stock scheduler's, by benchmark.
var floors = map[string]float64{
	"BenchmarkCycle/chart/known": 0.75, "BenchmarkCycle/chart/new": 0.9, "BenchmarkCycle/chart/ordinary": 1.03,
	"BenchmarkCycle/stock/known": 1.1, "BenchmarkCycle/stock/new": 1.1, "BenchmarkCycle/stock/ordinary": 1.03,
	"BenchmarkBurst/chart": 1, "BenchmarkBurst/stock": 1,
}

// inTurns measures both schedulers of a pair in turn, at least least times, and compares the ratio
// of their costs with the benchmark's floor. measure returns the cost of one unit in microseconds,
// and another figure, which inTurns returns for both schedulers.
func inTurns(b *testing.B, pair [2]*cycles, least int, unit string, measure func(*cycles) (micros, more float64)) (more [2][]float64) {
	var ratios []float64
	var cost [2][]float64
	one := func(i int) {
		for j := range pair {
			who := (i + j) % 2
			micros, other := measure(pair[who])
			cost[who], more[who] = append(cost[who], micros), append(more[who], other)
		}
		ratios = append(ratios, cost[1][i]/cost[0][i])
	}
	for b.Loop() {
		one(len(ratios))
	}
	for len(ratios) < least {
		one(len(ratios))
	}
	b.ReportMetric(0, "ns/op") // the time of one measurement means nothing
	b.ReportMetric(median(cost[0]), "stock-us/"+unit)
	b.ReportMetric(median(cost[1]), "berth-us/"+unit)
	b.ReportMetric(median(ratios), "ratio")
	if most := floors[b.Name()]; most > 0 && median(ratios) > most {
		b.Errorf("a %s costs %.2f of the stock scheduler's: want at most %g", unit, median(ratios), most)
	}
	return more
}

// compareCycles measures slices of pods, at least five for each scheduler.
func compareCycles(b *testing.B, pair [2]*cycles, load string) {
	for _, c := range pair {
		c.TB = b
		for range 3 { // until all shapes are known
			c.slice(load)
		}
	}
	before := pair[1].rounds()
	garbage := inTurns(b, pair, 5, "cycle", func(c *cycles) (micros, bytes float64) { return c.slice(load) })
	ratios := make([]float64, len(garbage[0]))
	for i := range ratios {
		ratios[i] = garbage[1][i] / garbage[0][i]
	}
	b.ReportMetric(median(ratios), "garbage-ratio")
	after := pair[1].rounds()
	if pods := after.pods - before.pods; pods > 0 {
		b.ReportMetric(100*(after.second-before.second)/pods, "second-rounds-%")
	}
}

// cycles is a scheduler whose cycles are measured, with its own world.
type cycles struct {
	testing.TB
	who     contestant
	world   *world
	sched   *kubescheduler.Scheduler
	begun   time.Duration // when the last pod left the queue, in processor time
	popped  *corev1.Pod   // the last pod that left the queue
	running []*corev1.Pod
	made    int
	failed  int
	why     error // the error of the last failed pod
	// lost receives every pod whose cycle or Binding failed; nil if no caller reads it.
	lost chan *corev1.Pod
}

// cyclesOptions selects the scheduler and the world.
type cyclesOptions struct {
	who   contestant
	world *world
	// chart gives other plugins the chart's arguments instead of the defaults.
	chart bool
	// args are Berth's arguments in addition to those of the benchmark.
	args map[string]any
}

// startCycles starts a scheduler.
func startCycles(b testing.TB, o cyclesOptions) *cycles {
	b.Helper()
	c := &cycles{TB: b, who: o.who, world: o.world}
	ctx := b.Context()
	cfg := c.config(&o)
	shared := kubescheduler.NewInformerFactory(c.world.client, 0, nil)
	dynamic := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamicfake.NewSimpleDynamicClient(k8sruntime.NewScheme()), 0, metav1.NamespaceAll, nil)
	var err error
	c.sched, err = kubescheduler.New(ctx, c.world.client, shared, dynamic,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		kubescheduler.WithKubeConfig(c.world.config), kubescheduler.WithProfiles(cfg.Profiles...),
		kubescheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{
			scheduler.Name: scheduler.New, scheduler.TiersName: scheduler.NewTiers, scheduler.SortName: command.NewSort,
			scheduler.ClaimsName: scheduler.NewClaims, gateName: newGate,
		}))
	if err != nil {
		b.Fatal(err)
	}
	command.Equip(ctx, c.sched, nil, cfg.Profiles)
	next, failed := c.sched.NextEntity, c.sched.FailureHandler
	c.sched.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		found, err := next(logger)
		if one, ok := found.(*framework.QueuedPodInfo); ok {
			c.popped = one.Pod
		}
		c.begun = processorTime()
		return found, err
	}
	c.sched.FailureHandler = func(ctx context.Context, f framework.Framework, info *framework.QueuedPodInfo, s *fwk.Status, n *fwk.NominatingInfo, start time.Time) {
		c.why = s.AsError()
		if c.lost == nil {
			c.failed++
		}
		failed(ctx, f, info, s, n, start)
		if c.lost != nil {
			c.lost <- info.Pod
		}
	}
	shared.Start(ctx.Done())
	shared.WaitForCacheSync(ctx.Done())
	if err := c.sched.WaitForHandlersSync(ctx); err != nil {
		b.Fatal(err)
	}
	c.sched.SchedulingQueue.Run(klog.FromContext(ctx))
	b.Cleanup(c.sched.SchedulingQueue.Close)
	c.begin()
	return c
}

// begin places one pod, which waits in the queue until the scheduler has read everything.
func (c *cycles) begin() {
	c.Helper()
	pod := c.pod("known")
	c.world.pods.Add(pod)
	for placed := false; !placed; placed = c.failed == 0 {
		c.failed = 0
		c.sched.ScheduleOne(c.Context())
	}
	c.finish([]*corev1.Pod{pod})
}

// config returns the scheduler's configuration.
func (c *cycles) config(o *cyclesOptions) *config.KubeSchedulerConfiguration {
	c.Helper()
	made := configure{who: c.who, profile: profileStock, heartbeat: time.Hour}
	if o.chart {
		made.profile = profileChart
	}
	text, err := configuration(made)
	if err != nil {
		c.Fatal(err)
	}
	var object map[string]any
	if err := yaml.Unmarshal(text, &object); err != nil {
		c.Fatal(err)
	}
	profile := object["profiles"].([]any)[0].(map[string]any)
	if o.args != nil {
		maps.Copy(profile["pluginConfig"].([]any)[0].(map[string]any)["args"].(map[string]any), o.args)
	}
	plugins, _ := profile["plugins"].(map[string]any)
	if plugins == nil {
		plugins = map[string]any{}
		profile["plugins"] = plugins
	}
	plugins["permit"] = map[string]any{"enabled": []any{map[string]any{"name": gateName}}}
	if text, err = yaml.Marshal(object); err != nil {
		c.Fatal(err)
	}
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		c.Fatal(err)
	}
	return obj.(*config.KubeSchedulerConfiguration)
}

// slice places pods, and returns the cost per pod in microseconds and in allocated bytes. Then the
// pods are bound and run, and earlier pods end.
func (c *cycles) slice(load string) (micros, bytes float64) {
	c.Helper()
	pods := make([]*corev1.Pod, slice)
	for i := range pods {
		pods[i] = c.pod(load)
		c.world.pods.Add(pods[i])
	}
	c.calm()
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var spent time.Duration
	pprof.Do(c.Context(), pprof.Labels("scheduler", string(c.who)), func(ctx context.Context) {
		for range pods {
			c.sched.ScheduleOne(ctx)
			spent += processorTime() - c.begun
		}
	})
	runtime.ReadMemStats(&after)
	c.finish(pods)
	return float64(spent.Microseconds()) / slice, float64(after.TotalAlloc-before.TotalAlloc) / slice
}

// pod returns the next pod of a load. Pinned pods have their sizes in turn.
func (c *cycles) pod(load string) *corev1.Pod {
	c.made++
	kind := load
	if load != loadOrdinary {
		kind = loadPinned
	}
	pod := c.world.podOf(kind, c.made, c.made)
	if load == "new" {
		bytes := *resource.NewQuantity(512<<20+int64(c.made)<<12, resource.BinarySI)
		amounts := pod.Spec.Containers[0].Resources.Limits.DeepCopy()
		amounts[corev1.ResourceMemory] = bytes
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: amounts, Requests: amounts}
	}
	return pod
}

// finish binds and runs the pods of a slice, and ends the oldest running pods.
func (c *cycles) finish(pods []*corev1.Pod) {
	c.Helper()
	if c.failed > 0 {
		c.Fatalf("%s: %d pods found no node: %v", c.who, c.failed, c.why)
	}
	c.bind(pods)
	c.world.run(pods)
	c.running = append(c.running, pods...)
	if over := len(c.running) - most; over > 0 {
		c.world.end(c.running[:over])
		c.running = c.running[over:]
	}
	c.calm()
}

// bind lets pods be bound, and returns the bound pods.
func (c *cycles) bind(pods []*corev1.Pod) []*corev1.Pod {
	c.Helper()
	for _, pod := range pods {
		for _, profile := range c.sched.Profiles {
			if waiting := profile.GetWaitingPod(pod.UID); waiting != nil {
				waiting.Allow(gateName)
			}
		}
	}
	for range len(pods) {
		select {
		case <-c.world.written:
		case lost := <-c.lost:
			pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return pod.UID == lost.UID })
		case <-time.After(time.Minute):
			c.Fatal("a pod is not bound after a minute")
		}
	}
	return pods
}

// calm waits until the process is idle and has handled all watch events.
func (c *cycles) calm() {
	const look = 10 * time.Millisecond
	for quiet := 0; quiet < 5; {
		before := processorTime()
		time.Sleep(look)
		if quiet++; processorTime()-before > look/10 {
			quiet = 0
		}
	}
}

// rounds counts pods for which nodes were searched, and pods for which one round was not enough.
type rounds struct{ pods, second float64 }

func (c *cycles) rounds() (r rounds) {
	c.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		c.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "berth_scheduler_searches_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			r.pods += m.GetCounter().GetValue()
			if m.GetLabel()[0].GetValue() != scheduler.SearchedOnce {
				r.second += m.GetCounter().GetValue()
			}
		}
	}
	return r
}

// processorTime returns the processor time of the process.
func processorTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		panic(fmt.Sprint("processor time: ", err))
	}
	return time.Duration(t.Nano())
}

// gate holds pods back before they are bound, until all of a slice have been placed.
type gate struct{}

const gateName = "Gate"

func newGate(context.Context, k8sruntime.Object, fwk.Handle) (fwk.Plugin, error) { return gate{}, nil }

func (gate) Name() string { return gateName }

func (gate) Permit(context.Context, fwk.CycleState, *corev1.Pod, string) (*fwk.Status, time.Duration) {
	return fwk.NewStatus(fwk.Wait), time.Hour
}
