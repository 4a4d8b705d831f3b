package main

import "errors"

// options are the flags.
type options struct {
	seed  uint64
	gangs int
	keep  bool
	each  bool
	dir   string
}

// errWrong ends the program with exit code 1; the output already has the reason.
var errWrong = errors.New("a check of gangs has failed")
