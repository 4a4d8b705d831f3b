package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/test/usage"
)

// runLimit is how long a run may take.
const runLimit = 15 * time.Minute

// run lets a scheduler bind the load. The scheduler has read the cluster, and all pods wait when it
// becomes the leader.
func (t *testbed) run(key runKey, pods int) (runResult, error) {
	r := runResult{runKey: key, Pods: pods}
	t.fleet.silent.Store(t.options.agents == agentsBerth && key.Scheduler == stock)
	begun := time.Now()
	if err := t.createPods(key.Load, key.Profile, r.Pods); err != nil {
		return r, fmt.Errorf("create pods: %w", err)
	}
	if err := t.forgetLeader(); err != nil {
		return r, err
	}
	t.took("runs: creating pods", begun)
	var beside *onlooker
	if t.watched {
		var err error
		if beside, err = t.startShadow(); err != nil {
			return r, err
		}
		defer beside.Stop()
	}
	s, err := t.startReading(key.Scheduler, key.Profile)
	if err != nil {
		return r, err
	}
	defer s.Stop()
	begun = time.Now()
	if err := t.measure(s, beside, &r); err != nil {
		return r, err
	}
	t.took("runs: measuring", begun)
	defer t.took("runs: taking pods away", time.Now())
	s.Stop()
	if err := t.hold(true); err != nil {
		return r, err
	}
	return r, t.deletePods()
}

// startReading starts a scheduler, and waits until it has read the cluster and all is quiet.
func (t *testbed) startReading(who contestant, profile string) (*sched, error) {
	defer t.took("runs: the scheduler reads", time.Now())
	s, err := t.startScheduler(who, profile)
	if err != nil {
		return nil, err
	}
	err = s.settle(t.ctx)
	if err == nil {
		runtime.GC()
		err = t.plane.calm(t.ctx)
	}
	if err != nil {
		s.Stop()
	}
	return s, err
}

// measure lets the scheduler begin and waits for its last pod. beside is shadow mode, or nil.
func (t *testbed) measure(s *sched, beside *onlooker, r *runResult) error {
	t.fleet.tally.reset()
	r.IdleMemory = usage.Memory(s.Process, "VmRSS")
	before, err := t.plane.metrics(t.ctx)
	if err != nil {
		return err
	}
	events, err := t.plane.events(t.ctx)
	if err != nil {
		return err
	}
	begun := t.used(s)
	if beside != nil {
		beside.begun = usage.CPU(beside.Process)
	}
	profiled := t.profile(s, r)
	if err := t.bindAll(r.Pods); err != nil {
		return err
	}
	settled := time.Now()
	if err := s.Ended(); err != nil {
		return err
	}
	r.count(&t.fleet.tally, settled)
	then, err := t.told(s, r, events, settled)
	if err != nil {
		return err
	}
	if beside != nil {
		if err := beside.tellAll(t.ctx, r); err != nil {
			return err
		}
	}
	r.PeakMemory, r.LoadAverage = usage.Memory(s.Process, "VmHWM"), loadAverage()
	r.SchedulerCPU, r.ServerCPU = perPod(then.scheduler-begun.scheduler, r.Bound), perPod(then.server-begun.server, r.Bound)
	after, err := t.plane.metrics(t.ctx)
	if err != nil {
		return err
	}
	r.Requests = requests(before, after, r.Bound)
	<-profiled
	r.cycleStats, err = s.cycleStats(t.ctx, r.Scheduler)
	return err
}

// bindAll lets the waiting scheduler begin. It returns after runLimit, or when all pods are bound
// and all their phases and reports are written.
func (t *testbed) bindAll(pods int) error {
	if err := t.hold(false); err != nil {
		return err
	}
	err := t.fleet.await(t.ctx, runLimit, func(y *tally) bool { return len(y.bound) >= pods })
	if err != nil && !errors.Is(err, errTimeout) {
		return err
	}
	return t.fleet.quiet(t.ctx, pods)
}

// used is processor time of a scheduler, and of API server and etcd.
type used struct{ scheduler, server time.Duration }

func (t *testbed) used(s *sched) used {
	return used{usage.CPU(s.Process), usage.CPU(t.plane.Process)}
}

// told waits until no more events come, because a scheduler may write events last. It returns the
// usage at the last event. If there are fewer events than pods, it waits longer, because a client
// pauses for seconds after a refusal. before is the number of events at the beginning.
func (t *testbed) told(s *sched, r *runResult, before int64, settled time.Time) (used, error) {
	const lacking, complete = 15 * time.Second, time.Second
	last, then := settled, t.used(s)
	clock := time.NewTicker(100 * time.Millisecond)
	defer clock.Stop()
	for {
		now, err := t.plane.events(t.ctx)
		if err != nil {
			return then, err
		}
		if written := int(now - before); written > r.Events {
			last, then, r.Events = time.Now(), t.used(s), written
		}
		patience := lacking
		if r.Events >= r.Bound {
			patience = complete
		}
		if time.Since(last) > patience {
			break
		}
		select {
		case <-clock.C:
		case <-t.ctx.Done():
			return then, t.ctx.Err()
		}
	}
	if r.Settled > 0 {
		r.Told = float64(r.Bound) / (float64(r.Bound)/r.Settled + last.Sub(settled).Seconds())
	}
	return then, nil
}

func perPod(cpu time.Duration, pods int) float64 {
	return float64(cpu.Microseconds()) / float64(max(1, pods))
}

// count copies the figures of the watch.
func (r *runResult) count(y *tally, settled time.Time) {
	y.mu.Lock()
	defer y.mu.Unlock()
	r.Bound, r.Refused, r.Reports = len(y.bound), y.refused, len(y.reports)
	r.PerSecond = rate(y.bound)
	if len(y.bound) > 0 {
		r.Settled = float64(len(y.bound)) / settled.Sub(y.bound[0]).Seconds()
	}
	if len(y.acknowledged) > 0 {
		r.AcknowledgedP50, r.AcknowledgedP99 = quantile(y.acknowledged, 0.5), quantile(y.acknowledged, 0.99)
	}
}

// rate is events per second from the first to the last.
func rate(at []time.Time) float64 {
	if len(at) < 2 {
		return 0
	}
	return float64(len(at)-1) / at[len(at)-1].Sub(at[0]).Seconds()
}

// cycleStats reads the scheduler's own metrics.
func (s *sched) cycleStats(ctx context.Context, who contestant) (c cycleStats, err error) {
	m, err := s.metrics(ctx)
	if err != nil {
		return c, err
	}
	const point = "scheduler_framework_extension_point_duration_seconds"
	mean := func(name string) float64 {
		label := `extension_point="` + name + `"`
		return 1000 * m.sum(point+"_sum", label) / max(1, m.sum(point+"_count", label))
	}
	c.Filter, c.Score = mean("Filter"), mean("Score")
	c.Attempts = m.sum("scheduler_schedule_attempts_total")
	c.Asked = m.sum("scheduler_plugin_evaluation_total", `plugin="NodeResourcesFit"`, `extension_point="Filter"`) / max(1, c.Attempts)
	if who == berth {
		const searches = "berth_scheduler_searches_total"
		c.Searches = m.sum(searches)
		c.Nowhere = m.sum(searches, `result="`+scheduler.SearchedNowhere+`"`)
		c.SecondRounds = c.Searches - c.Nowhere - m.sum(searches, `result="`+scheduler.SearchedOnce+`"`)
		c.Promises = map[string]float64{}
		for _, outcome := range []string{"kept", "contended", "mispredicted", "refused"} {
			c.Promises[outcome] = m.sum("berth_scheduler_promises_total", `outcome="`+outcome+`"`)
		}
		const delays = "berth_scheduler_pod_delay_seconds"
		c.Delays = m.by(delays+"_sum", max(1, m.sum(delays+"_count", `cause="queue"`)), "cause")
		c.Verdicts = m.by("berth_scheduler_verdicts_total", 1, "extension_point", "outcome", "reason")
	}
	return c, nil
}

// profile takes CPU profiles of the scheduler and of the API server during the run, if they are
// wanted, and the scheduler's heap before and after it. The channel is closed when all are written.
func (t *testbed) profile(s *sched, r *runResult) <-chan struct{} {
	done := make(chan struct{})
	if !t.options.profile || t.options.out == "" {
		close(done)
		return done
	}
	const path, heap, seconds = "/debug/pprof/profile", "/debug/pprof/heap", "20"
	keep := func(of string, data []byte, err error) {
		t.keepProfile(fmt.Sprintf("%d-%s-%s%s-%d%s.pprof", r.Nodes, r.Load, r.Profile, r.Scheduler, r.Pair+1, of), data, err)
	}
	ask := func(of, path string) {
		data, err := s.get(t.ctx, path)
		keep(of, data, err)
	}
	ask("-heap-before", heap+"?gc=1")
	var both sync.WaitGroup
	both.Go(func() {
		ask("", path+"?seconds="+seconds)
		ask("-heap", heap)
	})
	both.Go(func() {
		data, err := t.plane.raw.Get().AbsPath(path).Param("seconds", seconds).Do(t.ctx).Raw()
		keep("-server", data, err)
	})
	go func() {
		both.Wait()
		close(done)
	}()
	return done
}

// keepProfile writes a profile, or prints why there is none.
func (t *testbed) keepProfile(name string, data []byte, err error) {
	if err == nil {
		err = os.WriteFile(filepath.Join(t.options.out, name), data, 0o644)
	}
	if err != nil {
		t.say("profile: %v", err)
	}
}
