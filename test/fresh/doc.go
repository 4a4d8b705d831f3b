// Command fresh does what README and tutorial tell a newcomer to do, on a machine that has nothing:
// a root of Debian 12, made by debootstrap, with the packages of README's line `apt-get install`
// and no other. Go's toolchain and modules are mounted from this machine, read-only. Its build
// cache lies below one of the root's own, which takes every write, or is left out (-cold).
//
// The programs run in namespaces of their own, and the network has a loopback alone. There the
// repository's last commit is cloned, `make play` runs, then README's commands and every command of
// the tutorial, whose outputs are compared with what the document prints; then Ctrl-C, and nothing
// may be left; then `make demo`. The last line is one of JSON.
package main
