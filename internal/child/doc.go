// Package child runs programs that end with the program that started them, and finds loopback ports
// for them. It starts control planes, hollow nodes, schedulers and emulated machines.
package child
