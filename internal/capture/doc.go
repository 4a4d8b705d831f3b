// Package capture opens a captured /sys, either a folder or an archive, as an fs.FS whose root
// contains sys/.
//
// A capture is untrusted input. The package limits the size of an archive and the number of its
// entries, never unpacks it to disk, and refuses links that lead outside.
package capture
