package suppose

import "maps"

// Field is a set of nodes with keys of type K. A node joins the field with its first supposed
// change.
type Field[K comparable] struct {
	// Bare returns the node without supposed changes.
	Bare func(K) Node

	nodes map[K]*Node
}

// At returns the node with the key, which joins the field if it has not yet.
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

// Known returns the node if it has joined the field, otherwise nil.
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
