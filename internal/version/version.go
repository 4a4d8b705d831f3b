// Package version says which release of Berth this is.
package version

// Version is the release; the linker sets it (the Makefile's LDFLAGS).
var Version = "unknown"
