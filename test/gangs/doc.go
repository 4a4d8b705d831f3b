// Command gangs runs gangs and single pods on a real API server with hollow nodes, agents and
// Berth's scheduler, and checks that no gang is ever bound in part:
//
//	gangs -seed=7 -gangs=100
//
// A seed determines the Plan: gangs of 2 to 32 members, declared by annotations and by the
// PodGroups of Volcano and scheduler-plugins. Some are too large, have more members than they need,
// are scaled up, lose a member, or have a high priority. For some gangs, the scheduler is killed
// between two of their Bindings. The plan also has single pods and restarts of kubelets.
//
// The checks run all the time. A gang that does not fit gets no node, is nominated to none, and
// causes no eviction. No gang stays with a part of its minimum bound past its deadline. The
// scheduler deletes no pod of a complete gang, except to evict it. No kubelet refuses a pod, and a
// placement marked exact equals the assignment of the kubelet's managers. In the end every gang
// that fits has run, and nothing is left.
//
// The last line of the output is JSON. The exit code is 1 after a failure.
//
// make e2e-gangs builds and runs it.
package main
