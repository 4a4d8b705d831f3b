package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/topology"
)

// result is the last line.
type result struct {
	Seed  uint64 `json:"seed"`
	Gangs int    `json:"gangs"`
	// Whole counts gangs whose minimum was bound.
	Whole int `json:"whole"`
	// PartialPastDeadline counts gangs with 1 to minimum-1 members bound past their deadline.
	PartialPastDeadline int `json:"partialPastDeadline"`
	// Deadlocks counts gangs that fit and never became complete although no other pod had
	// resources.
	Deadlocks int `json:"deadlocks"`
	// Refused counts pods that kubelets have refused.
	Refused int `json:"refused"`
	// Mispredicted counts exact placements that differ from the kubelet's assignment.
	Mispredicted int `json:"mispredicted"`
	// Leftover counts remains of deleted pods and gangs.
	Leftover int `json:"leftover"`
}

// clean reports whether all counts that must be zero are zero.
func (r *result) clean() bool {
	return r.PartialPastDeadline+r.Deadlocks+r.Refused+r.Mispredicted+r.Leftover == 0
}

// seen is the observed state of a pod.
type seen struct {
	pod *corev1.Pod
	// bound is when it was first seen with a node.
	bound  time.Time
	judged bool
	failed bool
	// leaving means that the driver has deleted the pod.
	leaving bool
	evicted bool
	// left is when the pod was first seen as deleted; held are the CPUs that it had while it ran.
	left time.Time
	held topology.CPUSet
}

// watched is a gang with its observed state.
type watched struct {
	*Gang
	// made is when its first pod was created.
	made time.Time
	// whole is when its minimum was seen bound; zero means never.
	whole time.Time
	// partialSince is when a part of its minimum was first seen bound.
	partialSince time.Time
	partial      bool
	// evicted means that the scheduler has evicted some of its members.
	evicted bool
}

// observer watches all pods and records failures. It is safe for concurrent use.
type observer struct {
	out io.Writer
	now func() time.Time
	// differs returns a pod's CPUs, and the differences from an exact placement.
	differs func(pod *corev1.Pod) (held topology.CPUSet, wrong string, err error)
	// restarted is the last restart of each node's kubelet.
	restarted map[string]time.Time

	mu      sync.Mutex
	pods    map[types.UID]*seen
	ended   map[types.UID]bool // pods that are gone
	gangs   map[string]*watched
	result  result
	wrong   int
	excused int
	evicted int
	// overtaken counts exact placements that differ because another pod ended first; leavers are
	// deleted pods.
	overtaken int
	leavers   []*seen
	exact     int
	progress  time.Time // when a pod was last bound or last left
}

func newObserver(out io.Writer, differs func(*corev1.Pod) (topology.CPUSet, string, error)) *observer {
	return &observer{out: out, now: time.Now, differs: differs, restarted: map[string]time.Time{}, pods: map[types.UID]*seen{}, ended: map[types.UID]bool{}, gangs: map[string]*watched{}}
}

// start watches until ctx ends.
func (o *observer) start(ctx context.Context, c kubernetes.Interface) error {
	factory := informers.NewSharedInformerFactoryWithOptions(c, 0, informers.WithNamespace(namespace))
	handle, err := factory.Core().V1().Pods().Informer().AddEventHandler(trial.Handler(o.see, o.gone))
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), handle.HasSynced) {
		return ctx.Err()
	}
	return nil
}

// complain records a failure. The caller holds mu.
func (o *observer) complain(format string, args ...any) {
	o.wrong++
	fmt.Fprintf(o.out, "WRONG "+format+"\n", args...)
}

// see records the API's state of a pod.
func (o *observer) see(pod *corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.pods[pod.UID]
	if s == nil {
		s = &seen{}
		o.pods[pod.UID] = s
	}
	s.pod = pod
	o.leave(s, pod.DeletionTimestamp != nil)
	g := o.gangs[pod.Labels[gangLabel]]
	if pod.Spec.NodeName != "" && s.bound.IsZero() {
		s.bound, o.progress = o.now(), o.now()
	}
	if g != nil && g.TooLarge && pod.Spec.NodeName != "" {
		o.complain("pod %s of a gang that does not fit is bound to %s", pod.Name, pod.Spec.NodeName)
	}
	if g != nil && g.TooLarge && pod.Status.NominatedNodeName != "" {
		o.complain("pod %s of a gang that does not fit is nominated to %s", pod.Name, pod.Status.NominatedNodeName)
	}
	o.seeEviction(s, g)
	switch pod.Status.Phase {
	case corev1.PodFailed:
		o.seeRefusal(s)
	case corev1.PodRunning:
		o.judge(s)
	}
	if g != nil {
		o.count(g)
	}
}

// preempted is the reason of the condition DisruptionTarget of a pod that a scheduler evicts.
const preempted = corev1.PodReasonPreemptionByScheduler

// seeEviction checks that pods are evicted only for urgent gangs that fit. The caller holds mu.
func (o *observer) seeEviction(s *seen, of *watched) {
	if s.evicted {
		return
	}
	for i := range s.pod.Status.Conditions {
		if c := &s.pod.Status.Conditions[i]; c.Type != corev1.DisruptionTarget || c.Status != corev1.ConditionTrue || c.Reason != preempted {
			continue
		}
		s.evicted = true
		o.evicted++
		if of != nil {
			of.evicted = true
		}
		if why := o.vain(s.pod); why != "" {
			o.complain("pod %s was evicted, and %s", s.pod.Name, why)
		}
	}
}

// vain explains why the pod's eviction cannot have helped another pod; "" if it may have helped.
// The caller holds mu.
func (o *observer) vain(pod *corev1.Pod) string {
	for _, g := range o.gangs {
		if g.Urgent && !g.TooLarge && !g.made.IsZero() && (g.whole.IsZero() || o.now().Sub(g.whole) < time.Minute) && pod.Labels[gangLabel] != g.Name {
			return ""
		}
	}
	return "no urgent gang that fits was waiting"
}

// afterRestart is how long a restarted kubelet may refuse pods that it has no record of.
const afterRestart = 20 * time.Second

// hasRestarted reports whether the pod's kubelet has just restarted. The caller holds mu.
func (o *observer) hasRestarted(node string) bool {
	at, ok := o.restarted[node]
	return ok && o.now().Sub(at) < afterRestart
}

// seeRefusal counts pods that a kubelet has refused. The caller holds mu.
func (o *observer) seeRefusal(s *seen) {
	if s.failed || s.pod.Status.Reason == "" || s.pod.DeletionTimestamp != nil {
		return
	}
	s.failed = true
	if o.hasRestarted(s.pod.Spec.NodeName) {
		o.excused++
		return
	}
	if left := o.leftMeanwhile(s); left != "" && len(s.pod.Spec.InitContainers) > 0 {
		o.overtaken++
		fmt.Fprintf(o.out, "pod %s on %s: refused, its init container got CPUs of %s, which was leaving\n", s.pod.Name, s.pod.Spec.NodeName, left)
		return
	}
	o.result.Refused++
	o.complain("node %s refused pod %s: %s: %s", s.pod.Spec.NodeName, s.pod.Name, s.pod.Status.Reason, s.pod.Status.Message)
}

// judge compares an exact placement with the kubelet's assignment. The caller holds mu.
func (o *observer) judge(s *seen) {
	if s.judged || s.leaving || s.pod.DeletionTimestamp != nil {
		return
	}
	s.judged = true
	held, wrong, err := o.differs(s.pod)
	s.held = held
	switch {
	case err != nil:
		o.complain("pod %s on %s: %v", s.pod.Name, s.pod.Spec.NodeName, err)
	case wrong != "" && o.hasRestarted(s.pod.Spec.NodeName):
		o.excused++
	case wrong != "" && o.wasOvertaken(s):
		o.overtaken++
		fmt.Fprintf(o.out, "pod %s on %s: %s: CPUs of a pod that was leaving\n", s.pod.Name, s.pod.Spec.NodeName, wrong)
	case wrong != "":
		o.result.Mispredicted++
		o.complain("pod %s on %s: %s", s.pod.Name, s.pod.Spec.NodeName, wrong)
	default:
		o.exact++
	}
}

// hearing is how long the watch of a scheduler on a busy machine may take to show a pod's deletion.
const hearing = 3 * time.Second

// leave records when a pod was first seen as deleted. The caller holds mu.
func (o *observer) leave(s *seen, deleted bool) {
	if !deleted || !s.left.IsZero() {
		return
	}
	s.left = o.now()
	o.leavers = append(slices.DeleteFunc(o.leavers, func(l *seen) bool { return o.now().Sub(l.left) > time.Minute }), s)
}

// wasOvertaken reports whether every unpredicted CPU of the pod belonged to a pod that was deleted
// while the Binding was written, or later. An exact promise assumes that pods stay unless they were
// known to be deleted. The caller holds mu.
func (o *observer) wasOvertaken(s *seen) bool {
	promised, _, err := wire.ReadPlacement(s.pod)
	if err != nil {
		return false
	}
	more := s.held
	for i := range promised.Decision.Containers {
		more = more.AndNot(&promised.Decision.Containers[i].CPUs)
	}
	some := !more.IsEmpty()
	for _, l := range o.leavers {
		if l.pod.Spec.NodeName == s.pod.Spec.NodeName && l.left.After(s.bound.Add(-hearing)) {
			more = more.AndNot(&l.held)
		}
	}
	return some && more.IsEmpty()
}

// leftMeanwhile names a pod that was deleted from the pod's node while its Binding was written, or
// later; "" for none. If the first container gets the resources of such a pod, the other containers
// may find no room, because a kubelet keeps all containers on the NUMA nodes of the first. The
// caller holds mu.
func (o *observer) leftMeanwhile(s *seen) string {
	for _, l := range o.leavers {
		if l.pod.Spec.NodeName == s.pod.Spec.NodeName && l.left.After(s.bound.Add(-hearing)) && !l.held.IsEmpty() {
			return l.pod.Name
		}
	}
	return ""
}

// tally counts members of a gang with nodes, in total and by task, and returns the living members.
func (o *observer) tally(g *watched) (bound int, tasks map[string]int, alive []*corev1.Pod) {
	tasks = map[string]int{}
	for _, s := range o.pods {
		if s.pod.Labels[gangLabel] != g.Name || s.pod.DeletionTimestamp != nil || s.pod.Status.Phase == corev1.PodFailed {
			continue
		}
		alive = append(alive, s.pod)
		if s.pod.Spec.NodeName != "" {
			bound++
			tasks[s.pod.Annotations[volcano.TaskSpecAnnotation]]++
		}
	}
	return bound, tasks, alive
}

// count records that a gang has become complete or partial. The caller holds mu.
func (o *observer) count(g *watched) {
	if !g.whole.IsZero() {
		return
	}
	bound, tasks, _ := o.tally(g)
	enough := bound >= g.Minimum
	for task, least := range g.Tasks {
		enough = enough && tasks[task] >= least
	}
	switch {
	case enough:
		g.whole = o.now()
		o.result.Whole++
	case bound == 0:
		g.partialSince = time.Time{}
	case g.partialSince.IsZero():
		g.partialSince = o.now()
	}
}

// grace is how long after its deadline a gang may still have bound members, if the scheduler has
// run all that time.
const grace = 30 * time.Second

// late records gangs that are partial past their deadline. runs is when the scheduler started; zero
// means that it does not run.
func (o *observer) late(runs time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	if runs.IsZero() {
		return
	}
	for _, g := range o.gangs {
		if g.partial || g.partialSince.IsZero() || !g.whole.IsZero() {
			continue
		}
		timeout := g.Timeout
		if timeout == 0 {
			timeout = gangTimeout
		}
		since := g.partialSince
		if since.Before(runs) {
			since = runs // a leader counts from its own start
		}
		deadline := since.Add(timeout)
		if now.After(deadline.Add(grace)) {
			g.partial = true
			o.result.PartialPastDeadline++
			bound, _, _ := o.tally(g)
			o.complain("gang %s has %d of %d members bound, %v past its deadline", g.Name, bound, g.Minimum, now.Sub(deadline).Round(time.Second))
		}
	}
}

// gone records a deletion. If the gang was complete, the driver must have deleted the member, or
// the scheduler evicted it.
func (o *observer) gone(pod *corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.pods[pod.UID]
	if s != nil {
		o.leave(s, true)
	}
	delete(o.pods, pod.UID)
	o.ended[pod.UID] = true
	o.progress = o.now()
	g := o.gangs[pod.Labels[gangLabel]]
	if s == nil || g == nil {
		return
	}
	if !s.leaving && !s.evicted && !g.whole.IsZero() && s.pod.Spec.NodeName != "" {
		o.complain("pod %s of gang %s, which was whole, was deleted by the scheduler", pod.Name, g.Name)
	}
	o.count(g)
}
