// Package trace has the types of lists of nodes and pods, and draws the random order in which pods
// arrive. It is pure.
package trace
