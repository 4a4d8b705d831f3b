package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/test/obeyed"
	"github.com/berth-dev/berth/test/tenant"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/topology"
)

// contendedWithin is how long the scheduler may need to learn about a pod that the tenant created
// with a node's name. A Binding to that node during this time is excused.
const contendedWithin = 3 * time.Second

// seen is the observed state of a pod.
type seen struct {
	pod *corev1.Pod
	// came is when it was first seen, bound when it was first seen with a node.
	came, bound time.Time
	told        bool // its harm was recorded
}

// watcher watches all pods and reports, and records harm. It is safe for concurrent use.
type watcher struct {
	out      io.Writer
	machines map[string]*topology.Machine // of the nodes that obey

	mu   sync.Mutex
	pods map[types.UID]*seen
	// came are the friendly pods that were ever seen, killed the harmed ones.
	came   map[types.UID]bool
	killed []*corev1.Pod
	// leaving are the units whose pods the friendly load deletes itself.
	leaving map[string]bool
	// foes are the UIDs of all objects of the tenant that were ever seen.
	foes map[string]bool
	// named is when a pod of the tenant was last created with a node's name, by node.
	named map[string]time.Time
	lost  map[string]bool // nodes that are not Ready now
	over  bool
	all   harm
	// contended counts friendly pods that a kubelet refused because a pod of the tenant came first.
	contended int
	// withheld is the largest number of CPUs that the tenant's pods ever kept from others.
	withheld int
}

// harm has the counts that must be zero.
type harm struct{ Killed, NodesLost, OverQuota, Stuck int }

// harmNames are the names of the last line; leftover is only known at the end.
var harmNames = []string{"killed", "nodesLost", "overQuota", "stuck", "leftover"}

// of returns the count of that name.
func (h harm) of(name string) int {
	return map[string]int{"killed": h.Killed, "nodesLost": h.NodesLost, "overQuota": h.OverQuota, "stuck": h.Stuck}[name]
}

func newWatcher(out io.Writer) (*watcher, error) {
	w := &watcher{out: out, machines: map[string]*topology.Machine{}, pods: map[types.UID]*seen{}, came: map[types.UID]bool{}, leaving: map[string]bool{}, foes: map[string]bool{},
		named: map[string]time.Time{}, lost: map[string]bool{}}
	for _, s := range specs() {
		m, err := topology.Parse(s.Machine)
		if err != nil {
			return nil, err
		}
		if s.NRI {
			w.machines[s.Name] = m
		}
	}
	return w, nil
}

// start watches until ctx ends.
func (w *watcher) start(ctx context.Context, c *cluster) error {
	pods := informers.NewSharedInformerFactory(c.Client, 0)
	nodes := dynamicinformer.NewDynamicSharedInformerFactory(c.Objects, 0)
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods.Core().V1().Pods().Informer():                    trial.Handler(w.see, w.gone),
		nodes.ForResource(v1alpha1.NodeTopologies).Informer(): trial.Handler(w.report, func(*unstructured.Unstructured) {}),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	pods.Start(ctx.Done())
	nodes.Start(ctx.Done())
	pods.WaitForCacheSync(ctx.Done())
	nodes.WaitForCacheSync(ctx.Done())
	return ctx.Err()
}

// tell records harm. The caller holds mu.
func (w *watcher) tell(count *int, format string, args ...any) {
	*count++
	fmt.Fprintf(w.out, "HARM "+format+"\n", args...)
}

// see records the API's state of a pod.
func (w *watcher) see(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.pods[pod.UID]
	if s == nil {
		s = &seen{came: time.Now()}
		w.pods[pod.UID] = s
	}
	s.pod = pod
	if s.bound.IsZero() && pod.Spec.NodeName != "" {
		s.bound = time.Now()
	}
	switch pod.Namespace {
	case friends:
		w.came[pod.UID] = true
		w.judge(s)
	case tenant.Namespace:
		w.foes[string(pod.UID)] = true
		if pod.Spec.NodeName != "" && !wire.HasPlacement(pod) && s.bound.After(w.named[pod.Spec.NodeName]) {
			w.named[pod.Spec.NodeName] = s.bound
		}
		w.judgeQuota()
	}
}

// judge records whether a friendly pod is harmed. The caller holds mu.
func (w *watcher) judge(s *seen) {
	if s.told || w.leaving[s.pod.Labels[tenant.UnitLabel]] {
		return
	}
	switch pod := s.pod; {
	case pod.DeletionTimestamp != nil:
		s.told = true
		w.kill(pod, "is deleted, and not by its owner: "+conditions(pod))
	case pod.Status.Phase == corev1.PodFailed:
		s.told = true
		if wire.Refused(pod) && s.bound.Sub(w.named[pod.Spec.NodeName]) < contendedWithin {
			w.contended++
			fmt.Fprintf(w.out, "excused: friendly pod %s was refused on %s, where a pod of the tenant had just come with the node's name: %s\n",
				pod.Name, pod.Spec.NodeName, pod.Status.Message)
			return
		}
		w.kill(pod, "failed: "+pod.Status.Reason+" "+pod.Status.Message)
	}
}

// kill records that a pod of the friendly load was evicted or deleted. The caller holds mu.
func (w *watcher) kill(pod *corev1.Pod, how string) {
	w.killed = append(w.killed, pod)
	w.tell(&w.all.Killed, "friendly pod %s (%s of %s) on %q %s", pod.Name, pod.UID, pod.Labels[tenant.UnitLabel], pod.Spec.NodeName, how)
}

func conditions(pod *corev1.Pod) string {
	var all []string
	for _, c := range pod.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			all = append(all, string(c.Type)+" "+c.Reason)
		}
	}
	return strings.Join(all, ", ")
}

// gone records that a pod is gone.
func (w *watcher) gone(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.pods[pod.UID]; s != nil && pod.Namespace == friends && !s.told && !w.leaving[pod.Labels[tenant.UnitLabel]] {
		w.kill(pod, "is gone, and not by its owner")
	}
	delete(w.pods, pod.UID)
}

// report records a node's report.
func (w *watcher) report(of *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	reason, message := notReady(of)
	if reason != "" && !w.lost[of.GetName()] {
		w.tell(&w.all.NodesLost, "node %s is not Ready: %s: %s", of.GetName(), reason, message)
	}
	w.lost[of.GetName()] = reason != ""
}

// judgeQuota records when the tenant's pods keep more CPUs from others than its quota. The caller
// holds mu.
func (w *watcher) judgeQuota() {
	held := 0
	var most []string
	for _, s := range w.pods {
		if s.pod.Namespace == tenant.Namespace && s.pod.Spec.NodeName != "" && !wire.Ended(s.pod) {
			n := withheld(w.machines[s.pod.Spec.NodeName], s.pod)
			if held += n; n > 0 {
				most = append(most, fmt.Sprintf("%s %d on %s%s", s.pod.Name, n, s.pod.Spec.NodeName, leaving(s.pod)))
			}
		}
	}
	w.withheld = max(w.withheld, held)
	if held > quotaCPUs && !w.over {
		slices.Sort(most)
		w.tell(&w.all.OverQuota, "the tenant's pods keep %d CPUs from others, and its quota is %d: %v", held, quotaCPUs, most)
	}
	w.over = held > quotaCPUs
}

// leaving returns the time by which a terminating pod should be gone. A quota does not count pods
// that take longer (QuotaV1Pod of k8s.io/kubernetes/pkg/quota/v1/evaluator/core).
func leaving(pod *corev1.Pod) string {
	if pod.DeletionTimestamp == nil {
		return ""
	}
	return " leaving by " + pod.DeletionTimestamp.UTC().Format(time.TimeOnly)
}

// withheld returns the number of whole CPUs that other pods cannot use because of a pod's decision.
// If the kubelet decides, m is nil, and the number is the request.
func withheld(m *topology.Machine, pod *corev1.Pod) int {
	p, found, err := wire.ReadPlacement(pod)
	if !found || err != nil {
		return 0
	}
	var all topology.CPUSet
	for i := range p.Decision.Containers {
		d := &p.Decision.Containers[i]
		alone := d.CPUs
		if m != nil {
			alone = obeyed.AloneFor(m, d)
			alone = alone.Or(wholeNodes(m, d))
		}
		all = all.Or(&alone)
	}
	return all.Len()
}

// wholeNodes returns the CPUs of the NUMA nodes that a decision has exclusively.
func wholeNodes(m *topology.Machine, d *placement.ContainerDecision) *topology.CPUSet {
	out := &topology.CPUSet{}
	for i := range m.NUMANodes {
		if n := &m.NUMANodes[i]; d.Exclusive == joint.ExclusiveNUMA && n.CPUs.Intersects(&d.CPUs) {
			*out = out.Or(&n.CPUs)
		}
	}
	return out
}

// leave records that the friendly load deletes a unit.
func (w *watcher) leave(unit string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaving[unit] = true
}

// state is the progress of a unit's pods.
type state struct {
	there, bound int
	came, last   time.Time // when the last pod was seen, and when the last pod got its node
	failed       bool      // a pod has failed
}

// unit returns the state of a unit.
func (w *watcher) unit(name string) (out state) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.pods {
		if s.pod.Namespace != friends || s.pod.Labels[tenant.UnitLabel] != name {
			continue
		}
		out.there++
		out.failed = out.failed || s.pod.Status.Phase == corev1.PodFailed
		out.came = latest(out.came, s.came)
		if !s.bound.IsZero() {
			out.bound++
			out.last = latest(out.last, s.bound)
		}
	}
	return out
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// cameAll reports whether all of these friendly pods have ever been seen.
func (w *watcher) cameAll(pods []types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(pods, func(uid types.UID) bool { return !w.came[uid] })
}

// accuse prints for each harmed pod the users that deleted it.
func (w *watcher) accuse(by deletions) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, pod := range w.killed {
		who, err := by.of(pod)
		if err != nil {
			return err
		}
		fmt.Fprintf(w.out, "deletions of %s (%s): %d\n", pod.Name, pod.UID, len(who))
		for _, line := range who {
			fmt.Fprintln(w.out, "  ", line)
		}
	}
	return nil
}

// stuck records that a friendly unit was not placed.
func (w *watcher) stuck(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(&w.all.Stuck, format, args...)
}

// harms returns the counts so far.
func (w *watcher) harms() harm {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all
}

// foePods returns the tenant's pods.
func (w *watcher) foePods() (all []*corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.pods {
		if s.pod.Namespace == tenant.Namespace {
			all = append(all, s.pod)
		}
	}
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return all
}

// marks are the tenant's namespace and every UID in it.
func (w *watcher) marks() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{tenant.Namespace}, slices.Sorted(maps.Keys(w.foes))...)
}

// inReports counts the reports of nodes that list the tenant.
func inReports(reports []unstructured.Unstructured, marks []string) (where []string) {
	for i := range reports {
		text, _ := json.Marshal(reports[i].Object)
		for _, m := range marks {
			if strings.Contains(string(text), m) {
				where = append(where, "the report of "+reports[i].GetName()+" lists "+m)
				break
			}
		}
	}
	return where
}
