// Package plan finds nodes for a gang of pods. The whole gang is planned before the scheduler
// reserves anything.
//
// Make goes through the members once, the largest first. Members of one kind follow each other.
// Each member gets the first node that admits it, in the order of the Field. Make asks forks of the
// nodes' ledgers (suppose.Node.Promise), so the scheduler can later reserve the members exactly as
// planned. If a node reaches the limits of its ledger, the plan continues on other nodes. A Field
// has all other rules about which nodes a pod may use, such as the rules of the scheduler's other
// plugins.
//
// If this pass does not reach the gang's minimum, but the minimum is less than the number of
// members, a second pass begins with the smallest members. Make does not search all combinations.
// If members of several sizes fit in only one way, Make does not always find this way.
//
// Evict finds pods whose eviction makes room for a whole gang at a low cost. With a Wish, a member
// asks for the same NUMA nodes as another member, or for different ones.
//
// The package is pure: it uses no random numbers, does no I/O, and reads the clock only for a
// Budget. The package changes forks of ledgers, but not the ledgers.
package plan
