package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/controlplane/controllers"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/moving"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
)

// Limits and intervals of waiting.
const (
	startLimit  = 5 * time.Minute
	settleLimit = 2 * time.Minute
	pollEvery   = 200 * time.Millisecond
	// quiet is how long the cluster must be unchanged before a plan is made.
	quiet = time.Second
)

const namespace = "default"

// machines are the machines of the nodes. Each has 14 or 15 CPUs for pods, on two or four NUMA
// nodes.
var machines = []string{"package:2 numa:1 core:4 pu:2 mem:16Gi", "package:1 numa:2 core:4 pu:2 mem:16Gi"}

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: single-numa-node
reservedSystemCPUs: "0"
`

// player runs the test on one cluster.
type player struct {
	*demo.Cluster
	o      *options
	out    io.Writer
	random *rand.Rand
	survey *survey.Cluster

	mu     sync.Mutex
	result result
	// guarded has the replica sets that were complete when the plan began, with their number of
	// replicas.
	guarded map[string]int
	sets    int // number of replica sets so far
	alive   []string
}

// play starts a cluster, runs the test, and stops the cluster.
func play(ctx context.Context, o *options, out io.Writer) (_ *result, err error) {
	p := &player{o: o, out: out, random: rand.New(rand.NewPCG(o.seed, 18)), result: result{Seed: o.seed}}
	nodes := p.nodes()
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if p.Cluster, err = demo.Up(starting, demo.Options{Own: nodes, Self: []string{os.Args[0]}, Progress: out}, demo.Berth{}); err != nil {
		return &p.result, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	config := p.ControlPlane.RESTConfig()
	stopControllers, err := controllers.Start(starting, config)
	if err != nil {
		return &p.result, err
	}
	defer stopControllers()
	p.survey, err = survey.Connect(source.Options{Config: config, Namespace: namespace, Heartbeats: v1alpha1.HeartbeatNamespace, StaleAfter: time.Minute, Where: "the play"})
	if err != nil {
		return &p.result, err
	}
	watching, stopWatching := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { p.countViolations(watching) })
	err = p.rounds(ctx)
	stopWatching()
	watcher.Wait()
	return &p.result, err
}

// rounds repeats until enough plans were carried out.
func (p *player) rounds(ctx context.Context) error {
	for round := 0; p.result.Plans < p.o.plans; round++ {
		if round > 10*p.o.plans {
			return fmt.Errorf("%d rounds gave %d plans", round, p.result.Plans)
		}
		if err := p.fill(ctx); err != nil {
			return err
		}
		if err := p.round(ctx, fmt.Sprint("wanted-", round)); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// fill creates replica sets until pods use at least three of five CPUs.
func (p *player) fill(ctx context.Context) error {
	for {
		taken, err := p.settle(ctx)
		if err != nil {
			return err
		}
		if taken*10 >= p.o.nodes*15*(6+p.random.IntN(3)) {
			return nil
		}
		if err := p.add(ctx); err != nil {
			return err
		}
	}
}

// add makes a replica set with a budget.
func (p *player) add(ctx context.Context) error {
	p.sets++
	name := fmt.Sprint("set-", p.sets)
	replicas := int32(1 + p.random.IntN(3))
	labels := map[string]string{"set": name}
	cpus := fmt.Sprint(1 + p.random.IntN(4))
	spec := appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.ReplicaSetSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec(cpus)},
	}}
	one := intstr.FromInt32(1)
	budget := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
	}}
	p.alive = append(p.alive, name)
	_, err := p.Client.PolicyV1().PodDisruptionBudgets(namespace).Create(ctx, &budget, metav1.CreateOptions{})
	if err == nil {
		_, err = p.Client.AppsV1().ReplicaSets(namespace).Create(ctx, &spec, metav1.CreateOptions{})
	}
	return err
}

// remove deletes replica sets, so that other CPUs are free in the next round.
func (p *player) remove(ctx context.Context) error {
	for range min(len(p.alive), 1+p.random.IntN(2)) {
		i := p.random.IntN(len(p.alive))
		name := p.alive[i]
		p.alive = append(p.alive[:i], p.alive[i+1:]...)
		background := metav1.DeletePropagationBackground
		err := errors.Join(p.Client.AppsV1().ReplicaSets(namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background}),
			p.Client.PolicyV1().PodDisruptionBudgets(namespace).Delete(ctx, name, metav1.DeleteOptions{}))
		if err != nil {
			return err
		}
	}
	return nil
}

func podSpec(cpus string) corev1.PodSpec {
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus), corev1.ResourceMemory: resource.MustParse("64Mi")}
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example/app", Resources: corev1.ResourceRequirements{Limits: limits}}}}
}

// round creates a pod or a gang that must wait, and carries out a plan with moves if there is one.
func (p *player) round(ctx context.Context, name string) error {
	copies := 1
	if p.random.IntN(4) == 0 {
		copies += 1 + p.random.IntN(2)
	}
	for cpus := 8; cpus >= 3; cpus-- {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: "wanted"}, Spec: podSpec(fmt.Sprint(cpus))}
		pod.Spec.SchedulerName = corev1.DefaultSchedulerName
		room, err := query.MakeRoom(ctx, p.survey, []query.Wanted{{Pod: pod, Replicas: copies}}, query.RoomOptions{})
		if err != nil {
			return err
		}
		if room.Outcome != "found" || len(room.Moves) == 0 {
			continue
		}
		pods := wantedPods(pod, copies)
		err = p.makeRoom(ctx, pods)
		now := int64(0)
		for i := range pods {
			err = errors.Join(err, p.Client.CoreV1().Pods(namespace).Delete(ctx, pods[i].Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
		}
		return errors.Join(err, p.remove(ctx))
	}
	return p.remove(ctx)
}

// wantedPods returns that many copies of a pod. Several copies are a gang.
func wantedPods(like *corev1.Pod, copies int) []*corev1.Pod {
	like.UID = ""
	if copies == 1 {
		return []*corev1.Pod{like}
	}
	out := make([]*corev1.Pod, copies)
	for i := range out {
		out[i] = like.DeepCopy()
		out[i].Name = fmt.Sprint(like.Name, "-", i)
		out[i].Annotations = map[string]string{wire.GangAnnotation: like.Name, wire.GangMinimumAnnotation: fmt.Sprint(copies)}
	}
	return out
}

// nodes returns nodes with randomly chosen machines.
func (p *player) nodes() (out []hollow.Spec) {
	for i := range p.o.nodes {
		name := fmt.Sprint("n", i+1)
		out = append(out, hollow.Spec{Name: name, Machine: machines[p.random.IntN(len(machines))], KubeletConfig: kubeletConfig,
			Labels: map[string]string{corev1.LabelHostname: name}})
	}
	return out
}

// makeRoom creates the pods, checks that they wait, and carries out a plan for them.
func (p *player) makeRoom(ctx context.Context, pods []*corev1.Pod) error {
	before, err := p.running(ctx)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if _, err := p.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	// Only the oldest pod of a waiting gang gets the condition, and the test does not know which
	// pod is the oldest.
	if err := p.until(ctx, pods, func(now []corev1.Pod) bool { return slices.ContainsFunc(now, waits) || placed(now) }); err != nil {
		return err
	}
	name := pods[0].Name
	room, err := query.MakeRoomFor(ctx, p.survey, p.survey.Namespace, name, query.RoomOptions{})
	if err != nil {
		return err
	}
	if room.Outcome != "found" || len(room.Moves) == 0 {
		fmt.Fprintf(p.out, "%s: %s with %d moves by now\n", name, room.Outcome, len(room.Moves))
		return nil
	}
	fmt.Fprintf(p.out, "%s: room for %d on %s after %d moves\n", name, len(pods), room.Wanted[0].Node, len(room.Moves))
	if err := p.move(ctx, room, pods); err != nil {
		return err
	}
	return p.compare(ctx, before)
}

// move carries out a plan, and waits for the pods that it makes room for.
func (p *player) move(ctx context.Context, room *query.Room, pods []*corev1.Pod) error {
	tell := func(format string, args ...any) { fmt.Fprintf(p.out, "  "+format+"\n", args...) }
	whole, err := p.wholeSets(ctx)
	if err != nil {
		return err
	}
	p.guard(whole)
	defer p.guard(nil)
	done, err := moving.Run(ctx, room.Moving(), moving.Options{Pods: p.Client.CoreV1(), Tell: tell, Limit: time.Minute})
	p.mu.Lock()
	p.result.Plans++
	if len(pods) > 1 {
		p.result.Gangs++
	}
	p.result.Moves += done.Moved
	p.mu.Unlock()
	if err != nil {
		fmt.Fprintf(p.out, "  stopped: %v\n", err)
	} else if err := p.until(ctx, pods, running); err == nil {
		p.result.MadeRoom++
	}
	return nil
}

// compare checks that as many replicas run as before, and that no placeholder pod is left.
func (p *player) compare(ctx context.Context, before int) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	now, holders := 0, 0
	err := wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		var err error
		if now, err = p.running(ctx); err != nil {
			return false, err
		}
		list, err := p.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: moving.HolderLabel})
		if err != nil {
			return false, err
		}
		holders = len(list.Items)
		return now >= before && holders == 0, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		fmt.Fprintf(p.out, "  worse: %d replicas ran, %d run now, %d placeholders are left\n", before, now, holders)
		p.result.Worse++
		return nil
	}
	return err
}

// running counts replicas that run.
func (p *player) running(ctx context.Context) (n int, err error) {
	list, err := p.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "set"})
	if err != nil {
		return 0, err
	}
	for i := range list.Items {
		if pod := &list.Items[i]; pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
			n++
		}
	}
	return n, nil
}

// settle waits until every pod runs or waits. taken is the number of CPUs of running pods.
func (p *player) settle(ctx context.Context) (taken int, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	var since time.Time
	err = wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		settled := false
		if settled, taken, err = p.isSettled(ctx); err != nil {
			return false, err
		}
		switch {
		case !settled:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		}
		return settled && time.Since(since) > quiet, p.Ended()
	})
	return taken, err
}

// isSettled reports if every pod runs or waits now, and how many CPUs are taken.
func (p *player) isSettled(ctx context.Context) (settled bool, taken int, err error) {
	s, err := p.survey.Survey(ctx, "")
	if err != nil {
		return false, 0, err
	}
	list, err := p.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, 0, err
	}
	settled = true
	for i := range list.Items {
		pod := &list.Items[i]
		settled = settled && pod.DeletionTimestamp == nil && (pod.Status.Phase == corev1.PodRunning || waits(*pod))
		if pod.Spec.NodeName != "" {
			taken += int(pod.Spec.Containers[0].Resources.Limits.Cpu().Value())
		}
	}
	for _, n := range s.Nodes() {
		settled = settled && n.InFlight == 0 && n.Trouble == nil && n.Report > 0
	}
	return settled, taken, nil
}

// waits reports if a scheduler has found no node for the pod.
func waits(pod corev1.Pod) bool {
	return pod.Spec.NodeName == "" && wire.Unscheduled(&pod).Type != ""
}

// until reads the pods until so returns true for them.
func (p *player) until(ctx context.Context, pods []*corev1.Pod, so func([]corev1.Pod) bool) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		now := make([]corev1.Pod, len(pods))
		for i := range pods {
			pod, err := p.Client.CoreV1().Pods(namespace).Get(ctx, pods[i].Name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			now[i] = *pod
		}
		return so(now), nil
	})
}

func placed(pods []corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName == "" })
}

func running(pods []corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning })
}

// countViolations counts rejected pods and violated PodDisruptionBudgets until ctx ends.
func (p *player) countViolations(ctx context.Context) {
	refused := map[string]bool{}
	_ = wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		pods, err := p.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, nil // read again soon
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; wire.Refused(pod) {
				refused[string(pod.UID)] = true
			}
		}
		healthy := healthyBySet(pods.Items)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.result.Refused = len(refused)
		for set, whole := range p.guarded {
			if healthy[set] < whole-1 {
				p.result.PDBViolated++
				delete(p.guarded, set) // counts only once
			}
		}
		return false, nil
	})
}

// guard sets the replica sets that countViolations checks. All their replicas run, and their
// budgets allow one to be missing. nil stops the check.
func (p *player) guard(sets map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.guarded = sets
}

// healthyBySet counts, as a PodDisruptionBudget does, pods that are ready and not ending.
func healthyBySet(pods []corev1.Pod) map[string]int {
	out := map[string]int{}
	for i := range pods {
		pod := &pods[i]
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				out[pod.Labels["set"]]++
			}
		}
	}
	return out
}

// wholeSets returns the replica sets in which all replicas are healthy.
func (p *player) wholeSets(ctx context.Context) (map[string]int, error) {
	sets, err := p.Client.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	pods, err := p.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "set"})
	if err != nil {
		return nil, err
	}
	healthy, out := healthyBySet(pods.Items), map[string]int{}
	for i := range sets.Items {
		if s := &sets.Items[i]; healthy[s.Name] == int(*s.Spec.Replicas) {
			out[s.Name] = healthy[s.Name]
		}
	}
	return out, nil
}
