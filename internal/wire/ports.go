package wire

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// hostPort is a port of the node.
type hostPort struct {
	ip       string // anyIP stands for all addresses
	protocol corev1.Protocol
	port     int32
}

const anyIP = "0.0.0.0"

func (p hostPort) String() string { return fmt.Sprintf("%s:%d/%s", p.ip, p.port, p.protocol) }

// HostPorts are those that pods have.
type HostPorts []hostPort

// PortsOf returns the ports of the node that a pod wants: those of its containers and sidecars, as
// GetHostPorts (kube-scheduler's util) reads them.
func PortsOf(pod *corev1.Pod) (ports HostPorts) {
	add := func(c *corev1.Container) {
		for _, p := range c.Ports {
			want := p.HostPort
			if pod.Spec.HostNetwork {
				want = cmp.Or(want, p.ContainerPort) // the API server fills it in
			}
			if want > 0 {
				ports = append(ports, hostPort{cmp.Or(p.HostIP, anyIP), cmp.Or(p.Protocol, corev1.ProtocolTCP), want})
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	return ports
}

// Taken returns the first port of the pod that another one has; "" where all are free.
func (h HostPorts) Taken(pod *corev1.Pod) string {
	for _, p := range PortsOf(pod) {
		conflict := func(q hostPort) bool {
			return q.port == p.port && q.protocol == p.protocol && (q.ip == p.ip || q.ip == anyIP || p.ip == anyIP)
		}
		if slices.ContainsFunc(h, conflict) {
			return p.String()
		}
	}
	return ""
}

// Take takes in the ports of a pod.
func (h *HostPorts) Take(pod *corev1.Pod) { *h = append(*h, PortsOf(pod)...) }
