// Package trace describes the nodes and pods of a simulation as lists, and draws the random order
// in which pods arrive. It does no I/O.
package trace
