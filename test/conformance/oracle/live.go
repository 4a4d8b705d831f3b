package oracle

import (
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"

	"github.com/berth-dev/berth/test/replay/cases"
	"github.com/berth-dev/berth/topology"
)

// Live is a kubelet for single calls, in benchmarks. It is not watched: a pod on which the kubelet
// hangs also hangs the caller.
type Live struct {
	k       *kubelet
	dir     string
	restore func()
}

// Boot starts a kubelet on the machine, configuration and pools of a case; it ignores the case's
// events. Feature gates stay changed until it is stopped, so run one at a time per process.
func Boot(c *cases.Case, opts Options) (*Live, error) {
	dir, err := os.MkdirTemp(opts.Dir, "oracle-")
	if err != nil {
		return nil, err
	}
	restore, err := setGates(c.Config.FeatureGates)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	p := &player{c: c, dir: dir}
	l := &Live{dir: dir, restore: restore}
	err = p.boot(nil)
	if l.k = p.k; err != nil {
		l.Stop()
		return nil, err
	}
	return l, nil
}

// Stop ends the kubelet except for the CPU manager's goroutine, which cannot be ended.
func (l *Live) Stop() error {
	l.restore()
	defer os.RemoveAll(l.dir)
	return l.k.stop()
}

// Prepare fills the defaults of a pod as the API server would.
func Prepare(pod *corev1.Pod) { corev1defaults.SetDefaults_Pod(pod) }

// Admit is the kubelet's admission by the topology manager. The pod must be prepared. Live keeps
// the pod.
func (l *Live) Admit(pod *corev1.Pod) lifecycle.PodAdmitResult { return l.k.admit(pod) }

// Remove removes a pod and makes the managers release its resources.
func (l *Live) Remove(uid string) { l.k.remove(uid) }

// Providers are the managers that give hints, in the order in which the topology manager asks them.
func (l *Live) Providers() []topologymanager.HintProvider {
	return []topologymanager.HintProvider{l.k.device, l.k.cpu, l.k.memory}
}

// Holdings returns the resources of each container of a pod.
func (l *Live) Holdings(pod *corev1.Pod) []cases.ContainerResult { return l.k.holdings(pod) }

// State returns the managers' state.
func (l *Live) State() *cases.State { return l.k.state() }

// Held has the resources that Hold gives a pod's only container.
type Held struct {
	CPUs topology.CPUSet
	NUMA topology.NUMAID
	// Bytes is regular memory.
	Bytes uint64
}

// Hold writes a pod's resources into the managers' checkpoints, as if it had been admitted earlier.
// With Hold a test can give a pod scattered CPUs, which a kubelet assigns only after other pods
// have ended.
func (l *Live) Hold(pod *corev1.Pod, h Held) error {
	cpus, ok1 := l.k.cpu.State().(cpustate.State)
	memory, ok2 := l.k.memory.State().(memorystate.State)
	if !ok1 || !ok2 {
		return fmt.Errorf("the managers' states are %T and %T: want them writable", l.k.cpu.State(), l.k.memory.State())
	}
	l.k.activate(pod)
	uid, name := string(pod.UID), pod.Spec.Containers[0].Name
	set, err := cpuset.Parse(h.CPUs.String())
	if err != nil {
		return err
	}
	cpus.SetCPUSet(uid, name, set)
	cpus.SetDefaultCPUSet(cpus.GetDefaultCPUSet().Difference(set))

	node := int(h.NUMA)
	books := memory.GetMachineState()
	books[node].NumberOfAssignments++
	books[node].MemoryMap[corev1.ResourceMemory].Free -= h.Bytes
	books[node].MemoryMap[corev1.ResourceMemory].Reserved += h.Bytes
	memory.SetMachineState(books)
	memory.SetMemoryBlocks(uid, name, []memorystate.Block{{NUMAAffinity: []int{node}, Type: corev1.ResourceMemory, Size: h.Bytes}})
	return nil
}
