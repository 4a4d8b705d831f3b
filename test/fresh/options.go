package main

// options are the flags.
type options struct {
	// Cache is where roots are kept, Mirror where their packages come from; "" means apt's own.
	Cache, Mirror string
	// Suite is the release of Debian.
	Suite string
	// Cold makes the build begin with an empty cache; NoDemo leaves make demo out.
	Cold, NoDemo bool
	// Log is the file for everything that the commands print.
	Log string
}
