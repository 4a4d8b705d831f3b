//go:build kube133 || kube134 || kube135 || kube136

package oracle

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

func (a asked) GetTopologyHints(pod *corev1.Pod, c *corev1.Container) map[string][]topologymanager.TopologyHint {
	a.pass()
	return a.HintProvider.GetTopologyHints(pod, c)
}

func (a asked) GetPodTopologyHints(pod *corev1.Pod) map[string][]topologymanager.TopologyHint {
	a.pass()
	return a.HintProvider.GetPodTopologyHints(pod)
}

func (a asked) Allocate(pod *corev1.Pod, c *corev1.Container) error {
	a.pass()
	return a.HintProvider.Allocate(pod, c)
}

func newTopologyManager(s *settings) (topologymanager.Manager, error) {
	return topologymanager.NewManager(s.info.Topology, s.topologyPolicy, s.topologyScope, s.topologyOpts)
}

// hints asks a manager for the hints of a pod's first container, as admission does.
func (m *managers) hints(p topologymanager.HintProvider, pod *corev1.Pod) {
	p.GetTopologyHints(pod, &pod.Spec.Containers[0])
}

func (m *managers) updateDevices() { m.device.UpdateAllocatedDevices() }

func (m *managers) askTopology(attrs *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	return m.topology.(lifecycle.PodAdmitHandler).Admit(attrs)
}

// affinity is the hint that the topology manager keeps for a container.
func (m *managers) affinity(uid, name string) topologymanager.TopologyHint {
	return m.topology.GetAffinity(uid, name)
}

// track gives the topology manager the id of a container.
func (m *managers) track(pod *corev1.Pod, c *corev1.Container, id string) {
	m.topology.AddContainer(pod, c, id)
}
