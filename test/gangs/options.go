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

// errWrong is the answer no; the output has said why.
var errWrong = errors.New("gangs were not as they must be")
