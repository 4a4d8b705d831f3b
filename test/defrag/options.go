package main

// options are the values of the flags.
type options struct {
	seed  uint64
	plans int
	nodes int
}

// leastPlans is the number of plans below which the result proves nothing.
const leastPlans = 20
