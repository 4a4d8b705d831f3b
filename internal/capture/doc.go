// Package capture opens a captured /sys, either a folder or an archive, as an fs.FS whose root
// contains sys/.
//
// A capture comes from outside: archives are bounded in size and number of entries, are never
// unpacked to disk, and links lead nowhere but inside. An archive that tries is refused.
package capture
