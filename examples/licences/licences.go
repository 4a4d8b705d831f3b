// Package licences is an example of a provider: software licences that are bound to sockets. A
// container on a socket can use only the licences of that socket. docs/extending.md explains it.
package licences

import (
	"fmt"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/hint"
)

// PerSocket assigns licences. A container gets all of its licences on one socket.
type PerSocket struct {
	// Name is the extended resource that containers ask for.
	Name string
	// Count is how many licences each socket has.
	Count uint64
}

var _ placement.Provider = PerSocket{}

// Resource implements placement.Provider.
func (l PerSocket) Resource() string { return l.Name }

// Supply implements placement.Provider: one place for each socket of the machine.
func (l PerSocket) Supply(view *placement.KubeletView, space *hint.Space) (placement.Supply, error) {
	s := &sockets{space: space}
	index := map[int]int{} // by socket
	for i := range view.Nodes {
		n := &view.Nodes[i]
		position, ok := space.Position(n.ID)
		if !ok {
			return nil, fmt.Errorf("NUMA node %d is not in the hint space", n.ID)
		}
		for _, core := range n.Cores {
			at, seen := index[core.Socket]
			if !seen {
				at = len(s.places)
				index[core.Socket] = at
				s.places = append(s.places, placement.Place{Name: fmt.Sprint("socket ", core.Socket), Capacity: l.Count})
				s.nodes = append(s.nodes, 0)
			}
			s.nodes[at] |= 1 << position
		}
	}
	return s, nil
}

// sockets is the supply of one kind of machine.
type sockets struct {
	space  *hint.Space
	places []placement.Place
	nodes  []hint.Mask // by place: the NUMA nodes of the socket
}

// Places implements placement.Supply.
func (s *sockets) Places() []placement.Place { return s.places }

// Hints implements placement.Supply: every set of NUMA nodes that has a part of a socket with
// enough licences.
func (s *sockets) Hints(out hint.Set, free []uint64, n uint64) {
	for _, mask := range s.space.BySize() {
		if s.tightest(free, n, mask) >= 0 {
			out.Add(mask)
		}
	}
}

// Allocate implements placement.Supply: of the sockets with enough licences, it uses the one with
// the fewest, so that the others keep theirs.
func (s *sockets) Allocate(take, free []uint64, n uint64, nodes hint.Mask) bool {
	at := s.tightest(free, n, nodes)
	if at < 0 {
		return false
	}
	take[at] = n
	return true
}

func (s *sockets) tightest(free []uint64, n uint64, nodes hint.Mask) int {
	best := -1
	for i := range s.nodes {
		if s.nodes[i]&nodes != 0 && free[i] >= n && (best < 0 || free[i] < free[best]) {
			best = i
		}
	}
	return best
}
