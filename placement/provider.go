package placement

import "github.com/berth-dev/berth/placement/hint"

// provider is a resource manager of the kubelet (topologymanager.HintProvider). Its state during an
// admission lives in the admission. A new resource joins by implementing this and being listed in
// providers.
type provider interface {
	// hints adds the lists of container c, or of the pod as a whole if c is wholePod. Nothing added
	// means no preference. A Detail says that the kubelet does not survive the question.
	hints(ad *admission, c int, want hint.Want) Detail
	// allocate gives container c what it asks for, as far as the hint lets it, and writes it to the
	// decision and to the admission's books. A Detail says why not.
	allocate(ad *admission, c int, h hint.Hint) Detail
}

// wholePod stands for all containers of a pod in provider.hints.
const wholePod = -1

// providers are in the order in which the kubelet asks them (cm.NewContainerManager).
var providers = [...]provider{deviceProvider{}, cpuProvider{}, memoryProvider{}}

// podSum is the demand of a pod at its peak, from that of its containers in order (KEP-753):
// regular init containers run one at a time beside the sidecars before them, app containers run
// beside all sidecars.
type podSum[T int | int64 | uint64] struct {
	sidecars, init, apps T
}

func (p *podSum[T]) add(kind ContainerKind, n T) {
	switch kind {
	case Sidecar:
		p.sidecars += n
	case Init:
		p.init = max(p.init, p.sidecars+n)
	default:
		p.apps += n
	}
}

func (p *podSum[T]) peak() T { return max(p.init, p.apps+p.sidecars) }
