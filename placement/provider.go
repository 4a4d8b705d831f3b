package placement

import "github.com/berth-dev/berth/placement/hint"

// provider is a resource manager of the kubelet (topologymanager.HintProvider). It has no state of
// its own; admission has the state. To add a manager, implement this interface and add it to
// providers.
type provider interface {
	// hints adds the hint lists for container c, or for the whole pod if c is wholePod. A provider
	// that adds no list has no preference. A Detail other than NoDetail means that the kubelet
	// would fail here.
	hints(ad *admission, c int, want hint.Want) Detail
	// allocate allocates the request of container c, or of the whole pod if c is wholePod, within
	// the hint. It writes the result to the decision and to the admission's copy of the state. A
	// Detail other than NoDetail is the reason for a failure.
	allocate(ad *admission, c int, h hint.Hint) Detail
}

// wholePod stands for all containers of a pod.
const wholePod = -1

// managers is the number of providers.
const managers = 3

// providers are in the order in which the kubelet calls them (cm.NewContainerManager).
var providers = [managers]provider{deviceProvider{}, cpuProvider{}, memoryProvider{}}
