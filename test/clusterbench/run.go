package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/scheduler/handover"
)

// runKey says what is measured.
type runKey struct {
	Nodes     int        `json:"nodes"`
	Load      string     `json:"load"`
	Profile   string     `json:"profile,omitempty"`
	Scheduler contestant `json:"scheduler"`
	Pair      int        `json:"pair"`
}

// runResult is one scheduler's way through one load.
type runResult struct {
	runKey
	// Bound is how many pods were seen bound, of Pods.
	Bound int `json:"bound"`
	Pods  int `json:"pods"`
	// Refused is how many of them the nodes' kubelets refused.
	Refused int `json:"refused"`
	// Settled is pods per second from the first Binding until all are bound, their phases written
	// and all reports too: the same work in every run, whatever the scheduler does first.
	Settled float64 `json:"settledPerSecond"`
	// PerSecond is pods bound per second, from the first to the last: how much else has been done
	// by then differs.
	PerSecond float64 `json:"boundPerSecond"`
	// Acknowledged is the time from a Binding until the pod's phase was written, in seconds.
	AcknowledgedP50 float64 `json:"acknowledgedP50"`
	AcknowledgedP99 float64 `json:"acknowledgedP99"`
	// SchedulerCPU and ServerCPU are processor time per pod in microseconds, of the scheduler and
	// of API server and etcd, until all is settled.
	SchedulerCPU float64 `json:"schedulerMicrosecondsPerPod"`
	ServerCPU    float64 `json:"serverMicrosecondsPerPod"`
	// PeakMemory and IdleMemory are the scheduler's resident set in bytes, at its largest and
	// before the first pod.
	PeakMemory int64 `json:"peakMemory"`
	IdleMemory int64 `json:"idleMemory"`
	// Attempts is how many scheduling cycles there were.
	Attempts float64 `json:"attempts"`
	// Searches is how often Berth looked for the best node among candidates, SecondRounds how often
	// the first few were not enough.
	Searches     float64 `json:"searches,omitempty"`
	SecondRounds float64 `json:"secondRounds,omitempty"`
	// Asked is the mean number of nodes that Filter looked at for a pod.
	Asked float64 `json:"nodesPerAttempt"`
	// Filter is the mean time of Filter per pod, over the nodes that were looked at, in
	// milliseconds.
	Filter float64 `json:"filterMilliseconds"`
	Score  float64 `json:"scoreMilliseconds"`
	// Promises are Berth's decisions by what the reports said about them.
	Promises map[string]float64 `json:"promises,omitempty"`
	// Reports is how many NodeTopologies were written meanwhile.
	Reports int `json:"reports"`
	// Requests is what the API server answered per pod meanwhile, by verb, resource and what of it,
	// watches and Leases apart: "PATCH pods/status".
	Requests    map[string]float64 `json:"requests"`
	LoadAverage string             `json:"loadAverage"`
}

func (r *runResult) String() string {
	return fmt.Sprintf("%5d nodes %-8s %-5s %-5s pair %2d: %5d of %d pods, %6.1f/s settled, %6.1f/s bound, acknowledged p50 %.1f s p99 %.1f s, scheduler %5.0f us/pod, server %5.0f us/pod, peak %4d MiB, %d refused, load %s",
		r.Nodes, r.Load, r.Profile, r.Scheduler, r.Pair+1, r.Bound, r.Pods, r.Settled, r.PerSecond, r.AcknowledgedP50, r.AcknowledgedP99, r.SchedulerCPU, r.ServerCPU, r.PeakMemory>>20, r.Refused, r.LoadAverage)
}

// runLimit is how long a run may take.
const runLimit = 15 * time.Minute

// run lets a scheduler bind the load: it finds all pods waiting when it becomes the leader, having
// read the cluster before.
func (b *bench) run(key runKey, pods int) (runResult, error) {
	r := runResult{runKey: key, Pods: pods}
	b.fleet.silent.Store(b.options.agents == agentsBerth && key.Scheduler == stock)
	begun := time.Now()
	if err := b.createPods(key.Load, key.Profile, r.Pods); err != nil {
		return r, fmt.Errorf("create pods: %w", err)
	}
	if err := b.forgetLeader(); err != nil {
		return r, err
	}
	b.took("runs: creating pods", begun)
	begun = time.Now()
	s, err := b.startScheduler(key.Scheduler, key.Profile)
	if err != nil {
		return r, err
	}
	defer s.Stop()
	if err := s.settle(b.ctx); err != nil {
		return r, err
	}
	runtime.GC()
	if err := b.plane.calm(b.ctx); err != nil {
		return r, err
	}
	b.took("runs: the scheduler reads", begun)
	begun = time.Now()
	if err := b.measure(s, &r); err != nil {
		return r, err
	}
	b.took("runs: measuring", begun)
	defer b.took("runs: taking pods away", time.Now())
	s.Stop()
	if err := b.hold(true); err != nil {
		return r, err
	}
	return r, b.deletePods()
}

// forgetLeader makes the next scheduler the first one: it does not wait for what the one before may
// have under way.
func (b *bench) forgetLeader() error {
	err := b.plane.core.CoordinationV1().Leases(v1alpha1.HeartbeatNamespace).Delete(b.ctx, handover.LeaseName, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// measure lets the scheduler begin and waits for its last pod.
func (b *bench) measure(s *sched, r *runResult) error {
	b.fleet.tally.reset()
	r.IdleMemory = s.Memory("VmRSS")
	before, err := b.plane.metrics(b.ctx)
	if err != nil {
		return err
	}
	cpu, server := s.CPU(), b.plane.CPU()
	profiled := b.profile(s, r)
	if err := b.hold(false); err != nil {
		return err
	}
	err = b.fleet.await(b.ctx, runLimit, func(t *tally) bool { return len(t.bound) >= r.Pods })
	if err != nil && !errors.Is(err, errTimeout) {
		return err
	}
	if err := b.fleet.quiet(b.ctx, r.Pods); err != nil {
		return err
	}
	settled := time.Now()
	if err := s.Ended(); err != nil {
		return err
	}
	cpu, server = s.CPU()-cpu, b.plane.CPU()-server
	r.PeakMemory, r.LoadAverage = s.Memory("VmHWM"), loadAverage()
	b.count(r, settled)
	r.SchedulerCPU, r.ServerCPU = perPod(cpu, r.Bound), perPod(server, r.Bound)
	after, err := b.plane.metrics(b.ctx)
	if err != nil {
		return err
	}
	r.Requests = requests(before, after, r.Bound)
	<-profiled
	return b.ask(s, r)
}

func perPod(cpu time.Duration, pods int) float64 {
	return float64(cpu.Microseconds()) / float64(max(1, pods))
}

// count takes over what the watch has shown.
func (b *bench) count(r *runResult, settled time.Time) {
	t := &b.fleet.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Bound, r.Refused, r.Reports = len(t.bound), t.refused, len(t.reports)
	r.PerSecond = rate(t.bound)
	if len(t.bound) > 0 {
		r.Settled = float64(len(t.bound)) / settled.Sub(t.bound[0]).Seconds()
	}
	if len(t.acknowledged) > 0 {
		r.AcknowledgedP50, r.AcknowledgedP99 = quantile(t.acknowledged, 0.5), quantile(t.acknowledged, 0.99)
	}
}

// rate is events per second from the first to the last.
func rate(at []time.Time) float64 {
	if len(at) < 2 {
		return 0
	}
	return float64(len(at)-1) / at[len(at)-1].Sub(at[0]).Seconds()
}

// ask asks the scheduler for its own figures.
func (b *bench) ask(s *sched, r *runResult) error {
	m, err := s.metrics(b.ctx)
	if err != nil {
		return err
	}
	const point = "scheduler_framework_extension_point_duration_seconds"
	mean := func(name string) float64 {
		label := `extension_point="` + name + `"`
		return 1000 * m.sum(point+"_sum", label) / max(1, m.sum(point+"_count", label))
	}
	r.Filter, r.Score = mean("Filter"), mean("Score")
	r.Attempts = m.sum("scheduler_schedule_attempts_total")
	r.Asked = m.sum("scheduler_plugin_evaluation_total", `plugin="NodeResourcesFit"`, `extension_point="Filter"`) / max(1, r.Attempts)
	if r.Scheduler == berth {
		const searches = "berth_scheduler_searches_total"
		r.Searches = m.sum(searches)
		r.SecondRounds = r.Searches - m.sum(searches, `result="`+scheduler.SearchedOnce+`"`)
		r.Promises = map[string]float64{}
		for _, outcome := range []string{"kept", "contended", "mispredicted", "refused"} {
			r.Promises[outcome] = m.sum("berth_scheduler_promises_total", `outcome="`+outcome+`"`)
		}
	}
	return nil
}

// profile keeps CPU profiles of the scheduler and of the API server during the run where they are
// wanted; the channel is closed when they are written.
func (b *bench) profile(s *sched, r *runResult) <-chan struct{} {
	done := make(chan struct{})
	if !b.options.profile || b.options.out == "" {
		close(done)
		return done
	}
	const path, seconds = "/debug/pprof/profile", "20"
	keep := func(of string, data []byte, err error) {
		file := filepath.Join(b.options.out, fmt.Sprintf("%d-%s-%s%s-%d%s.pprof", r.Nodes, r.Load, r.Profile, r.Scheduler, r.Pair+1, of))
		if err == nil {
			err = os.WriteFile(file, data, 0o644)
		}
		if err != nil {
			b.say("profile: %v", err)
		}
	}
	var both sync.WaitGroup
	both.Go(func() {
		data, err := s.get(b.ctx, path+"?seconds="+seconds)
		keep("", data, err)
	})
	both.Go(func() {
		data, err := b.plane.raw.Get().AbsPath(path).Param("seconds", seconds).Do(b.ctx).Raw()
		keep("-server", data, err)
	})
	go func() {
		both.Wait()
		close(done)
	}()
	return done
}
