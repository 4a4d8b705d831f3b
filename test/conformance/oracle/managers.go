package oracle

import (
	"time"

	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// managers are the four managers of one node. adapter_*.go has their calls for each release of
// Kubernetes.
type managers struct {
	topology topologymanager.Manager
	device   *devicemanager.ManagerImpl
	cpu      cpumanager.Manager
	memory   memorymanager.Manager
}

// asked wraps a manager for the topology manager. It calls pass before each call of the topology
// manager.
type asked struct {
	topologymanager.HintProvider
	pass func()
}

// never is longer than any case, so that the CPU manager's reconciliation runs only once, at the
// start.
const never = 10000 * time.Hour
