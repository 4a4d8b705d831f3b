// Package child runs programs that do not outlive the one that started them, and finds the
// loopback ports that they listen on. Control planes, hollow nodes, schedulers and emulated
// machines are all started by it.
package child
