package placement

import "github.com/berth-dev/berth/placement/hint"

// manager is a resource manager of the kubelet (topologymanager.HintProvider), with its copy of the
// state during an admission. To add a manager, implement this interface and add it to newAdmission.
type manager interface {
	// hints adds the hint lists for container c, or for the whole pod if c is wholePod. A manager
	// that adds no list has no preference. A Detail other than NoDetail means that the kubelet
	// would fail here.
	hints(c int, want hint.Want) Detail
	// allocate allocates the request of container c, or of the whole pod if c is wholePod, within
	// the hint. It writes the result to the decision and to the manager's copy of the state. A
	// Detail other than NoDetail is the reason for a failure.
	allocate(c int, h hint.Hint) Detail
}

// wholePod stands for all containers of a pod.
const wholePod = -1

// The managers, in the order in which the kubelet calls them (cm.NewContainerManager).
const (
	ofDevices = iota
	ofCPUs
	ofMemory

	managers // the number of managers
)
