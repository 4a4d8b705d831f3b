package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A burst has podsOfBurst pods on nodesOfBurst nodes. The pods have eight shapes and are all
// created in one second, so that a kubelet may admit them in any order. onTheirWay is how many pods
// are tried before the first is reported.
const (
	nodesOfBurst = 500
	podsOfBurst  = 4 * nodesOfBurst
	onTheirWay   = nodesOfBurst * 3 / 2
)

// BenchmarkBurst measures the cost of a burst's cycles per placed pod, for Berth and the stock
// scheduler in turn, in one process. It includes cycles that place no pod, because nodes are
// promised to other pods of the same second. It uses the clock of BenchmarkCycle.
func BenchmarkBurst(b *testing.B) {
	inProfiles(b, nodesOfBurst, func(b *testing.B, pair [2]*cycles) {
		for _, c := range pair {
			c.lost = make(chan *corev1.Pod, podsOfBurst)
			c.burst()
		}
		attempts := inTurns(b, pair, 3, "pod", (*cycles).burst)
		b.ReportMetric(median(attempts[1]), "attempts/pod")
	})
}

// burst places podsOfBurst pods that come at once, and returns the cost per pod in microseconds,
// and the attempts per pod. After onTheirWay attempts, or when no pod can be tried, it binds and
// reports a slice of pods for each slice of attempts. At the end it deletes all pods.
func (c *cycles) burst() (micros, attempts float64) {
	c.Helper()
	second := metav1.Unix(1_800_000_000+int64(c.made), 0)
	for range podsOfBurst {
		pod := c.pod("known")
		pod.CreationTimestamp = second
		c.world.pods.Add(pod)
	}
	var placed, all []*corev1.Pod
	var spent time.Duration
	tried := 0
	for len(all) < podsOfBurst {
		if len(placed) == 0 {
			c.awaitPods()
		}
		took, count, pods := c.attempts()
		spent, tried, placed = spent+took, tried+count, append(placed, pods...)
		if n := min(slice, len(placed)); count == 0 || tried > onTheirWay {
			bound := c.bind(placed[:n:n])
			placed = placed[n:]
			c.world.run(bound)
			c.calm()
			all = append(all, bound...)
		}
	}
	c.world.end(all)
	c.calm()
	return float64(spent.Microseconds()) / podsOfBurst, float64(tried) / podsOfBurst
}

// attempts tries up to a slice of pods. It returns the time, the number of attempts, and the placed
// pods.
func (c *cycles) attempts() (took time.Duration, count int, placed []*corev1.Pod) {
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for ; count < slice && len(c.sched.SchedulingQueue.PodsInActiveQ()) > 0; count++ {
		c.sched.ScheduleOne(c.Context())
		took += processorTime() - c.begun
		select {
		case <-c.lost:
		default:
			placed = append(placed, c.popped)
		}
	}
	return took, count, placed
}

// awaitPods waits until some pod can be tried and the process is idle.
func (c *cycles) awaitPods() {
	c.Helper()
	for begun := time.Now(); ; {
		if c.calm(); len(c.sched.SchedulingQueue.PodsInActiveQ()) > 0 {
			return
		}
		if time.Since(begun) > time.Minute {
			c.Fatal("pods wait, and nobody has woken one for a minute")
		}
	}
}
