package main

import "errors"

// options are the flags.
type options struct {
	seed uint64
	jobs int
	keep bool
	each bool
	dir  string
}

// errWrong is the negative answer; the output already has the reason.
var errWrong = errors.New("not all Jobs were as they must be")
