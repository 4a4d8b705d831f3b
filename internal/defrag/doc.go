// Package defrag finds the fewest pods to move so that other pods fit.
//
// A plan is a list of moves in the order in which they are carried out. The new place of each pod
// is free before the pod moves, so it can be held before the eviction. A pod never moves within its
// node, to a node that another pod leaves later, or to a node that is planned for a wanted pod. A
// node is a valid place if its ledger admits the pod in every possible state (ledger.Admitted) and
// enough of each resource is free.
//
// Find searches with increasing depth: first plans without moves, then with one move, and so on up
// to Problem.MostMoves. On each node it tries sets of pods whose departure makes room for the
// wanted pod. Each pod of a set then needs a place, for which further pods may have to move. Find
// first tries the nodes that seem to need the fewest moves. Problem.Effort limits how many
// questions Find asks the nodes' ledgers.
//
// The package is pure: it reads no clock, uses no random numbers, and does no I/O. It does not
// change any ledger.
package defrag
