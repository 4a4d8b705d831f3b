package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
)

// TestRace runs cases in which a pod could be promised the CPUs of another pod, one after the other
// on a real API server and hollow nodes.
func TestRace(t *testing.T) {
	t.Parallel()
	c := newHollowCluster(t, 1)
	for _, test := range []struct {
		name string
		run  func(*hollowCluster)
	}{
		{"a Binding of a dead leader that is written late", lateBindingOfADeadLeader},
		{"a Binding of a dead leader that is written before the next one looks", earlyBindingOfADeadLeader},
		{"a pod that is bound and deleted by force before any report lists it", deletedBeforeAnyReport},
		{"a kubelet that lists again with several pods undelivered", listedAgain},
		{"a kubelet that restarts with several pods undelivered", kubeletRestarted},
		{"an agent that restarts", agentRestarted},
		{"pods that end by themselves", endedByThemselves},
		{"a pod of somebody else between a report and a Binding", contendedPod},
		{"a pod that is deleted by force while the next one's Binding is on its way", deletedWhileBinding},
		{"a pod that is deleted by force while its kubelet has yet to hear of another", deletedWhileDeaf},
	} {
		if !c.scene(test.name, func() { test.run(c) }) {
			return
		}
	}
}

// holdBindings holds back the next Bindings.
func (c *hollowCluster) holdBindings() {
	c.wire.set(func(r *http.Request) fault {
		if isBinding(r) {
			return heldBack
		}
		return noFault
	})
}

func (c *hollowCluster) soundWire() { c.wire.set(func(*http.Request) fault { return noFault }) }

// dieBinding kills the scheduler while its Binding of the pod first, which takes all free CPUs, is
// on its way.
func (c *hollowCluster) dieBinding() {
	c.Helper()
	c.create(pinnedPod("full0", "", "6")) // fills NUMA node 0; 8 CPUs of node 1 are left
	c.awaitRunning("full0")
	c.holdBindings()
	c.create(pinnedPod("first", "", "8"))
	c.await("a Binding that is held back", func([]corev1.Pod) bool { return c.wire.waiting() > 0 })
	c.sched.Kill()
	c.soundWire()
}

// lateBindingOfADeadLeader: the scheduler dies while its Binding is on its way; the next one places
// another pod on the same CPUs; then the Binding arrives.
func lateBindingOfADeadLeader(c *hollowCluster) {
	c.dieBinding()
	c.createUrgent(pinnedPod("second", "", "8")) // is before the first pod in the next scheduler's queue
	c.startScheduler(nil)
	c.awaitBound("second")
	for _, code := range c.wire.letGo() {
		if code != http.StatusConflict {
			c.Errorf("the late Binding: the API server says %d, want %d", code, http.StatusConflict)
		}
	}
	c.awaitRunning("second")
	c.delete("second", nil)
	c.awaitRunning("first")
}

// createUrgent creates a pod of a priority above all others.
func (c *hollowCluster) createUrgent(p *corev1.Pod) {
	c.Helper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000}
	if _, err := c.Client.SchedulingV1().PriorityClasses().Create(c.Context(), class, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		c.must(err)
	}
	p.Spec.PriorityClassName = class.Name
	c.await("the priority class", func([]corev1.Pod) bool {
		_, err := c.Client.CoreV1().Pods("default").Create(c.Context(), p, metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) {
			c.must(err)
		}
		return err == nil
	})
}

// earlyBindingOfADeadLeader: the same, but the Binding arrives while the next scheduler starts.
func earlyBindingOfADeadLeader(c *hollowCluster) {
	c.dieBinding()
	c.create(pinnedPod("second", "", "8"))
	c.startScheduler(nil)
	if codes := c.wire.letGo(); fmt.Sprint(codes) != "[201]" {
		c.Errorf("the Binding: the API server says %d", codes)
	}
	c.awaitRunning("first")
	c.delete("first", nil)
	c.awaitRunning("second")
}

// deletedBeforeAnyReport: a pod is bound and deleted by force while the kubelet is stopped. Its
// CPUs are not free before it is certain that the kubelet will not admit it.
func deletedBeforeAnyReport(c *hollowCluster) {
	c.create(pinnedPod("full0", "", "6"))
	c.awaitRunning("full0")
	n := c.nodes[0]
	n.signal(syscall.SIGSTOP)
	defer n.signal(syscall.SIGCONT)
	c.create(pinnedPod("ghost", "", "8"))
	c.awaitBound("ghost")
	c.delete("ghost", new(int64))
	c.create(pinnedPod("heir", "", "8"))
	// The wait ends 5 s after the deletion (settleAfter). A busy API server may not show it.
	c.await("the heir to be told to wait", func(pods []corev1.Pod) bool {
		return unschedulable(pods, "heir") != "" || slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == "heir" && p.Spec.NodeName != "" })
	})
	n.signal(syscall.SIGCONT)
	c.awaitRunning("heir")
}

// fourUndelivered binds four pods to a kubelet whose watch shows none of them.
func fourUndelivered(c *hollowCluster) (names []string) {
	for i, cpus := range []string{"2", "5", "1", "3"} {
		name := fmt.Sprint("late", i)
		c.create(pinnedPod(name, "", cpus))
		names = append(names, name)
	}
	c.await("a Binding that the kubelet does not hear of", func(pods []corev1.Pod) bool {
		return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName != "" })
	})
	return names
}

// deafen cuts the kubelet off from the API server until listen is called.
func (n *hollowNode) deafen() (listen func()) {
	n.kubelet().set(func(*http.Request) fault { return noRequest })
	n.kubelet().cut()
	return func() { n.kubelet().set(func(*http.Request) fault { return noFault }) }
}

func listedAgain(c *hollowCluster) {
	listen := c.nodes[0].deafen()
	names := fourUndelivered(c)
	listen()
	c.awaitRunning(names...)
}

// kubeletRestarted: when the kubelet dies, its checkpoints must not contain ended pods, because the
// restarted kubelet admits its first pods before it removes them (docs/scope.md). The admission of
// another pod removes them.
func kubeletRestarted(c *hollowCluster) {
	n := c.nodes[0]
	c.create(pinnedPod("stays", "", "1"))
	c.awaitRunning("stays")
	n.signal(syscall.SIGSTOP)
	names := fourUndelivered(c)
	n.restart()
	c.awaitRunning(names...)
}

func agentRestarted(c *hollowCluster) {
	c.create(pinnedPod("before", "", "3"))
	c.awaitRunning("before")
	c.awaitGauges() // the scheduler has the report that lists the pod, and knows no pods from before the kubelet's restart
	c.nodes[0].stopAgent()
	c.create(pinnedPod("while", "", "3"))
	c.awaitRunning("while")
	c.delete("before", nil)
	c.create(pinnedPod("after", "", "8"))
	c.nodes[0].startAgent()
	c.awaitRunning("after")
}

// endedByThemselves: ended pods hold their CPUs until the kubelet has noticed. Each NUMA node has
// room for one of the last two pods, so they run in whatever order the pods are placed.
func endedByThemselves(c *hollowCluster) {
	for i := range 3 {
		p := pinnedPod(fmt.Sprint("short", i), "", "4")
		p.Spec.RestartPolicy, p.Spec.Containers[0].Image = corev1.RestartPolicyNever, hollow.ExitImage(time.Second)
		c.create(p)
	}
	c.create(pinnedPod("next0", "", "6"))
	c.create(pinnedPod("next1", "", "6"))
	c.awaitRunning("next0", "next1")
	c.await("the short ones to end", func(pods []corev1.Pod) bool { return phaseOf(pods, "short0") == corev1.PodSucceeded })
}

// contendedPod: another scheduler's pod, or a static pod, takes CPUs that the scheduler has
// promised. The collision is counted as contended.
func contendedPod(c *hollowCluster) {
	n := c.nodes[0]
	c.create(pinnedPod("full0", "", "6"))
	c.awaitRunning("full0")
	before := c.outcomes()
	n.signal(syscall.SIGSTOP)
	c.create(pinnedPod("foreign", n.spec.Name, "5"))
	c.create(pinnedPod("own", "", "5"))
	c.await("a word about its own pod", func(pods []corev1.Pod) bool {
		return unschedulable(pods, "own") != "" || slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == "own" && p.Spec.NodeName != "" })
	})
	n.signal(syscall.SIGCONT)
	c.awaitRunning("foreign")
	c.delete("foreign", nil)
	c.awaitRunning("own")
	c.demandUnblamed(before)
}

// outcomes returns the scheduler's counts of promises by outcome.
func (c *hollowCluster) outcomes() map[ledger.Result]float64 {
	c.Helper()
	m, err := c.sched.metrics()
	c.must(err)
	out := map[ledger.Result]float64{}
	for _, result := range ledger.Results {
		out[result] = m[fmt.Sprintf("berth_scheduler_promises_total{outcome=%q}", result)]
	}
	return out
}

// demandUnblamed fails the test if the scheduler has since counted a mistake of its own.
func (c *hollowCluster) demandUnblamed(before map[ledger.Result]float64) {
	c.Helper()
	after := c.outcomes()
	for _, result := range []ledger.Result{ledger.ResultRefused, ledger.ResultMispredicted} {
		if after[result] != before[result] {
			c.Errorf("promises %s rose from %v to %v", result, before[result], after[result])
		}
	}
}

// leaving runs a pod with 4 CPUs, and returns a function that deletes it by force, once.
func (c *hollowCluster) leaving() (remove func()) {
	c.Helper()
	c.create(pinnedPod("leaves", "", "4"))
	c.awaitRunning("leaves")
	c.awaitGauges() // the scheduler has the report that lists the pod
	return func() {
		err := c.Client.CoreV1().Pods("default").Delete(c.Context(), "leaves", metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		if err != nil && !apierrors.IsNotFound(err) {
			c.Error(err)
		}
	}
}

// demandContended checks that the pod moved has other CPUs than promised, and that the scheduler
// counts this as contended. On a busy machine the API server may be too slow for an exact promise;
// then there is no promise to break.
func (c *hollowCluster) demandContended(before map[ledger.Result]float64) {
	c.Helper()
	c.awaitGauges()
	c.demandUnblamed(before)
	want := before[ledger.ResultContended]
	if pod, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(c.Context(), "moved", metav1.GetOptions{}); err != nil {
		c.Error(err)
	} else if p, found, err := wire.ReadPlacement(pod); err == nil && found && p.Certainty == wire.Exact {
		want++
	} else {
		c.Logf("moved has no exact promise: %+v, %v", p, err)
	}
	if now := c.outcomes()[ledger.ResultContended]; now != want {
		c.Errorf("contended rose from %v to %v, want %v", before[ledger.ResultContended], now, want)
	}
}

// deletedWhileBinding: the API server shows the deletion before the Binding, and the kubelet
// releases the pod at once, although it runs. The other pod gets its CPUs.
func deletedWhileBinding(c *hollowCluster) {
	remove, before, meddle := c.leaving(), c.outcomes(), c.wire.meddle
	defer func() { c.wire.meddle = meddle }()
	c.wire.meddle = func(*http.Request) { remove() }
	c.wire.set(func(r *http.Request) fault {
		if isBinding(r) {
			return changedPod
		}
		return noFault
	})
	c.create(pinnedPod("moved", "", "1"))
	c.awaitRunning("moved")
	c.soundWire()
	c.demandContended(before)
}

// deletedWhileDeaf: the kubelet's watch breaks before the Binding, and the deletion comes after it.
// The kubelet lists, and handles the deletion first.
func deletedWhileDeaf(c *hollowCluster) {
	remove, before := c.leaving(), c.outcomes()
	listen := c.nodes[0].deafen()
	c.create(pinnedPod("moved", "", "1"))
	c.awaitBound("moved")
	remove()
	listen()
	c.awaitRunning("moved")
	c.demandContended(before)
}
