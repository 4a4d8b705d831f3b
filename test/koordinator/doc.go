// Package koordinator is a load of test/obey: pods with Koordinator's labels and annotations. Pods
// with CPU sets and shares of every policy come and go, pods of a high priority evict others, and
// Reservations hold places for some of them.
package koordinator
