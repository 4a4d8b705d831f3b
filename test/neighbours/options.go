package main

// options are the flags.
type options struct {
	from, controller, only, dir string
	keep, each                  bool
}
