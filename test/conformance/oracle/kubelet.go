package oracle

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/berth-dev/berth/internal/cases"
)

// kubelet is the four managers of one node and what the rest of a kubelet would tell them.
type kubelet struct {
	topology topologymanager.Manager
	device   *devicemanager.ManagerImpl
	cpu      cpumanager.Manager
	memory   memorymanager.Manager

	mu sync.Mutex
	// pods are the active ones, in order of admission.
	pods []*corev1.Pod
	// running are containers that have been started, by pod UID.
	running map[string][]string
	pools   []*cases.Pool
	// plugins counts the ones that have registered.
	plugins int
	// endings come while a pod is admitted; step is the next question to a manager.
	endings []cases.Ending
	step    int
}

// asked is a manager as the topology manager sees it. Pods end between its questions.
type asked struct {
	topologymanager.HintProvider
	k *kubelet
}

// pass comes before each question. A pod that ends is no longer active; the managers find out
// themselves.
func (k *kubelet) pass() {
	for _, e := range k.endings {
		if e.Step == k.step {
			k.deactivate(e.UID)
		}
	}
	k.step++
}

// newKubelet constructs the managers in the order of cm.NewContainerManager. The error says which
// one refused.
func newKubelet(s *settings) (*kubelet, error) {
	k := &kubelet{running: map[string][]string{}}
	if err := os.MkdirAll(filepath.Dir(s.socket()), 0o700); err != nil {
		return nil, err
	}
	var err error
	if k.topology, err = newTopologyManager(s); err != nil {
		return nil, fmt.Errorf("topology manager: %w", err)
	}
	if k.device, err = newDeviceManager(s, k.topology); err != nil {
		return nil, fmt.Errorf("device manager: %w", err)
	}
	addProvider(k.topology, asked{k.device, k})
	if k.cpu, err = newCPUManager(s, k.topology); err != nil {
		return nil, fmt.Errorf("cpu manager: %w", err)
	}
	addProvider(k.topology, asked{k.cpu, k})
	if k.memory, err = newMemoryManager(s, k.topology); err != nil {
		return nil, fmt.Errorf("memory manager: %w", err)
	}
	addProvider(k.topology, asked{k.memory, k})
	return k, nil
}

// start starts the managers in the order of ContainerManager.Start; device plugins register right
// after.
func (k *kubelet) start(pools []*cases.Pool) error {
	if err := k.startCPUManager(); err != nil {
		return fmt.Errorf("cpu manager start: %w", err)
	}
	if err := k.startMemoryManager(); err != nil {
		return fmt.Errorf("memory manager start: %w", err)
	}
	if err := k.startDeviceManager(); err != nil {
		return fmt.Errorf("device manager start: %w", err)
	}
	for _, p := range pools {
		if err := k.setPool(p); err != nil {
			return err
		}
	}
	return nil
}

// stop ends what can be ended; the CPU manager's goroutine cannot.
func (k *kubelet) stop() error {
	if k == nil || k.device == nil {
		return nil
	}
	return k.stopDeviceManager()
}

func (k *kubelet) setPool(p *cases.Pool) error {
	k.pools = append(slices.DeleteFunc(k.pools, func(o *cases.Pool) bool { return o.Resource == p.Resource }), p)
	k.plugins++
	return k.connect(newPlugin(p, strconv.Itoa(k.plugins)), pluginDevices(p))
}

// active is the ActivePodsFunc of all managers; the CPU manager calls it from another goroutine
// too.
func (k *kubelet) active() []*corev1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.pods)
}

func (k *kubelet) pod(uid string) *corev1.Pod {
	for _, p := range k.active() {
		if string(p.UID) == uid {
			return p
		}
	}
	return nil
}

// activate puts a pod into the active list, or replaces it there.
func (k *kubelet) activate(pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, p := range k.pods {
		if p.UID == pod.UID {
			k.pods[i] = pod
			return
		}
	}
	k.pods = append(k.pods, pod)
}

// remove takes a pod out of the active list and has the managers collect what it leaves, as they
// would at the next admission or reconciliation.
func (k *kubelet) remove(uid string) {
	k.deactivate(uid)
	k.collect()
}

func (k *kubelet) deactivate(uid string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods = slices.DeleteFunc(k.pods, func(p *corev1.Pod) bool { return string(p.UID) == uid })
	delete(k.running, uid)
}

// collect triggers removeStaleState of each manager, by asking for the hints of a pod that wants
// nothing.
func (k *kubelet) collect() {
	idle := &corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 1)}}
	k.hints(k.cpu, idle)
	k.hints(k.memory, idle)
	k.updateDevices()
}

// admit is the topology manager's admission; a rejected pod leaves the active list at once.
func (k *kubelet) admit(pod *corev1.Pod) lifecycle.PodAdmitResult {
	k.activate(pod)
	r := k.askTopology(&lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: k.active()})
	if !r.Admit {
		k.remove(string(pod.UID))
	}
	return r
}

// startContainers starts the named containers of a pod, or all of them, in the order of the pod.
func (k *kubelet) startContainers(uid string, names []string) {
	pod := k.pod(uid)
	if pod == nil {
		return
	}
	for _, c := range containers(pod) {
		if len(names) == 0 || slices.Contains(names, c.Name) {
			k.running[uid] = append(k.running[uid], c.Name)
			k.preStart(pod, c, containerID(uid, c.Name))
		}
	}
}

func containerID(uid, name string) string { return uid + "/" + name }

// containers are the ones that the managers see: init containers first, ephemeral ones never.
func containers(pod *corev1.Pod) []*corev1.Container {
	var out []*corev1.Container
	for i := range pod.Spec.InitContainers {
		out = append(out, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		out = append(out, &pod.Spec.Containers[i])
	}
	return out
}

// initialContainers is what the runtime reports when a kubelet starts.
func (k *kubelet) initialContainers() containermap.ContainerMap {
	m := containermap.NewContainerMap()
	for uid, names := range k.running {
		for _, name := range names {
			m.Add(uid, name, containerID(uid, name))
		}
	}
	return m
}

func (k *kubelet) runningContainers() sets.Set[string] {
	s := sets.New[string]()
	for uid, names := range k.running {
		for _, name := range names {
			s.Insert(containerID(uid, name))
		}
	}
	return s
}
