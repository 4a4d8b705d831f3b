package suppose

import "maps"

// Field is a set of nodes with keys of type K. The first call of At with a key creates the node.
type Field[K comparable] struct {
	// Bare creates the node with the key, without supposed changes.
	Bare func(K) Node

	nodes map[K]*Node
}

// At returns the node with the key. If the field does not have the node yet, At creates it.
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

// Known returns the node if the field has it, otherwise nil.
func (f *Field[K]) Known(k K) *Node { return f.nodes[k] }

// Clone returns an independent copy of the field.
func (f *Field[K]) Clone() Field[K] {
	out := Field[K]{Bare: f.Bare, nodes: maps.Clone(f.nodes)}
	for k, on := range out.nodes {
		cloned := on.Clone()
		out.nodes[k] = &cloned
	}
	return out
}
