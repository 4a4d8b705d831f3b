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

// errViolated ends the program with exit code 1; the output already has the reason.
var errViolated = errors.New("a promise was not kept")
