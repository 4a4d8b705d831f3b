package placement

import "github.com/berth-dev/berth/placement/hint"

// provider is a resource manager of the kubelet (topologymanager.HintProvider). Its state during an
// admission lives in the admission. A new resource joins by implementing this and being listed in
// providers.
type provider interface {
	// hints adds the lists of container c, or of the pod as a whole if c is wholePod. Nothing added
	// means no preference. A Detail says that the kubelet does not survive the question.
	hints(ad *admission, c int, want hint.Want) Detail
	// allocate gives container c, or the pod as a whole if c is wholePod, what it asks for, as far
	// as the hint lets it, and writes it to the decision and to the admission's books. A Detail
	// says why not.
	allocate(ad *admission, c int, h hint.Hint) Detail
}

// wholePod stands for all containers of a pod.
const wholePod = -1

// managers is how many providers there are.
const managers = 3

// providers are in the order in which the kubelet asks them (cm.NewContainerManager).
var providers = [managers]provider{deviceProvider{}, cpuProvider{}, memoryProvider{}}
