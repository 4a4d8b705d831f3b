package main

// options are the values of the flags.
type options struct {
	from, to string
	nodes    int
	seed     uint64
	keep     bool
}
