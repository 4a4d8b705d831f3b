// Package lab measures the quality of the choice among nodes. It assigns machines with NUMA nodes
// to the nodes of public traces, and runs the same loads with the strategies of Berth, of a paper
// and of other schedulers (README.md). The simulator is internal/simulate.
package lab
