// Package trace is lists of nodes and of pods, and the order in which a load arrives. It is pure.
package trace
