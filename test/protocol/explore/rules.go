package explore

import "strings"

// Rules are the enabled rules of a model; any one can be switched off. N has their names.
type Rules[N Names] uint32

// Names are the names of a model's rules, in the order of their bits.
type Names interface{ Names() []string }

// Has reports whether every rule of q is in r.
func (r Rules[N]) Has(q Rules[N]) bool { return r&q == q }

// Without returns r less the rules of q.
func (r Rules[N]) Without(q Rules[N]) Rules[N] { return r &^ q }

// String names the rules in r, joined by "+".
func (r Rules[N]) String() string {
	var n N
	var names []string
	for i, name := range n.Names() {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}
