// Package claims is a small exhaustive model of pods whose ResourceClaims must have their device on
// the NUMA node of their CPU. In its scheduler the in-tree allocator chooses devices and Berth
// judges them. The model includes kubelets that choose the CPUs, the controller of claims, and
// failures.
//
// A node has two NUMA nodes with a CPU and at most a device each. Its kubelet gives a pod the
// lowest CPU that is free when the pod is bound. On one node Berth may choose the CPU itself. The
// scheduler tries the nodes in order, and the allocator the devices. A device may have to become
// ready before its pod is bound; it may never become ready.
//
// Check walks every reachable state of a Config breadth first and returns the shortest run that
// breaks a promise: a pod runs away from its device, a claim stays allocated to a deleted pod, a
// node is chosen again and again, a pod that fits is not bound, or another pod's claim is
// deallocated. Each Rule can be switched off, so that the tests show its purpose. testdata has the
// runs.
//
// The model is pure and shares no code with the scheduler.
package claims
