// Package lab measures the quality of the choice among nodes. It gives the nodes of public lists
// machines with NUMA nodes, and serves the same loads there with Berth's strategies, those of a
// paper and those of other schedulers (README.md). The simulator is internal/simulate.
package lab
