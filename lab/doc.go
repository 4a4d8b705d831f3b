// Package lab measures how good the choice among nodes is: it lays machines with NUMA nodes below
// the nodes of public lists, and lets Berth's strategies, those of a paper and those of other
// schedulers serve the same loads there (README.md). The simulator is internal/simulate.
package lab
