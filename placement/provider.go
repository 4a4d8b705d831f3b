package placement

import "github.com/berth-dev/berth/placement/hint"

// provider is a resource manager of the kubelet (topologymanager.HintProvider). Its state during an
// admission is in the admission. A new resource implements this interface and is added to
// providers.
type provider interface {
	// hints adds the hint lists of container c, or of the whole pod if c is wholePod. If it adds no
	// list, it has no preference. A Detail means that the kubelet would fail here.
	hints(ad *admission, c int, want hint.Want) Detail
	// allocate allocates the request of container c, or of the whole pod if c is wholePod, within
	// the hint. It writes the result to the decision and to the admission's copy of the state. A
	// Detail is the reason for a failure.
	allocate(ad *admission, c int, h hint.Hint) Detail
}

// wholePod stands for all containers of a pod.
const wholePod = -1

// managers is the number of providers.
const managers = 3

// providers are in the order in which the kubelet calls them (cm.NewContainerManager).
var providers = [managers]provider{deviceProvider{}, cpuProvider{}, memoryProvider{}}
