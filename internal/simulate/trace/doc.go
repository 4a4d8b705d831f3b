// Package trace has lists of nodes and pods, and draws the order in which the pods arrive. It is
// pure.
package trace
