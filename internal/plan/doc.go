// Package plan finds nodes for a gang of pods. It plans the whole gang before the scheduler
// reserves anything.
//
// Make goes through the members once, the largest first and equal members together. Each gets the
// first of its nodes that admits it. Make asks forks of the nodes' ledgers (suppose.Node.Promise),
// so the scheduler can later reserve the members exactly as planned. If a node reaches the limits
// of its ledger, the plan continues on other nodes. A Field contributes all other rules about a
// pod's node, such as the other plugins of a scheduler.
//
// If this pass misses the gang's minimum, and the minimum is less than all pods, a second pass
// begins with the smallest members. A plan does not search all combinations. If members of several
// sizes fit in only one way, it may not find this way.
//
// Evict finds cheap victims whose eviction lets a whole gang fit. A Wish is a member's requirement
// about another member's NUMA nodes.
//
// The package is pure: no clock, no randomness, no I/O. It changes only its forks of Nodes.
package plan
