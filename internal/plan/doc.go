// Package plan finds nodes for many pods at once: a gang, planned whole before anything is
// reserved.
//
// Make goes through the members once, the largest first and equal ones together. Each gets the
// first of its nodes that admits it. The nodes' ledgers are asked on forks (suppose.Node.Promise),
// so the members are later reserved exactly as planned. If the limits of a ledger for one node are
// reached, the plan continues on other nodes. A Field contributes all other rules about a pod's
// node, such as the other plugins of a scheduler.
//
// If this pass misses the gang's minimum, and fewer than all pods would be enough, a second pass
// begins with the smallest. A plan does not search all combinations. If members of several sizes
// fit in only one way, it may miss this way.
//
// Evict finds the cheapest victims without which a whole gang fits. A Wish is a member's
// requirement about another member's NUMA nodes.
//
// The package is pure: no clock, no randomness, no I/O. It changes only its forks of Nodes.
package plan
