// Command gangs runs gangs and single pods on a real API server with hollow nodes, agents and
// Berth's scheduler, and watches that no gang is ever torn:
//
//	gangs -seed=7 -gangs=100
//
// A seed determines the Plan: gangs of 2 to 32 members, declared by annotations and by the
// PodGroups of Volcano and scheduler-plugins. Some are too large, have more members than they need,
// are scaled up, lose a member, are urgent, or have their scheduler killed between two of their
// Bindings. There are single pods too, and kubelets restart.
//
// It is watched at every moment that a gang which does not fit gets no node, is nominated to none,
// and has nobody evicted; that no gang stays with a part of its minimum bound past its deadline;
// that no gang that was whole is torn by the scheduler; that no kubelet refuses a pod; and that a
// placement marked exact is what the kubelet's managers gave. In the end every gang that fits has
// run, and nothing is left.
//
// The last line of the output is JSON. The exit code is 1 when something was not as it must be.
//
// make e2e-gangs builds and runs it.
package main
