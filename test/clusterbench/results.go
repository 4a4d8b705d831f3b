package main

import (
	"fmt"
	"slices"
	"time"
)

// result is the printed result, also stored as JSON.
type result struct {
	Machine string `json:"machine"`
	Options string `json:"options"`
	// Programs are a digest of this program and of the scheduler.
	Programs string    `json:"programs,omitempty"`
	Begun    time.Time `json:"begun"`
	// LoadAverage is the machine's load average at the beginning and at the end.
	LoadAverage [2]string `json:"loadAverage"`
	// Seconds are the times by activity, and Calls the number of calls of the program.
	Seconds map[string]float64 `json:"seconds,omitempty"`
	Calls   int                `json:"calls,omitempty"`

	Runs   []runResult    `json:"runs,omitempty"`
	Ratios []ratioResult  `json:"ratios,omitempty"`
	Gangs  []gangRatio    `json:"gangs,omitempty"`
	Filter []filterResult `json:"filter,omitempty"`
	Starts []startResult  `json:"starts,omitempty"`
	Writes *writesResult  `json:"writes,omitempty"`
}

// has reports whether the result has the runs of both schedulers of a pair.
func (r *result) has(pair runKey, pods int) bool {
	return !slices.ContainsFunc(inTurn(0), func(who contestant) bool {
		pair.Scheduler = who
		return !slices.ContainsFunc(r.Runs, func(o runResult) bool { return o.runKey == pair && o.Pods == pods })
	})
}

// runKey identifies a run.
type runKey struct {
	Nodes     int        `json:"nodes"`
	Load      string     `json:"load"`
	Profile   string     `json:"profile,omitempty"`
	Scheduler contestant `json:"scheduler"`
	Pair      int        `json:"pair"`
}

// runResult is one run of a scheduler with one load.
type runResult struct {
	runKey
	// Bound is how many of Pods were seen bound.
	Bound int `json:"bound"`
	Pods  int `json:"pods"`
	// Refused is how many of them the nodes' kubelets refused.
	Refused int `json:"refused"`
	// Settled is pods per second from the first Binding until all pods are bound and all phases and
	// reports are written.
	Settled float64 `json:"settledPerSecond"`
	// Told is like Settled, but ends when all events are written too. Every run then includes the
	// same work, in any order.
	Told float64 `json:"toldPerSecond"`
	// Events is the number of events from all writers.
	Events int `json:"events"`
	// PerSecond is pods bound per second, from the first to the last. The schedulers do different
	// amounts of other work in that time.
	PerSecond float64 `json:"boundPerSecond"`
	// Acknowledged is the time from a Binding until the pod's phase was written, in seconds.
	AcknowledgedP50 float64 `json:"acknowledgedP50"`
	AcknowledgedP99 float64 `json:"acknowledgedP99"`
	// SchedulerCPU and ServerCPU are processor time per pod in microseconds, of the scheduler and
	// of API server and etcd, until everything is settled and all events are written.
	SchedulerCPU float64 `json:"schedulerMicrosecondsPerPod"`
	ServerCPU    float64 `json:"serverMicrosecondsPerPod"`
	// PeakMemory and IdleMemory are the scheduler's resident set in bytes, at its largest and
	// before the first pod.
	PeakMemory int64 `json:"peakMemory"`
	IdleMemory int64 `json:"idleMemory"`
	cycleStats
	// Reports is the number of NodeTopologies that were written from the first Binding until
	// everything was settled.
	Reports int `json:"reports"`
	// Requests are the API server's answers per pod in the same time, without watches and Leases,
	// by verb, resource and subresource: "PATCH pods/status".
	Requests map[string]float64 `json:"requests"`
	// Shadow is the resource use of shadow mode, or nil if it did not run.
	Shadow      *shadowResult `json:"shadow,omitempty"`
	LoadAverage string        `json:"loadAverage"`
}

// cycleStats are the scheduler's metrics about its cycles.
type cycleStats struct {
	// Attempts is the number of scheduling cycles.
	Attempts float64 `json:"attempts"`
	// Searches is how often Berth searched the candidates for the best node. Nowhere is how often
	// there were no candidates, because pods had to wait for reports. SecondRounds is how often the
	// first candidates did not suffice.
	Searches     float64 `json:"searches,omitempty"`
	Nowhere      float64 `json:"nowhere,omitempty"`
	SecondRounds float64 `json:"secondRounds,omitempty"`
	// Asked is the mean number of nodes that Filter checked for a pod.
	Asked float64 `json:"nodesPerAttempt"`
	// Filter is the mean time of Filter per pod, over all checked nodes, in milliseconds.
	Filter float64 `json:"filterMilliseconds"`
	Score  float64 `json:"scoreMilliseconds"`
	// Promises are Berth's decisions by their outcome in the reports.
	Promises map[string]float64 `json:"promises,omitempty"`
	// Delays are the times of Berth's pods until their Bindings were written, in seconds per pod.
	// Verdicts are the results of Reserve and Bind, by outcome and reason.
	Delays   map[string]float64 `json:"delays,omitempty"`
	Verdicts map[string]float64 `json:"verdicts,omitempty"`
}

func (r *runResult) String() string {
	return fmt.Sprintf("%5d nodes %-8s %-5s %-5s pair %2d: %5d of %d pods, %6.1f/s settled, %6.1f/s told, %6.1f/s bound, acknowledged p50 %.1f s p99 %.1f s, scheduler %5.0f us/pod, server %5.0f us/pod, peak %4d MiB, %d refused, load %s",
		r.Nodes, r.Load, r.Profile, r.Scheduler, r.Pair+1, r.Bound, r.Pods, r.Settled, r.Told, r.PerSecond, r.AcknowledgedP50, r.AcknowledgedP99, r.SchedulerCPU, r.ServerCPU, r.PeakMemory>>20, r.Refused, r.LoadAverage)
}

// filterResult is the time of the search for a node for one pinned pod, in milliseconds, by the
// scheduler's metric: PreFilter, Filter and Score of all plugins, on as many nodes as each
// scheduler checks by default.
type filterResult struct {
	Nodes     int        `json:"nodes"`
	Scheduler contestant `json:"scheduler"`
	// Pods is podsNew for pods of new shapes, for which no answer is cached; otherwise "repeated".
	Pods string `json:"pods"`
	// There is the number of pinned pods that already ran, Runs the number of runs with samples.
	There int `json:"there"`
	Runs  int `json:"runs"`
	// Milliseconds are the samples.
	Milliseconds []float64 `json:"milliseconds"`
	// Retried is the number of pods with more than one cycle; they are omitted.
	Retried     int    `json:"retried"`
	LoadAverage string `json:"loadAverage"`
}

// podsNew stands for pods of new shapes.
const podsNew = "new"

// addFilter adds the samples of a run to those of the same kind, and returns all of them.
func (r *result) addFilter(more *filterResult) *filterResult {
	at := r.filterOf(more.Nodes, more.There, more.Scheduler, more.Pods)
	if at < 0 {
		at = len(r.Filter)
		r.Filter = append(r.Filter, filterResult{Nodes: more.Nodes, There: more.There, Scheduler: more.Scheduler, Pods: more.Pods})
	}
	f := &r.Filter[at]
	f.Milliseconds = append(f.Milliseconds, more.Milliseconds...)
	f.Retried, f.Runs, f.LoadAverage = f.Retried+more.Retried, f.Runs+1, loadAverage()
	return f
}

// filterOf returns the index of a result; negative if it is missing.
func (r *result) filterOf(nodes, there int, who contestant, pods string) int {
	return slices.IndexFunc(r.Filter, func(f filterResult) bool {
		return f.Nodes == nodes && f.There == there && f.Scheduler == who && f.Pods == pods
	})
}

// ratioResult compares Berth with stock over the pairs of one size and load: medians of ratios, and
// bounds of throughput.
type ratioResult struct {
	Nodes int    `json:"nodes"`
	Load  string `json:"load"`
	// Pods is the number of pods in a run.
	Pods    int    `json:"pods"`
	Profile string `json:"profile,omitempty"`
	Pairs   int    `json:"pairs"`
	// Settled compares pods per second until everything is settled, Told until all events are also
	// written, Throughput the rate of Bindings.
	Settled    estimate `json:"settled"`
	Told       estimate `json:"told"`
	Throughput estimate `json:"throughput"`
	// CPU compares processor time per pod, Memory the peak resident set.
	CPU    estimate `json:"cpu"`
	Memory estimate `json:"memory"`
	// Stock and Berth are medians of pods per second: until everything is settled, and bound.
	Stock      float64 `json:"stock"`
	Berth      float64 `json:"berth"`
	StockBound float64 `json:"stockBound"`
	BerthBound float64 `json:"berthBound"`
}

// of reports whether the comparison includes the run.
func (o *ratioResult) of(r *runResult) bool {
	return o.Nodes == r.Nodes && o.Load == r.Load && o.Pods == r.Pods && o.Profile == r.Profile
}

// gangRatio compares pods in gangs with the same pods one by one, over the pairs of one size.
type gangRatio struct {
	Nodes int `json:"nodes"`
	Pairs int `json:"pairs"`
	// Settled compares pods per second until everything is settled, Throughput the rate of
	// Bindings, CPU the scheduler's processor time per pod.
	Settled    estimate `json:"settled"`
	Throughput estimate `json:"throughput"`
	CPU        estimate `json:"cpu"`
}

// writesResult is the cost of agents for the API server.
type writesResult struct {
	Nodes int `json:"nodes"`
	// CPUs and Pods are the numbers on each node.
	CPUs int `json:"cpusPerNode"`
	Pods int `json:"podsPerNode"`
	// SentBytes is the size of the largest report as sent. StoredBytes is that of the largest as
	// the API server returns and etcd stores it, with managed fields.
	SentBytes   int `json:"sentBytes"`
	StoredBytes int `json:"storedBytes"`
	// EmptyStorage is the database before, FullStorage after the objects were made, LastStorage at
	// the end, in bytes.
	EmptyStorage float64       `json:"emptyStorage"`
	FullStorage  float64       `json:"fullStorage"`
	LastStorage  float64       `json:"lastStorage"`
	Phases       []writesPhase `json:"phases"`
}

// writesPhase is a part of the measurement with one mix of writes.
type writesPhase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	// Cores is the processor time of API server and etcd divided by the elapsed time.
	Cores float64 `json:"cores"`
	// Heartbeats and Reports are latencies of writes as the agents see them, in milliseconds.
	Heartbeats latencies `json:"heartbeats"`
	Reports    latencies `json:"reports"`
	// PerHeartbeat and PerReport are processor time of API server and etcd for one write, in
	// microseconds.
	PerHeartbeat float64 `json:"serverMicrosecondsPerHeartbeat"`
	PerReport    float64 `json:"serverMicrosecondsPerReport"`
	// WatchedBytes is the data received by one watch of all reports.
	WatchedBytes int64   `json:"watchedBytes"`
	ServerMemory int64   `json:"serverMemory"`
	Storage      float64 `json:"storage"`
	LoadAverage  string  `json:"loadAverage"`
}

type latencies struct {
	Count     int     `json:"count"`
	PerSecond float64 `json:"perSecond"`
	P50       float64 `json:"p50"`
	P99       float64 `json:"p99"`
}

func newLatencies(took []time.Duration, seconds float64) latencies {
	ms := make([]float64, len(took))
	for i, d := range took {
		ms[i] = d.Seconds() * 1000
	}
	if len(ms) == 0 {
		return latencies{}
	}
	return latencies{len(ms), float64(len(ms)) / seconds, median(ms), quantile(ms, 0.99)}
}
