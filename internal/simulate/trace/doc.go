// Package trace has lists of nodes and pods, and the order in which a load arrives. It is pure.
package trace
