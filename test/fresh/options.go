package main

// options are the flags.
type options struct {
	// Cache is the folder of roots, Mirror the source of their packages; "" means apt's own.
	Cache, Mirror string
	// Suite is the release of Debian.
	Suite string
	// Cold makes the build start with an empty cache; NoDemo skips make demo.
	Cold, NoDemo bool
	// Log is the file for everything that the commands print.
	Log string
}
