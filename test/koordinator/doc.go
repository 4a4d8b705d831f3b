// Command koordinator plays pods in Koordinator's words on a real control plane with hollow nodes
// that obey: genuine kubelets without managers, NRI's own adaptation, the agent's plugin, cgroups
// that are files. Sets and shares of every policy come and go from a seed, urgent ones evict
// others, agents and the scheduler are killed at random. Reservations hold places for some of them.
//
// It reads the cgroups all the time. The last line is one of JSON; the exit code is 1 unless every
// zero in it is zero, and every pod for which there is room ran.
package main
