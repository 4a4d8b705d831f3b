// Command dra plays pods with ResourceClaims from a seed on a real control plane with hollow nodes,
// first under kube-scheduler as it comes, then under Berth's scheduler. Sample drivers publish
// GPUs, network cards and devices without a NUMA node; the kubelets' own managers choose the CPUs
// and have the drivers prepare what is claimed. Pods come and go, and the scheduler is killed: also
// when it has written a claim and not yet the Binding.
//
// The judge reads the CPU managers' checkpoints, the allocations of the claims and what the drivers
// were told to prepare; it never asks Berth. The last line is one of JSON; the exit code is 1
// unless every zero in it is zero, kube-scheduler misaligned some pod, Berth steered some
// elsewhere, and every pod that could run ran.
package main
