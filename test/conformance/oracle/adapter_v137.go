//go:build !kube133 && !kube134 && !kube135 && !kube136

package oracle

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

func (a asked) GetTopologyHints(l klog.Logger, pod *corev1.Pod, c *corev1.Container, o lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	a.pass()
	return a.HintProvider.GetTopologyHints(l, pod, c, o)
}

func (a asked) GetPodTopologyHints(l klog.Logger, pod *corev1.Pod, o lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	a.pass()
	return a.HintProvider.GetPodTopologyHints(l, pod, o)
}

func (a asked) Allocate(ctx context.Context, pod *corev1.Pod, c *corev1.Container, o lifecycle.Operation) error {
	a.pass()
	return a.HintProvider.Allocate(ctx, pod, c, o)
}

func (a asked) AllocatePod(l klog.Logger, pod *corev1.Pod, o lifecycle.Operation) error {
	a.pass()
	return a.HintProvider.AllocatePod(l, pod, o)
}

func newTopologyManager(s *settings) (topologymanager.Manager, error) {
	return topologymanager.NewManager(klog.Background(), s.info.Topology, s.topologyPolicy, s.topologyScope, s.topologyOpts)
}

// hints asks a manager for the hints of a pod's first container, as admission does.
func (m *managers) hints(p topologymanager.HintProvider, pod *corev1.Pod) {
	p.GetTopologyHints(klog.Background(), pod, &pod.Spec.Containers[0], lifecycle.AddOperation)
}

func (m *managers) updateDevices() { m.device.UpdateAllocatedDevices(klog.Background()) }

func (m *managers) askTopology(attrs *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	attrs.Operation = lifecycle.AddOperation
	return m.topology.Admit(context.Background(), attrs)
}

// affinity is the hint that the topology manager keeps for a container.
func (m *managers) affinity(uid, name string) topologymanager.TopologyHint {
	return m.topology.GetAffinity(klog.Background(), uid, name)
}

// track gives the topology manager the id of a container.
func (m *managers) track(pod *corev1.Pod, c *corev1.Container, id string) {
	m.topology.AddContainer(klog.Background(), pod, c, id)
}
