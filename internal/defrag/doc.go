// Package defrag finds the fewest pods whose moving makes room for others.
//
// A plan is a list of moves in the order in which they are carried out. Before each move the place
// that it leads to is free, so that it can be held before anybody is evicted: a pod never moves
// within its node, nor to a node that another one leaves later, nor to that of a wanted pod. A
// place counts where the node's ledger admits the pod in every state that the node may be in
// (ledger.Admitted), and where the node has enough of everything in all.
//
// Find deepens: it looks for a plan without moves, with one, with two. On a node it tries the sets
// of pods whose going lets the wanted pod in, none of which has a part that would do; each pod of a
// set then needs a place, for which others may move in turn. On large clusters it tries the nodes
// first that seem to need the fewest, and stops after so many questions to ledgers.
//
// The package is pure: no clock, no randomness, no I/O. It changes no ledger.
package defrag
