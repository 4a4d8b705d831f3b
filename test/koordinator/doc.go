// Package koordinator is a load of test/obey: pods in Koordinator's words. Sets and shares of every
// policy come and go, urgent ones evict others, and Reservations hold places for some of them.
package koordinator
