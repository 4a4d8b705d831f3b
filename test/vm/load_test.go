package vm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// load is a sequence of pods with churn, determined by its seed. The machines are so full that
// fitting amounts are not enough.
type load struct {
	rounds, perRound int
	maxCPUs          int
	memory           bool   // vary memory, so that it also decides
	hugepages        bool   // some pods ask for 2 MiB pages
	seed             uint64 // makes the pods differ
	scheduler        string // the scheduler of the pods; "" is Berth's
}

// pods returns the pods of a round.
func (l load) pods(round int) []*corev1.Pod {
	rng := rand.New(rand.NewPCG(l.seed, uint64(round)))
	var out []*corev1.Pod
	for i := range l.perRound {
		cpus := 1 + rng.IntN(l.maxCPUs)
		pod := pinnedPod(fmt.Sprintf("r%d-%d", round, i), cpus)
		pod.Spec.SchedulerName = l.scheduler
		res := &pod.Spec.Containers[0].Resources
		if l.memory {
			setBoth(res, corev1.ResourceMemory, resource.MustParse(fmt.Sprintf("%dMi", 32+rng.IntN(5)*64)))
		}
		if l.hugepages && rng.IntN(2) == 0 {
			setBoth(res, "hugepages-2Mi", resource.MustParse(fmt.Sprintf("%dMi", 2+2*rng.IntN(8))))
		}
		if rng.IntN(4) == 0 {
			withInit(pod, cpus)
		}
		out = append(out, pod)
	}
	return out
}

// setBoth sets request and limit. Their lists may be the same map.
func setBoth(r *corev1.ResourceRequirements, name corev1.ResourceName, q resource.Quantity) {
	r.Limits[name], r.Requests[name] = q, q
}

// withInit adds an init container that ends at once and has the requests of the first container.
func withInit(pod *corev1.Pod, cpus int) {
	init := *pod.Spec.Containers[0].DeepCopy()
	init.Name, init.Command = "i", []string{"/bin/sh", "-c", "exit 0"}
	setBoth(&init.Resources, corev1.ResourceCPU, *resource.NewQuantity(int64(cpus), resource.DecimalSI))
	pod.Spec.InitContainers = []corev1.Container{init}
}

// tally has the results of a load.
type tally struct {
	Pods, Running, Exact, Wrong, Pending int
	Refused                              map[string]int
}

func (t tally) String() string {
	return fmt.Sprintf("%d pods, %d ran, %d exact, %d wrong, %d waiting, %d refused: %s", t.Pods, t.Running, t.Exact, t.Wrong, t.Pending, t.refusals(), t.reasons())
}

// play creates the load round by round. After each round it waits until every pod has run, been
// refused, or waits for room; compares the running ones with their Bindings; and deletes every
// other pod.
func (c *cluster) play(l load, machines ...*Machine) tally {
	c.t.Helper()
	out := tally{Refused: map[string]int{}}
	checked := map[string]bool{}
	for round := range l.rounds {
		for _, pod := range l.pods(round) {
			out.Pods++
			if _, err := c.Client.CoreV1().Pods("default").Create(c.t.Context(), pod, metav1.CreateOptions{}); err != nil {
				c.t.Fatal(err)
			}
		}
		pods := c.settled()
		c.verify(pods, machines, checked, &out)
		c.clear(pods, round == l.rounds-1, &out)
	}
	return out
}

// settled waits until every pod runs, has ended, or is unschedulable.
func (c *cluster) settled() []corev1.Pod {
	c.t.Helper()
	var pods []corev1.Pod
	version, since := "", time.Now()
	check := func() error {
		list, err := c.Client.CoreV1().Pods("default").List(c.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		pods = list.Items
		if now := versions(pods); now != version {
			version, since = now, time.Now()
		}
		if time.Since(since) < quiet {
			return errors.New("pods changed a moment ago")
		}
		for i := range pods {
			if p := &pods[i]; !isSettled(p) {
				return fmt.Errorf("pod %s on %q: phase %s", p.Name, p.Spec.NodeName, p.Status.Phase)
			}
		}
		return nil
	}
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for err := check(); err != nil; err = check() {
		if time.Since(since) > patience {
			c.t.Fatalf("no pod has changed for %s, and the pods are not settled: %v", patience, err)
		}
		select {
		case <-tick.C:
			c.schedulersRun()
		case <-c.t.Context().Done():
			c.t.Fatal(c.t.Context().Err())
		}
	}
	return pods
}

// quiet is how long the cluster must be unchanged before waiting pods count as waiting for room,
// not for a report.
const quiet = 2 * time.Second

func versions(pods []corev1.Pod) string {
	var b strings.Builder
	for i := range pods {
		fmt.Fprintln(&b, pods[i].UID, pods[i].ResourceVersion)
	}
	return b.String()
}

func isSettled(p *corev1.Pod) bool {
	switch p.Status.Phase {
	case corev1.PodRunning:
		return p.DeletionTimestamp == nil && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Running != nil
	case corev1.PodFailed, corev1.PodSucceeded:
		return true
	}
	return slices.ContainsFunc(p.Status.Conditions, func(cond corev1.PodCondition) bool {
		return cond.Type == corev1.PodScheduled && cond.Reason == corev1.PodReasonUnschedulable
	})
}

// verify compares every running pod, once, with its Binding.
func (c *cluster) verify(pods []corev1.Pod, machines []*Machine, checked map[string]bool, out *tally) {
	c.t.Helper()
	var lock sync.Mutex
	var all sync.WaitGroup
	for i := range pods {
		p := &pods[i]
		if p.Status.Phase != corev1.PodRunning || checked[string(p.UID)] {
			continue
		}
		checked[string(p.UID)] = true
		out.Running++
		at := slices.IndexFunc(machines, func(m *Machine) bool { return m.Name == p.Spec.NodeName })
		all.Go(func() {
			exact, wrong := c.judge(machines[at], p)
			lock.Lock()
			defer lock.Unlock()
			out.Exact += exact
			out.Wrong += wrong
		})
	}
	all.Wait()
}

// judge reports whether a pod's Binding was exact, and whether it was wrong.
func (c *cluster) judge(m *Machine, p *corev1.Pod) (exact, wrong int) {
	promised, found, err := wire.ReadPlacement(p)
	if err != nil {
		c.t.Errorf("pod %s: %v", p.Name, err)
	}
	if !found || promised.Certainty != wire.Exact {
		return 0, 0
	}
	got := c.confined(m, p, "c")
	for i := range promised.Decision.Containers {
		d := &promised.Decision.Containers[i]
		if d.Name != "c" {
			continue
		}
		var mems topology.NUMASet
		for _, b := range d.Memory {
			mems |= b.NUMA
		}
		if d.CPUs != got.CPUs && !d.CPUs.IsEmpty() || mems != 0 && mems != got.Mems {
			c.t.Errorf("pod %s runs on CPUs %v, memory of %v; its Binding says %v, %v", p.Name, got.CPUs, got.Mems, d.CPUs, mems)
			return 1, 1
		}
	}
	return 1, 0
}

// clear counts and deletes the refused pods, and deletes every other running pod, or with end all
// pods.
func (c *cluster) clear(pods []corev1.Pod, end bool, out *tally) {
	c.t.Helper()
	var doomed []string
	for i := range pods {
		p := &pods[i]
		switch {
		case p.Status.Phase == corev1.PodFailed:
			out.Refused[p.Status.Reason]++
		case p.Status.Phase == corev1.PodPending && end:
			out.Pending++
		case !end && i%2 == 0, p.Status.Phase == corev1.PodPending && !end:
			continue
		}
		doomed = append(doomed, p.Name)
		if err := c.Client.CoreV1().Pods("default").Delete(c.t.Context(), p.Name, metav1.DeleteOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
	c.eventually("deleted pods are gone", func(ctx context.Context) error {
		list, err := c.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if slices.Contains(doomed, list.Items[i].Name) {
				return fmt.Errorf("%s is still there", list.Items[i].Name)
			}
		}
		return nil
	})
}
