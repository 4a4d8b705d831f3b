// Command chaos runs a whole cluster of real parts except for its machines (etcd, API server,
// hollow nodes, agents, two schedulers with leader election, a stock scheduler beside them, each a
// process of its own), breaks them at random and checks throughout that Berth keeps its promises.
// README.md describes it for those who run it.
//
// What is done is a Plan: a list of operations that a seed alone determines. The moments at which
// the parts answer are their own, so that a seed replays decisions, not outcomes.
//
// Checked, by the code of `berth check` where that applies: the checkpoints of every kubelet; every
// NodeTopology, whose sequence never goes back; that no kubelet refuses a pod; that a placement
// marked exact is what the managers gave; that the scheduler's own account of broken promises
// agrees. At the end, when the faults are over: that every pod that fits runs, that nothing is left
// behind by pods that are gone, and that no process is left.
//
// A few things are told apart rather than counted as violations, because no scheduler could know
// better: a kubelet that refuses, after its own restart, a pod that it had admitted before; one
// that has lost its device plugins with its restart and refuses a pod that asks for a device; an
// exact placement that differs while one of the two assumptions about speed (package ledger) has
// been broken by a fault: after the restart of a hollow node its containers are gone at once; and
// what a pod explains that came to the node by another way before the scheduler could hear of it. A
// clock that jumps explains nothing.
package main
