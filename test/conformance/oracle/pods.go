package oracle

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
)

// podList answers the managers' questions about pods.
type podList struct {
	mu sync.Mutex
	// pods are the active pods in order of admission.
	pods []*corev1.Pod
	// running are containers that have been started, by pod UID.
	running map[string][]string
}

// clone returns the list with which the next kubelet on the node begins.
func (l *podList) clone() *podList {
	return &podList{pods: l.active(), running: maps.Clone(l.running)}
}

// active is the ActivePodsFunc of all managers; the CPU manager calls it from another goroutine
// too.
func (l *podList) active() []*corev1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.pods)
}

func (l *podList) pod(uid string) *corev1.Pod {
	for _, p := range l.active() {
		if string(p.UID) == uid {
			return p
		}
	}
	return nil
}

// activate adds a pod to the list, or replaces it there.
func (l *podList) activate(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, p := range l.pods {
		if p.UID == pod.UID {
			l.pods[i] = pod
			return
		}
	}
	l.pods = append(l.pods, pod)
}

func (l *podList) deactivate(uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pods = slices.DeleteFunc(l.pods, func(p *corev1.Pod) bool { return string(p.UID) == uid })
	delete(l.running, uid)
}

// start records that a container of a pod runs.
func (l *podList) start(uid, name string) { l.running[uid] = append(l.running[uid], name) }

// initialContainers returns the runtime's containers at a kubelet's start.
func (l *podList) initialContainers() containermap.ContainerMap {
	m := containermap.NewContainerMap()
	for uid, names := range l.running {
		for _, name := range names {
			m.Add(uid, name, containerID(uid, name))
		}
	}
	return m
}

func (l *podList) runningContainers() sets.Set[string] {
	s := sets.New[string]()
	for uid, names := range l.running {
		for _, name := range names {
			s.Insert(containerID(uid, name))
		}
	}
	return s
}

func containerID(uid, name string) string { return uid + "/" + name }

// containers returns the containers that the managers see: init containers first, no ephemeral
// containers.
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
