// Package plan finds nodes for many pods at once: a gang, planned whole before anything is
// reserved.
//
// Make goes through the members once, the largest first and equal ones together. Each gets the
// first of its nodes that takes it, as things then stand. What the nodes' ledgers would say is
// tried on forks of them (suppose.Node.Promise), so the members are reserved later exactly as they
// were planned, within the bounds that a ledger has for one node: where those are reached, the
// plan goes on elsewhere. What else has a say in a pod's node, as the other plugins of a scheduler
// have, is a Field.
//
// Where that pass leaves the gang without its minimum, and fewer pods than there are would be
// enough, a second pass begins with the smallest. The plan is no search over all combinations: a
// gang that fits in one way only, among members of several sizes, may be missed.
//
// Evict finds victims without whom a gang fits whole, the cheapest first; what members ask about
// each other's NUMA nodes is a Wish.
//
// The package is pure: no clock, no randomness, no I/O. It changes no Node but its forks.
package plan
