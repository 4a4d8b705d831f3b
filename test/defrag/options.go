package main

// options are the flags.
type options struct {
	seed  uint64
	plans int
	nodes int
}

// leastPlans is how many there must be for the result to say anything.
const leastPlans = 20
