// Package sysfs reads a machine from what the Linux kernel says about it under
// /sys/devices/system/cpu, /sys/devices/system/node, /sys/bus/pci and /sys/class.
//
// Input is an fs.FS, so a live machine and a capture are read alike. Files that older kernels and
// filtered captures lack have fallbacks; what contradicts itself is a *Error that names the file,
// the field and the value. Where the kernel is known to report nonsense (NUMA nodes that share
// CPUs), the first object that claims a CPU keeps it, as in hwloc.
package sysfs
