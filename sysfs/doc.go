// Package sysfs reads a machine from the files of the Linux kernel under /sys/devices/system/cpu,
// /sys/devices/system/node, /sys/bus/pci and /sys/class.
//
// The input is an fs.FS, so the package reads a live machine and a capture in the same way. If an
// older kernel or a filtered capture lacks a file, it uses another one. A contradiction is an
// *Error with the file, the field and the value. If NUMA nodes share CPUs, as some kernels report,
// the first object that claims a CPU keeps it, as in hwloc.
package sysfs
