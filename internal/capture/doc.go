// Package capture opens a captured /sys, either a folder or an archive, as an fs.FS whose root
// contains sys/.
//
// A capture comes from outside: archives have limits for size and number of entries, are never
// unpacked to disk, and their links must stay inside. Other archives are refused.
package capture
