// Command dra creates pods with ResourceClaims on a real control plane with hollow nodes, first
// with the stock kube-scheduler, then with Berth's scheduler. A seed determines the pods. Sample
// drivers publish GPUs, network cards and devices without a NUMA node. Kubelets' own managers
// choose the CPUs, or Berth on some nodes, and the kubelets let the drivers prepare the claims.
// Pods come and go, and the scheduler is killed, also between its write of a claim and the Binding.
//
// The judge reads the CPU managers' checkpoints, cgroups, the allocations of the claims and the
// drivers' prepared devices; it never asks Berth. The last line is JSON. The exit code is 0 only if
// every count that must be zero is zero, kube-scheduler misaligned some pod, Berth steered some
// elsewhere, and every pod that could run ran.
package main
