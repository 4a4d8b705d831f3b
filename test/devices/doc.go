// Package devices is a load of test/obey. Its pods request combinations of GPUs, network cards,
// virtual functions, CPUs, memory and huge pages. They have one or several containers, and some are
// in gangs. One node's kubelet decides; the others have authority berth. The test compares the
// environment of the containers with the decisions all the time, and the decisions with the
// requests. An exhaustive search finds out which pods and gangs have room on the nodes with
// authority berth, also by eviction of pods with a lower priority. All of them must run.
package devices
