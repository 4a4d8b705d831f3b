package suppose

import "maps"

// Field is many nodes, by whatever tells them apart. A node joins it when something is first
// supposed about it.
type Field[K comparable] struct {
	// Bare returns a node on which nothing is supposed.
	Bare func(K) Node

	nodes map[K]*Node
}

// At is a node of the field, which joins it.
func (f *Field[K]) At(k K) *Node {
	on := f.nodes[k]
	if on == nil {
		bare := f.Bare(k)
		if on = &bare; f.nodes == nil {
			f.nodes = map[K]*Node{}
		}
		f.nodes[k] = on
	}
	return on
}

// Known is a node that has joined the field; nil for any other.
func (f *Field[K]) Known(k K) *Node { return f.nodes[k] }

// Clone returns a field on whose nodes the same is supposed.
func (f *Field[K]) Clone() Field[K] {
	out := Field[K]{Bare: f.Bare, nodes: maps.Clone(f.nodes)}
	for k, on := range out.nodes {
		cloned := on.Clone()
		out.nodes[k] = &cloned
	}
	return out
}
