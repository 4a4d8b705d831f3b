package placement

import "github.com/berth-dev/berth/placement/hint"

// Provider assigns a resource that Berth does not know, together with CPUs and memory, on nodes
// where Berth decides. Containers ask for it as an extended resource. Config.Providers adds it to a
// scheduler; docs/extending.md shows an example.
type Provider interface {
	// Resource is the extended resource that containers ask for: "example.com/licence".
	Resource() string
	// Supply says how much of it a machine has. space numbers its NUMA nodes, ascending by id. It
	// is asked once for each kind of machine. An error makes the nodes of that kind unusable.
	Supply(view *KubeletView, space *hint.Space) (Supply, error)
}

// Supply is what one machine has of a provider's resource: amounts at places. Berth records which
// pod holds how much of which place, from the decision until the pod has left. The methods must be
// pure and safe for concurrent use, and should not allocate.
type Supply interface {
	// Places are where the resource is; none means that the machine has nothing of it. It is asked
	// once.
	Places() []Place
	// Hints adds to out every set of NUMA nodes on which n could be given to one container where
	// free is left, by place. If more is left it must not add fewer sets.
	Hints(out hint.Set, free []uint64, n uint64)
	// Allocate writes to take, by place, what is given of n to a container on the chosen NUMA
	// nodes. take is all zeros before. False refuses the node.
	Allocate(take, free []uint64, n uint64, nodes hint.Mask) bool
}

// Place is where some of a provider's resource is: a socket, a link, a licence server.
type Place struct {
	Name     string // 1 to MaxPlaceName bytes, each once on a machine
	Capacity uint64 // at most 2^30
}

// Provided is an amount of a provider's resource that a container holds at a place.
type Provided struct {
	Resource, Place string
	Amount          uint64
}

// Limits for the answers of providers.
const (
	MaxPlaceName = 63
	MaxPlaces    = 64
)
