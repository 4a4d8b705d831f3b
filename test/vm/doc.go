// Package vm boots real machines: QEMU with any number of sockets, dies and NUMA nodes, a Debian
// kernel, containerd, runc and the kubelet, joined to the in-process control plane. It proves that
// hollow nodes behave as real nodes do.
//
// Ensure builds or fetches every artifact once into a cache folder. Boot starts a Machine from
// them, and Guest runs commands as root inside. Guests reach only the API server, through loopback.
// This process stops everything that it has started, also after a failure.
package vm
