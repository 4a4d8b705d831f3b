package wire

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/placement"
)

// PortsOf returns the host ports of a pod's containers and sidecars, as GetHostPorts
// (kube-scheduler's util) reads them.
func PortsOf(pod *corev1.Pod) (ports []amounts.Port) {
	for at, c := range Containers(pod) {
		if at.Kind == placement.Init {
			continue
		}
		for _, p := range c.Ports {
			want := p.HostPort
			if pod.Spec.HostNetwork {
				want = cmp.Or(want, p.ContainerPort) // with hostNetwork, the API server sets HostPort to ContainerPort
			}
			if want > 0 {
				ports = append(ports, amounts.Port{IP: cmp.Or(p.HostIP, amounts.AnyIP), Protocol: string(cmp.Or(p.Protocol, corev1.ProtocolTCP)), Number: want})
			}
		}
	}
	return ports
}
