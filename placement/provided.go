package placement

import "github.com/berth-dev/berth/placement/hint"

// Provider assigns a resource that Berth does not know, together with CPUs and memory, on nodes
// where Berth decides. Containers ask for it as an extended resource. docs/extending.md shows how
// to build a scheduler with a Provider.
type Provider interface {
	// Resource is the name of the extended resource, such as "example.com/licence".
	Resource() string
	// Supply returns the machine's amount of the resource. space gives each NUMA node of the
	// machine a position, in ascending order of id. Berth calls Supply once for each kind of
	// machine. If Supply returns an error, Berth cannot use the nodes of that kind.
	Supply(view *KubeletView, space *hint.Space) (Supply, error)
}

// Supply is a machine's amount of a provider's resource, by place. Berth records the amount that
// each pod has at each place, from the decision until the pod is gone. The methods must be pure and
// safe for concurrent use, and should not allocate.
type Supply interface {
	// Places returns the places of the resource. If there are no places, the machine has none of
	// the resource. Berth calls Places once.
	Places() []Place
	// Hints adds to out every set of NUMA nodes that can provide the amount n to one container.
	// free has the free amounts, by place. If free amounts grow, every set that Hints added before
	// must still be added.
	Hints(out hint.Set, free []uint64, n uint64)
	// Allocate sets take[i] to the amount that a container gets from place i, for a total of n on
	// the chosen NUMA nodes. The elements of take are 0 before the call. If Allocate returns false,
	// the node refuses the pod.
	Allocate(take, free []uint64, n uint64, nodes hint.Mask) bool
}

// Place is a part of a machine with an amount of a provider's resource, for example a socket or a
// network link.
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
