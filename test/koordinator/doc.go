// Package koordinator is a load of test/obey: pods with Koordinator's labels and annotations. Pods
// with CPU sets and CPU shares of every policy start and end, pods of a high priority evict others,
// and Reservations hold room for some of them.
package koordinator
