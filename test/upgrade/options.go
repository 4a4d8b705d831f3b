package main

// options are the flags.
type options struct {
	from, to string
	nodes    int
	seed     uint64
	keep     bool
}
