// Command dra creates pods with ResourceClaims on a real control plane with hollow nodes, first
// with the stock kube-scheduler, then with Berth's scheduler. A seed determines the pods. Sample
// drivers publish GPUs, network cards and devices without a NUMA node. On some nodes the kubelets'
// managers choose the CPUs, and on others Berth does. The drivers prepare the claims for the
// kubelets. Pods start and end, and the scheduler is killed, also between its write of a claim and
// the Binding.
//
// The judge reads the CPU managers' checkpoints, cgroups, the allocations of the claims and the
// drivers' prepared devices; it never asks Berth. The last line is JSON. The exit code is 0 only if
// every count that must be zero is zero, kube-scheduler misaligned some pod, Berth steered some pod
// to another device, and every pod that fits ran.
package main
