package oracle

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/berth-dev/berth/test/replay/cases"
)

// kubelet has the four managers of one node and the inputs that they get from the rest of a
// kubelet.
type kubelet struct {
	managers
	*podList
	pools []*cases.Pool
	// plugins counts the registered plugins.
	plugins int
	// endings are pods that end while a pod is admitted; step is the number of the next question to
	// a manager.
	endings []cases.Ending
	step    int
}

// pass is called before each question to a manager. It removes pods that end from the active pods;
// the managers notice this themselves.
func (k *kubelet) pass() {
	for _, e := range k.endings {
		if e.Step == k.step {
			k.deactivate(e.UID)
		}
	}
	k.step++
}

// newKubelet constructs the managers in the order of cm.NewContainerManager. The error names the
// manager that refused.
func newKubelet(s *settings, pods *podList) (*kubelet, error) {
	k := &kubelet{podList: pods}
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
	addProvider(k.topology, asked{k.device, k.pass})
	if k.cpu, err = newCPUManager(s, k.topology); err != nil {
		return nil, fmt.Errorf("cpu manager: %w", err)
	}
	addProvider(k.topology, asked{k.cpu, k.pass})
	if k.memory, err = newMemoryManager(s, k.topology); err != nil {
		return nil, fmt.Errorf("memory manager: %w", err)
	}
	addProvider(k.topology, asked{k.memory, k.pass})
	return k, nil
}

// start starts the managers in the order of ContainerManager.Start; device plugins register right
// after.
func (k *kubelet) start(pools []*cases.Pool) error {
	if err := k.startCPUManager(k.podList); err != nil {
		return fmt.Errorf("cpu manager start: %w", err)
	}
	if err := k.startMemoryManager(k.podList); err != nil {
		return fmt.Errorf("memory manager start: %w", err)
	}
	if err := k.startDeviceManager(k.podList); err != nil {
		return fmt.Errorf("device manager start: %w", err)
	}
	for _, p := range pools {
		if err := k.setPool(p); err != nil {
			return err
		}
	}
	return nil
}

// stop ends everything except the CPU manager's goroutine, which cannot be ended.
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

// remove removes a pod from the active list and makes the managers release its resources, as they
// would at the next admission or reconciliation.
func (k *kubelet) remove(uid string) {
	k.deactivate(uid)
	k.collect()
}

// collect triggers removeStaleState of each manager, by asking for the hints of a pod without
// requests.
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
			k.podList.start(uid, c.Name)
			k.preStart(pod, c, containerID(uid, c.Name))
		}
	}
}
