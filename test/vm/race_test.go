package vm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// TestRace creates bursts of pods on nearly full machines while a kubelet restarts and a guest
// reboots. Some pods end by themselves, and some take long to stop. No pod may be refused at
// admission, no CPU be allocated twice, and nothing be left.
func TestRace(t *testing.T) {
	requireVM(t, "race")
	c := newCluster(t)
	big := c.node("vm-a", twoByTwo, restricted)
	small := c.node("vm-b", oneByTwo, restricted)
	c.reported(big.Name)
	c.reported(small.Name)
	c.berthScheduler()
	disturb := []struct {
		what   string
		script string
		m      *Machine
	}{
		{"nothing", "true", big},
		{"restart of the kubelet of vm-a", holdKubelet + "\nkillall -9 kubelet", big},
		{"reboot of vm-b", "(sleep 1; " + holdKubelet + "\nreboot -f) >/dev/null 2>&1 &", small},
		{"restart of both daemons of vm-a", holdKubelet + "\nkillall -9 kubelet berth-agent", big},
	}
	seen := watchedPods{ran: map[string]bool{}, everRan: c.watchRunning()}
	for round, d := range disturb {
		for i, pod := range raceBurst(round) {
			if i == 10 {
				if _, err := d.m.Guest.Run(t.Context(), d.script); err != nil {
					t.Fatalf("%s: %v", d.what, err)
				}
			}
			if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		c.drainAll(&seen, big, small)
		fmt.Printf("burst of 30 with %-34s %d pods ran, %d refused at admission, %d refused after they ran\n", d.what+":", len(seen.ran), len(seen.refused), len(seen.refusedLater))
	}
	if len(seen.refused) > 0 {
		t.Errorf("refused at admission: %v", seen.refused)
	}
	for _, m := range []*Machine{big, small} {
		c.eventually("nothing is left behind on "+m.Name, func(ctx context.Context) error {
			state, err := c.checkpoint(ctx, m)
			if err == nil && len(state.CPU.Entries) > 0 {
				err = fmt.Errorf("cpu_manager_state still has %v", state.CPU.Entries)
			}
			return err
		})
	}
}

// holdKubelet stops the kubelet, but not between the two writes of its CPUs, because a kubelet that
// is killed there does not start again (docs/scope.md; TestNode has this case). If some CPU of the
// checkpoint is neither shared nor assigned, which the sum of all CPUs shows, the kubelet
// continues.
const holdKubelet = `while :; do
  killall -STOP kubelet
  whole=$(cat /sys/devices/system/cpu/online)
  named=$(sed 's/"checksum".*//' /var/lib/kubelet/cpu_manager_state | grep -o '"[0-9][0-9,-]*"' | tr -d '"' | tr '\n' ,)
  count() { echo "$1" | tr , '\n' | awk -F- 'NF == 1 && $1 != "" {n++} NF == 2 {n += $2 - $1 + 1} END {print n + 0}'; }
  [ "$(count "$named")" = "$(count "$whole")" ] && break
  killall -CONT kubelet
  usleep 20000
done`

// raceBurst makes 30 pods with one to three CPUs. A third end by themselves, and a third ignore
// SIGTERM.
func raceBurst(round int) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range 30 {
		pod := mortal(pinnedPod(fmt.Sprintf("burst%d-%d", round, i), 1+i%3))
		grace := int64(8)
		pod.Spec.TerminationGracePeriodSeconds = &grace
		switch (i / 3) % 3 {
		case 0:
			pod.Spec.Containers[0].Command = []string{"/bin/sh", "-c", "sleep 4"}
		case 1:
			pod.Spec.Containers[0].Command = []string{"/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"}
		}
		out = append(out, pod)
	}
	return out
}

// watchedPods has the observed states of pods, by name.
type watchedPods struct {
	ran                   map[string]bool
	everRan               func(name string) bool
	refused, refusedLater []string
}

// watchRunning records every pod that the API ever showed as running, because a restarted kubelet
// may refuse a running pod between two readings.
func (c *cluster) watchRunning() func(name string) bool {
	c.t.Helper()
	events, err := c.Client.CoreV1().Pods("default").Watch(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(events.Stop)
	var ran sync.Map
	go func() {
		for e := range events.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok && p.Status.Phase == corev1.PodRunning {
				ran.Store(p.Name, true)
			}
		}
	}()
	return func(name string) bool {
		_, ok := ran.Load(name)
		return ok
	}
}

// TestRestartRefusals provokes refusals that no scheduler can avoid: up to Kubernetes 1.36 a
// restarting kubelet with full-pcpus-only requires as many free cores as its running pods already
// have, and kills pods if there are too few (docs/scope.md). The test distinguishes these from
// refusals at admission, and places the pods again without a refusal.
func TestRestartRefusals(t *testing.T) {
	requireVM(t, "race")
	if restartsKeepPods(t) {
		t.Skip("this kubelet refuses none: TestRestartsKeepPods")
	}
	c, m, names := restarted(t)
	// If a process ends with 0 on SIGTERM, the pod may finally be Succeeded, because its containers
	// determine the last phase.
	var refused []string
	c.eventually("the kubelet refuses a pod that ran", func(ctx context.Context) error {
		refused = nil
		for _, name := range names {
			p, err := c.Client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
				refused = append(refused, strings.TrimSpace(fmt.Sprintf("%s %s %s", name, p.Status.Phase, p.Status.Reason)))
			}
		}
		if refused == nil {
			return errors.New("all of them run on")
		}
		return nil
	})
	c.create(mortal(pinnedPod("instead", 4)))
	pod := c.running("instead")
	_, wrong := c.judge(m, pod)
	fmt.Printf("restart of the kubelet over %d pods of 4 CPUs, full-pcpus-only: 0 refused at admission, %d refused after they ran (%s), then 1 more ran in their place\n",
		len(names), len(refused), strings.Join(refused, ", "))
	if wrong > 0 {
		c.t.Errorf("pod %s is not where its Binding says", pod.Name)
	}
}

// restarted kills a kubelet with full-pcpus-only that has fewer free cores than each of its pods
// uses.
func restarted(t *testing.T) (c *cluster, m *Machine, names []string) {
	t.Helper()
	c = newCluster(t)
	m = c.node("vm-a", twoByTwo, restricted+"cpuManagerPolicyOptions: {full-pcpus-only: \"true\"}\n")
	c.reported(m.Name)
	c.berthScheduler()
	names = []string{"held-0", "held-1", "held-2"}
	for _, name := range names {
		c.create(mortal(pinnedPod(name, 4)))
		c.running(name)
	}
	if _, err := m.Guest.Run(t.Context(), "killall -9 kubelet"); err != nil {
		t.Fatal(err)
	}
	return c, m, names
}

// restartsKeepPods reports whether the guest's kubelet is of 1.37 or later.
func restartsKeepPods(t *testing.T) bool {
	t.Helper()
	name, _, err := kubeletRelease(repoRoot)
	if err != nil {
		t.Fatal(err)
	}
	v, err := version.ParseSemantic(name)
	if err != nil {
		t.Fatal(err)
	}
	return v.AtLeast(version.MajorMinor(1, 37))
}

// TestRestartsKeepPods: since Kubernetes 1.37 a restarting kubelet with full-pcpus-only gives
// running pods their CPUs without requiring free cores. The last pod comes after all of them, and
// fits on the last free core.
func TestRestartsKeepPods(t *testing.T) {
	requireVM(t, "race", "policies")
	if !restartsKeepPods(t) {
		t.Skip("this kubelet refuses pods that ran: TestRestartRefusals")
	}
	c, m, names := restarted(t)
	c.create(mortal(pinnedPod("last", 2)))
	c.running("last")
	for _, name := range append(names, "last") {
		pod := c.running(name)
		if _, wrong := c.judge(m, pod); wrong > 0 {
			t.Errorf("pod %s is not where its Binding says", name)
		}
		for _, s := range pod.Status.ContainerStatuses {
			if s.RestartCount > 0 {
				t.Errorf("container %s of pod %s was started %d times more", s.Name, name, s.RestartCount)
			}
		}
	}
	fmt.Printf("restart of the kubelet over %d pods of 4 CPUs, full-pcpus-only: all run on, and 1 more beside them\n", len(names))
}

func (c *cluster) create(pod *corev1.Pod) {
	c.t.Helper()
	if _, err := c.Client.CoreV1().Pods("default").Create(c.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// admissionReasons are the reasons with which a kubelet refuses a pod for its resources.
var admissionReasons = []string{placement.TopologyAffinityError.String(), placement.SMTAlignmentError.String(), placement.UnexpectedAdmissionError.String(), "OutOfcpu", "OutOfmemory"}

// drainAll lets every pod run: it deletes running pods, so that waiting pods find room, until none
// is left.
func (c *cluster) drainAll(seen *watchedPods, machines ...*Machine) {
	c.t.Helper()
	c.eventuallyProgress("every pod has had its turn", func(ctx context.Context) (int, error) {
		list, err := c.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, err
		}
		for _, m := range machines {
			if state, err := c.checkpoint(ctx, m); err == nil {
				c.disjoint(m, state.CPU)
			}
		}
		for i := range list.Items {
			c.takeNote(ctx, seen, &list.Items[i])
		}
		return len(list.Items), nil
	})
}

// takeNote counts a pod's result, and deletes the pod after it has run.
func (c *cluster) takeNote(ctx context.Context, seen *watchedPods, p *corev1.Pod) {
	switch p.Status.Phase {
	case corev1.PodPending:
		return
	case corev1.PodFailed:
		if slices.Contains(admissionReasons, p.Status.Reason) && p.DeletionTimestamp == nil {
			text := p.Name + " on " + p.Spec.NodeName + ": " + p.Status.Reason
			if seen.ran[p.Name] || seen.everRan(p.Name) {
				seen.refusedLater = append(seen.refusedLater, text)
			} else {
				seen.refused = append(seen.refused, text)
			}
		}
	default:
		seen.ran[p.Name] = true
	}
	if p.DeletionTimestamp == nil {
		_ = c.Client.CoreV1().Pods("default").Delete(ctx, p.Name, metav1.DeleteOptions{}) // the next reading tries again
	}
}

// checkpoint reads the kubelet's checkpoints from the guest.
func (c *cluster) checkpoint(ctx context.Context, m *Machine) (kubeletstate.State, error) {
	out, err := m.Guest.Run(ctx, "cat /var/lib/kubelet/"+kubeletstate.CPUFile)
	if err != nil {
		return kubeletstate.State{}, err
	}
	state, err := kubeletstate.Read(fstest.MapFS{kubeletstate.CPUFile: {Data: []byte(out)}})
	if err == nil && state.CPU == nil {
		err = errors.New("no CPU checkpoint")
	}
	return state, err
}

// disjoint fails the test if two pods have the same CPU.
func (c *cluster) disjoint(m *Machine, s *kubeletstate.CPUState) {
	c.t.Helper()
	var taken topology.CPUSet
	holder := map[topology.CPUID]string{}
	for _, e := range s.Entries {
		for id := range e.CPUs.All() {
			if taken.Has(id) && holder[id] != e.PodUID {
				c.t.Errorf("%s: CPU %d is held by pods %s and %s", m.Name, id, holder[id], e.PodUID)
			}
			taken.Add(id)
			holder[id] = e.PodUID
		}
	}
}
