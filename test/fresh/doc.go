// Command fresh carries out the instructions of README and tutorial on a fresh machine: a root
// directory with Debian 12, made by debootstrap, with only the packages of README's line `apt-get
// install`. Go's toolchain and modules are mounted from this machine, read-only. The host's build
// cache is below a writable layer of the root, or is omitted (-cold).
//
// The programs run in their own namespaces, and the network has only a loopback. Command fresh
// clones the repository's last commit there and runs `make play`. Then it runs README's commands
// and every command of the tutorial, and compares their outputs with the documents. After Ctrl-C
// nothing may be left. Then it runs `make demo`. The last line is JSON.
package main
