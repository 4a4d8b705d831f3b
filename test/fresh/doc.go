// Command fresh carries out the instructions of README and tutorial on a fresh machine: a root of
// Debian 12, made by debootstrap, with only the packages of README's line `apt-get install`. Go's
// toolchain and modules are mounted from this machine, read-only. The host's build cache is below a
// writable layer of the root, or is omitted (-cold).
//
// The programs run in their own namespaces, and the network has only a loopback. There the
// repository's last commit is cloned and `make play` runs. Then README's commands and every command
// of the tutorial run, and their outputs are compared with the document. After Ctrl-C nothing may
// be left. Then `make demo` runs. The last line is JSON.
package main
