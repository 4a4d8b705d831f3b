// Package sysfs reads a machine from the files of the Linux kernel under /sys: its CPUs, caches,
// NUMA nodes, PCI devices, and the links of AMD GPUs. It reads NVLinks from a file with the output
// of nvidia-smi (MatrixFile), and the UUIDs of NVIDIA's GPUs from /proc (ReadNVIDIA).
//
// The input is an fs.FS: a live machine, or a capture of its files. If a file is missing, as on an
// older kernel or in a filtered capture, the package uses another file if possible. If a file has a
// wrong value, the error is an *Error with the file, the field and the value. If two objects of one
// kind claim a CPU, as some kernels report, the first object keeps the CPU, as in hwloc. A NUMA
// node that claims a CPU of an earlier node is left out.
package sysfs
