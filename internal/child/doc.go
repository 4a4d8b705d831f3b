// Package child runs programs that end with the program that started them, and finds loopback ports
// for them. Berth uses it to start control planes, hollow nodes, schedulers and emulated machines.
package child
