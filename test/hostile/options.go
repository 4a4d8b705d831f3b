package main

import (
	"errors"
	"time"
)

// options are the flags.
type options struct {
	seed     uint64
	attempts int
	friendly int
	calm     time.Duration
	limit    time.Duration
	until    string
	keep     bool
	dir      string
}

// errHarmed ends the program with exit code 1; the output already has the reason.
var errHarmed = errors.New("the tenant did harm, or the run was too small")
