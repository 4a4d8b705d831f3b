// Package trace reads lists of nodes and of pods, and gives the order in which a load arrives.
//
// The format is that of the public traces of GPU clusters (openb): comma-separated values with a
// header, plain or packed by gzip. It is pure except for the reader that it is given.
package trace
