// Package sysfs reads a machine from the files of the Linux kernel under /sys/devices/system/cpu,
// /sys/devices/system/node, /sys/bus/pci and /sys/class.
//
// Input is an fs.FS, so a live machine and a capture are read in the same way. Files that older
// kernels and filtered captures lack have fallbacks. Contradictions are a *Error that names the
// file, the field and the value. If NUMA nodes share CPUs, as some kernels report, the first object
// that claims a CPU keeps it, as in hwloc.
package sysfs
