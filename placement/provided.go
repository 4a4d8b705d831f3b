package placement

import "github.com/berth-dev/berth/placement/hint"

// Provider assigns a resource that Berth does not know, together with CPUs and memory, on nodes
// where Berth decides. Containers ask for it as an extended resource. Config.Providers adds it to a
// scheduler; docs/extending.md shows an example.
type Provider interface {
	// Resource is the name of the extended resource: "example.com/licence".
	Resource() string
	// Supply returns the machine's amount of the resource. space numbers its NUMA nodes, ascending
	// by id. Supply is called once for each kind of machine. An error makes the nodes of that kind
	// unusable.
	Supply(view *KubeletView, space *hint.Space) (Supply, error)
}

// Supply is a machine's amount of a provider's resource, by place. Berth records how much of each
// place every pod holds, from the decision until the pod has left. The methods must be pure and
// safe for concurrent use, and should not allocate.
type Supply interface {
	// Places are the places of the resource. No places mean that the machine has none of it. Places
	// is called once.
	Places() []Place
	// Hints adds to out every set of NUMA nodes that can provide n to one container. free has the
	// free amounts, by place. With larger free amounts, Hints must not add fewer sets.
	Hints(out hint.Set, free []uint64, n uint64)
	// Allocate writes to take, by place, how much of n a container gets from each place, on the
	// chosen NUMA nodes. At first take is all zeros. If Allocate returns false, the node refuses
	// the pod.
	Allocate(take, free []uint64, n uint64, nodes hint.Mask) bool
}

// Place is a location with an amount of a provider's resource: a socket, a link, a licence server.
type Place struct {
	Name     string // 1 to MaxPlaceName bytes, unique on the machine
	Capacity uint64 // at most 2^30
}

// Provided is an amount of a provider's resource that a container holds at a place.
type Provided struct {
	Resource, Place string
	Amount          uint64
}

// Limits for the results of providers.
const (
	MaxPlaceName = 63
	MaxPlaces    = 64
)
