package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodesOfBurst is how many nodes a burst comes to, and podsOfBurst of how many pods it is, of eight
// shapes and all of one second: a kubelet may admit them in any order. onTheirWay is how many are
// tried before the first is reported.
const (
	nodesOfBurst = 500
	podsOfBurst  = 4 * nodesOfBurst
	onTheirWay   = nodesOfBurst * 3 / 2
)

// BenchmarkBurst is what the cycles of a burst cost for each pod that is placed, Berth beside the
// stock scheduler in one process, in turn: with the ones that place none, because nodes have been
// promised to others of its second. The clock is that of BenchmarkCycle.
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

// burst places podsOfBurst pods that come at once, and returns what one cost in microseconds, and
// how often it was tried. After onTheirWay attempts, or when none can be tried, a slice of pods is
// bound and reported for each slice of attempts. In the end all are gone.
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

// attempts tries a slice of pods, if so many can be tried, and returns how long that took, how many
// were tried, and which were placed.
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

// awaitPods waits until some pod can be tried, and the process has nothing left to do.
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
