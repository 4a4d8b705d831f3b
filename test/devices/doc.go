// Package devices is a load of test/obey: pods that ask for GPUs, network cards and their virtual
// functions, CPUs, memory and huge pages, together and not, in several containers, alone and in
// gangs, on nodes that obey and on one whose kubelet decides. What the containers find in their
// environment is held against the decisions all the time, and these against what the pods asked
// for. Every pod, and every gang, must run for which an exhaustive twin finds room on the nodes
// that obey; what has a lower priority must make room.
package devices
