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

// errWrong is the answer no; the output has said why.
var errWrong = errors.New("not all Jobs were as they must be")
