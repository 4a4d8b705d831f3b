package main

import (
	"errors"
	"time"
)

// options are the flags.
type options struct {
	seed     uint64
	duration time.Duration
	nodes    int
	keep     bool
	fraud    fraud
	each     bool
	dir      string
}

// errViolated is the answer no; the output has said why.
var errViolated = errors.New("a promise was not kept")
