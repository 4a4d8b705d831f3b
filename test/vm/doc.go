// Package vm boots real machines: QEMU with any number of sockets, dies and NUMA nodes, a Debian
// kernel, containerd, runc and the kubelet, joined to the in-process control plane. It is the proof
// that what the hollow nodes show is what a node does.
//
// The flow: Ensure builds or fetches every artifact once into a cache folder; Boot starts a Machine
// from them; Guest runs commands as root inside. Guests reach the API server, through loopback, and
// nothing else. Everything that is started is stopped by its process, also on failure.
package vm
