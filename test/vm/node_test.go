package vm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// nodeSettings configures the kubelet of the node part: both managers pin.
const nodeSettings = restricted + staticMemory

// nodeStory is the test of one node: its machine, its NodeTopology, and the printed table.
type nodeStory struct {
	*cluster
	m    *Machine
	seen *topologyWatch
}

// TestNode goes through the events of a node's life: pods start and end, the kubelet restarts, its
// configuration changes, CPUs go offline and online, huge pages are added, the machine reboots. The
// NodeTopology soon agrees with lscpu, numactl and the checkpoints. A condition reports each change
// that the kubelet does not know, with a remedy. Vanished resources are not promised.
func TestNode(t *testing.T) {
	requireVM(t, "node")
	c := newCluster(t)
	c.kernelArgs = "hugepagesz=2M hugepages=64"
	other := c.node("vm-b", oneByTwo, restricted)
	c.sameAsTools(other)
	other.Stop()
	if err := c.Client.CoreV1().Nodes().Delete(t.Context(), other.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s := &nodeStory{cluster: c, m: c.node("vm-a", twoByTwo, nodeSettings)}
	c.sameAsTools(s.m)
	s.seen = c.watchTopology(s.m.Name)
	c.berthScheduler()
	fmt.Printf("%-58s %s\n", "WHAT HAPPENS ON THE NODE", "WHAT THE API SAYS, AND HOW LONG AFTER")
	s.podsComeAndGo()
	s.cpusGoOffline()
	s.kubeletStartsWithFewerCPUs()
	s.cpusComeBack()
	s.configurationChanges()
	s.rebootWithPods()
	s.hugePagesAreAdded()
	s.rebootLosesHugePages()
	s.kubeletIsKilledBetweenTwoWrites()
}

// tell prints a line of the table.
func (s *nodeStory) tell(what, says string, after time.Duration) {
	fmt.Printf("%-58s %s (%v)\n", what, says, after.Round(time.Millisecond))
}

// podsComeAndGo compares report and checkpoints, and measures the delay of the report.
func (s *nodeStory) podsComeAndGo() {
	s.t.Helper()
	var after []time.Duration
	for i, cpus := range []int{2, 4, 1, 3} {
		pod := s.run(fmt.Sprintf("come-%d", i), cpus, nil)
		changed := s.changedAt(kubeletstate.AdmittedFile)
		after = append(after, s.seen.await(s.t, "pod "+pod.Name+" is reported", changed, func(nt *v1alpha1.NodeTopology) bool { return heldBy(nt, string(pod.UID)) }))
	}
	s.sameBooks()
	slices.Sort(after)
	s.tell(fmt.Sprintf("%d pods are admitted", len(after)), fmt.Sprintf("their CPUs and memory; median, at worst %v", after[len(after)-1].Round(time.Millisecond)), after[len(after)/2])
	s.empty()
	changed := s.changedAt(kubeletstate.CPUFile)
	s.tell("the kubelet frees their CPUs", "every CPU is shared", s.seen.await(s.t, "every CPU is shared", changed, s.allShared))
	s.sameBooks()
}

// cpusGoOffline: the kubelet does not notice it and would allocate these CPUs.
func (s *nodeStory) cpusGoOffline() {
	s.t.Helper()
	changed := s.do("echo 0 > /sys/devices/system/cpu/cpu5/online")
	s.says("CPU 5 goes offline", changed, v1alpha1.ConditionReady, v1alpha1.ReasonMachineChanged, "CPUs 5 have gone offline", "cpu_manager_state")
	s.ask("waits", 2, nil)
	s.eventually("the pod is told why it waits", func(ctx context.Context) error {
		p, err := s.Client.CoreV1().Pods("default").Get(ctx, "waits", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, cond := range p.Status.Conditions {
			if cond.Reason == corev1.PodReasonUnschedulable && strings.Contains(cond.Message, v1alpha1.ReasonMachineChanged) {
				fmt.Printf("%-58s %s\n", "  a pod that asks for 2 CPUs", cond.Message)
				return nil
			}
		}
		return fmt.Errorf("node %q, conditions %+v", p.Spec.NodeName, p.Status.Conditions)
	})
	s.boundAllTheSame(5)
	changed = s.do("echo 1 > /sys/devices/system/cpu/cpu5/online")
	s.isFine("CPU 5 comes back", changed)
	s.compare(s.running("waits"))
	s.empty()
}

// boundAllTheSame: without Berth, a manually bound pod gets a CPU that is offline.
func (s *nodeStory) boundAllTheSame(offline topology.CPUID) {
	s.t.Helper()
	pod := pinnedPod("by-hand", 4)
	pod.Spec.SchedulerName = "nobody"
	s.create(pod)
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: s.m.Name}}
	if err := s.Client.CoreV1().Pods("default").Bind(s.t.Context(), binding, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	pod = s.running(pod.Name)
	got := s.confined(s.m, pod, "c")
	books, err := s.books(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, held := range books.Pods {
		if held.UID != string(pod.UID) {
			continue
		}
		given := held.Containers[0].CPUs
		fmt.Printf("%-58s %s\n", "  a pod of 4 CPUs that is bound by hand", fmt.Sprintf("the kubelet gives it %v, it runs on %v", given, got.CPUs))
		if !given.Has(offline) || got.CPUs.Has(offline) {
			s.t.Errorf("got %v, runs on %v: want a kubelet that allocates CPU %d, which is offline", given, got.CPUs, offline)
		}
	}
}

// kubeletStartsWithFewerCPUs follows the remedy that the condition names.
func (s *nodeStory) kubeletStartsWithFewerCPUs() {
	s.t.Helper()
	changed := s.renew("for c in 4 5; do echo 0 > /sys/devices/system/cpu/cpu$c/online; done", kubeletstate.CPUFile)
	off := topology.NewCPUSet(4, 5)
	told := s.seen.await(s.t, "the report follows", changed, func(nt *v1alpha1.NodeTopology) bool {
		return isFine(nt) && strings.Contains(nt.Spec.Machine, "offline:4-5")
	})
	s.tell("CPUs 4 and 5 go offline, and the kubelet starts anew", "Ready, without them", told)
	s.eventually("node "+s.m.Name+" is Ready", func(ctx context.Context) error { return s.ready(ctx, s.m.Name) })
	s.sameAsTools(s.m)
	for i, cpus := range []int{4, 4, 1, 2} {
		pod := s.run(fmt.Sprintf("fewer-%d", i), cpus, nil)
		if got := s.confined(s.m, pod, "c"); got.CPUs.Intersects(&off) {
			s.t.Errorf("pod %s was given %v, of which %v are offline", pod.Name, got.CPUs, off)
		}
	}
	s.sameBooks()
	s.empty()
}

// cpusComeBack: the kubelet does not know these CPUs, but its promises stay correct.
func (s *nodeStory) cpusComeBack() {
	s.t.Helper()
	changed := s.do("for c in 4 5; do echo 1 > /sys/devices/system/cpu/cpu$c/online; done")
	s.says("they come back under the kubelet", changed, v1alpha1.ConditionKubeletCurrent, v1alpha1.ReasonMachineChanged, "CPUs 4-5 have come online", "cpu_manager_state")
	s.run("meanwhile", 4, nil)
	s.empty()
	changed = s.renew("true", kubeletstate.CPUFile)
	s.isFine("the kubelet starts anew", changed)
	s.sameAsTools(s.m)
}

// configurationChanges: first only the file changes, then the kubelet restarts, while a pod runs.
func (s *nodeStory) configurationChanges() {
	s.t.Helper()
	pod := s.run("stays", 3, nil)
	before := s.confined(s.m, pod, "c")
	changed := s.do("sed -i 's/^topologyManagerPolicy: .*/topologyManagerPolicy: best-effort/' /etc/berth/kubelet.yaml")
	s.says("topologyManagerPolicy changes in the kubelet's file", changed, v1alpha1.ConditionKubeletCurrent, v1alpha1.ReasonConfigurationChanged,
		"topologyManagerPolicy is best-effort, but was restricted when", "restart the kubelet")
	changed = s.do("killall kubelet")
	told := s.seen.await(s.t, "the report follows the configuration", changed, func(nt *v1alpha1.NodeTopology) bool {
		return nt.Spec.TopologyManager.Policy == "best-effort" && isFine(nt)
	})
	s.tell("the kubelet restarts under the pod", "the new policy", told)
	s.eventually("node "+s.m.Name+" is Ready", func(ctx context.Context) error { return s.ready(ctx, s.m.Name) })
	if got := s.confined(s.m, s.running("stays"), "c"); got != before {
		s.t.Errorf("pod stays ran on %v, and on %v after the restart", before, got)
	}
	s.run("joins", 4, nil)
	s.sameBooks()
}

// rebootWithPods: the checkpoints survive, and the pods get their earlier CPUs.
func (s *nodeStory) rebootWithPods() {
	s.t.Helper()
	before := map[string]confinement{}
	for _, name := range []string{"stays", "joins"} {
		before[name] = s.confined(s.m, s.running(name), "c")
	}
	changed := s.reboot()
	for name, want := range before {
		s.eventually("pod "+name+" runs again", func(ctx context.Context) error {
			p, err := s.Client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if c := p.Status.ContainerStatuses[0]; c.RestartCount == 0 || c.State.Running == nil {
				return fmt.Errorf("phase %s %s, container %+v", p.Status.Phase, p.Status.Reason, c)
			}
			return nil
		})
		if got := s.confined(s.m, s.running(name), "c"); got != want {
			s.t.Errorf("pod %s ran on %v, and on %v after the reboot", name, want, got)
		}
	}
	s.tell("the machine reboots under two pods", "they run again where they ran", time.Since(changed))
	s.sameBooks()
	s.sameAsTools(s.m)
	s.run("after", 4, nil)
	s.sameBooks()
	s.empty()
}

// hugePagesAreAdded: huge pages are added at run time on one NUMA node, more than any NUMA node
// had.
func (s *nodeStory) hugePagesAreAdded() {
	s.t.Helper()
	changed := s.do("echo 48 > /sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages; grep -x 48 /sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages")
	s.says("NUMA node 1 gets 48 huge pages, 16 until now", changed, v1alpha1.ConditionKubeletCurrent, v1alpha1.ReasonMachineChanged,
		"NUMA node 1 has 48 huge pages of 2048 KiB, but had 16 when", "memory_manager_state")
	changed = s.renew("true", kubeletstate.MemoryFile)
	s.isFine("the kubelet starts anew", changed)
	pod := s.run("huge", 2, corev1.ResourceList{"hugepages-2Mi": resource.MustParse("80Mi")})
	if got := s.confined(s.m, pod, "c"); got.Mems != topology.NUMASet(0).With(1) {
		s.t.Errorf("the pod with 40 huge pages has memory of NUMA nodes %v, want 1", got.Mems)
	}
	s.sameBooks()
	s.empty()
}

// rebootLosesHugePages: the kubelet refuses its own checkpoint, and does not start until an
// administrator follows the message.
func (s *nodeStory) rebootLosesHugePages() {
	s.t.Helper()
	changed := s.reboot()
	s.says("the machine reboots, without the added huge pages", changed, v1alpha1.ConditionReady, v1alpha1.ReasonMachineChanged,
		"NUMA node 1 has 16 huge pages of 2048 KiB, but had 48 when", "memory_manager_state")
	s.refusesToStart(`the expected machine state is different from the real one`)
	changed = s.renew("true", kubeletstate.MemoryFile)
	s.isFine("the kubelet starts anew", changed)
	s.run("last", 4, nil)
	s.sameBooks()
	s.empty()
}

// kubeletIsKilledBetweenTwoWrites: in the checkpoint, CPU 1 is neither shared nor assigned, as
// after a kill between these two writes.
func (s *nodeStory) kubeletIsKilledBetweenTwoWrites() {
	s.t.Helper()
	changed := s.renew(`echo -n '{"policyName":"static","defaultCpuSet":"0,2-15","checksum":88468307}' > /var/lib/kubelet/` + kubeletstate.CPUFile)
	s.says("the kubelet is killed between two writes", changed, v1alpha1.ConditionReady, v1alpha1.ReasonContradiction,
		"delete /var/lib/kubelet/cpu_manager_state", `current set of available CPUs "0-15" doesn't match with CPUs in state "0,2-15"`)
	s.refusesToStart(`current set of available CPUs .* match with CPUs in state`)
	changed = s.renew("true", kubeletstate.CPUFile)
	s.isFine("the kubelet starts anew", changed)
	s.run("mended", 4, nil)
	s.sameBooks()
	s.empty()
}

// refusesToStart waits until the kubelet has logged why.
func (s *nodeStory) refusesToStart(why string) {
	s.t.Helper()
	out, err := s.m.Guest.Run(s.t.Context(), `n=0; until grep -o '`+why+`' /var/log/kubelet.log; do n=$((n+1)); [ $n -gt 300 ] && exit 1; usleep 200000; done | head -1`)
	if err != nil {
		s.t.Errorf("the kubelet did not refuse its checkpoint: %v", err)
	}
	fmt.Printf("%-58s %s\n", "  the kubelet, which does not start", strings.TrimSpace(out))
}

// run places a pod with Berth and compares its process with its Binding.
func (s *nodeStory) run(name string, cpus int, more corev1.ResourceList) *corev1.Pod {
	s.t.Helper()
	s.ask(name, cpus, more)
	pod := s.running(name)
	s.compare(pod)
	return pod
}

// ask creates a pod.
func (s *nodeStory) ask(name string, cpus int, more corev1.ResourceList) {
	s.t.Helper()
	pod := pinnedPod(name, cpus)
	for resource, amount := range more {
		setBoth(&pod.Spec.Containers[0].Resources, resource, amount)
	}
	s.create(pod)
}

func (s *nodeStory) compare(pod *corev1.Pod) {
	s.t.Helper()
	if exact, _ := s.judge(s.m, pod); exact == 0 {
		s.t.Errorf("pod %s: its Binding is not exact, on a node where nothing else happens", pod.Name)
	}
}

// empty deletes every pod and waits until the kubelet has freed all resources. Otherwise a
// restarted kubelet would find them in its checkpoints.
func (s *nodeStory) empty() {
	s.t.Helper()
	pods, err := s.Client.CoreV1().Pods("default").List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.clear(pods.Items, true, &tally{Refused: map[string]int{}})
	s.eventually("the kubelet has freed everything", func(ctx context.Context) error {
		state, err := s.checkpoint(ctx, s.m)
		if err == nil && len(state.CPU.Entries) > 0 {
			err = fmt.Errorf("%d containers hold CPUs", len(state.CPU.Entries))
		}
		return err
	})
}

// says waits until the condition is False for the reason, with these words in its message.
func (s *nodeStory) says(what string, since time.Time, condition, reason string, words ...string) {
	s.t.Helper()
	message := ""
	told := s.seen.await(s.t, what+": "+condition+" is False for "+reason, since, func(nt *v1alpha1.NodeTopology) bool {
		c := meta.FindStatusCondition(nt.Status.Conditions, condition)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason || !strings.Contains(c.Message, words[0]) {
			return false
		}
		message = c.Message
		return true
	})
	for _, word := range words {
		if !strings.Contains(message, word) {
			s.t.Errorf("%s: the message %q lacks %q", what, message, word)
		}
	}
	s.tell(what, condition+"=False "+reason+": "+message, told)
}

// isFine waits until the report is Ready and the kubelet knows the machine.
func (s *nodeStory) isFine(what string, since time.Time) {
	s.t.Helper()
	told := s.seen.await(s.t, what+": all is well", since, isFine)
	s.eventually("node "+s.m.Name+" is Ready", func(ctx context.Context) error { return s.ready(ctx, s.m.Name) })
	s.tell(what, "Ready", told)
}

// do runs a script that changes the guest, and returns the time of its start by the host's clock.
func (s *nodeStory) do(script string) time.Time {
	s.t.Helper()
	out, err := s.m.Guest.Run(s.t.Context(), "touch /run/changed\n"+script+"\nstat -c %y /run/changed")
	if err != nil {
		s.t.Fatal(err)
	}
	return s.hostTime(lastLine(out))
}

// renew stops the kubelet, runs a script, removes checkpoints and starts the kubelet, as the
// conditions say. It returns the time of the start.
func (s *nodeStory) renew(script string, files ...string) time.Time {
	s.t.Helper()
	for i := range files {
		files[i] = "/var/lib/kubelet/" + files[i]
	}
	stop := "touch /run/kubelet-hold; killall kubelet 2>/dev/null; while pidof kubelet >/dev/null; do usleep 100000; done\n"
	if _, err := s.m.Guest.Run(s.t.Context(), stop+script+"\nrm -f "+strings.Join(files, " ")); err != nil {
		s.t.Fatal(err)
	}
	return s.do("rm -f /run/kubelet-hold")
}

// reboot reboots the machine, waits until the guest's shell answers, and returns the time at which
// the machine went down.
func (s *nodeStory) reboot() time.Time {
	s.t.Helper()
	changed := s.do("true")
	if _, err := s.m.Guest.Run(s.t.Context(), "(usleep 300000; reboot -f) >/dev/null 2>&1 &"); err != nil {
		s.t.Fatal(err)
	}
	s.eventually("the guest has gone down", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if _, err := s.m.Guest.Run(ctx, "[ ! -e /run/changed ]"); err == nil {
			return nil // /run is new: the machine has rebooted
		}
		return errors.New("still as it was")
	})
	return changed
}

// changedAt returns when a checkpoint was last written, by the host's clock.
func (s *nodeStory) changedAt(file string) time.Time {
	s.t.Helper()
	out, err := s.m.Guest.Run(s.t.Context(), "stat -c %y /var/lib/kubelet/"+file)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.hostTime(lastLine(out))
}

// hostTime translates a time of the guest's clock, as stat prints it. It asks the guest for the
// time between two readings of the host's clock, a few times, and uses the closest pair.
func (s *nodeStory) hostTime(text string) time.Time {
	s.t.Helper()
	const form = "2006-01-02 15:04:05.999999999 -0700"
	then, err := time.Parse(form, text)
	if err != nil {
		s.t.Fatal(err)
	}
	best, ahead := time.Hour, time.Duration(0)
	for range 4 {
		before := time.Now()
		out, err := s.m.Guest.Run(s.t.Context(), "touch /run/now; stat -c %y /run/now")
		if err != nil {
			s.t.Fatal(err)
		}
		took := time.Since(before)
		now, err := time.Parse(form, lastLine(out))
		if err != nil {
			s.t.Fatal(err)
		}
		if took < best {
			best, ahead = took, now.Sub(before.Add(took/2))
		}
	}
	return then.Add(-ahead)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// isFine reports whether the report is Ready and the kubelet knows the machine.
func isFine(nt *v1alpha1.NodeTopology) bool {
	return meta.IsStatusConditionTrue(nt.Status.Conditions, v1alpha1.ConditionReady) &&
		meta.FindStatusCondition(nt.Status.Conditions, v1alpha1.ConditionKubeletCurrent) == nil
}

// allShared reports whether no container has exclusive CPUs. The kubelet frees memory later, when
// it next admits a pod.
func (s *nodeStory) allShared(nt *v1alpha1.NodeTopology) bool {
	cpus, err := topology.ParseCPUList(string(nt.Status.SharedCPUs))
	return err == nil && cpus.Len() == s.m.Shape.CPUs()
}

// heldBy reports whether the report has CPUs of a pod.
func heldBy(nt *v1alpha1.NodeTopology, uid string) bool {
	return slices.ContainsFunc(nt.Status.Pods, func(p v1alpha1.PodAllocation) bool { return string(p.UID) == uid && len(p.Containers) > 0 })
}

// sameBooks waits until the report agrees with the kubelet's checkpoints, as text.
func (s *nodeStory) sameBooks() {
	s.t.Helper()
	s.eventually("the report says what the checkpoints say", func(ctx context.Context) error {
		books, err := s.books(ctx)
		if err != nil {
			return err
		}
		reported := s.reported(s.m.Name).Report.Snapshot
		if got, want := bookText(&reported), bookText(&books); got != want {
			return fmt.Errorf("the report says\n%s\nthe checkpoints\n%s", got, want)
		}
		return nil
	})
}

// books reads all of the kubelet's checkpoints in the guest.
func (s *nodeStory) books(ctx context.Context) (placement.Snapshot, error) {
	files := fstest.MapFS{}
	for _, name := range []string{kubeletstate.CPUFile, kubeletstate.MemoryFile} {
		out, err := s.m.Guest.Run(ctx, "cat /var/lib/kubelet/"+name)
		if err != nil {
			return placement.Snapshot{}, err
		}
		files[name] = &fstest.MapFile{Data: []byte(out)}
	}
	state, err := kubeletstate.Read(files)
	if err != nil {
		return placement.Snapshot{}, err
	}
	if err := state.Check(); err != nil {
		return placement.Snapshot{}, err
	}
	return state.Snapshot()
}

// bookText describes a snapshot's CPUs and memory, independently of the order of its pods.
func bookText(s *placement.Snapshot) string {
	lines := []string{fmt.Sprintf("shared %v", s.SharedCPUs)}
	for i := range s.Memory {
		lines = append(lines, fmt.Sprintf("memory %+v", s.Memory[i]))
	}
	for i := range s.Pods {
		for _, c := range s.Pods[i].Containers {
			lines = append(lines, fmt.Sprintf("pod %s %s: %v %v", s.Pods[i].UID, c.Name, c.CPUs, c.Memory))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
