// Package placement is the engine: it knows what a kubelet decides for a pod.
//
// The flow is one way. A KubeletView and a Config are compiled once into a Model. A State says what is
// handed out on that node. Admit answers whether the node would take a Request, Decide also says with
// which CPUs, memory blocks and devices, Explain says why not. All three are pure: no clock, no
// randomness, no I/O, no goroutines, no Kubernetes types, and they never change the State. Commit,
// Release, Start and the other methods of State do, each as the kubelet does it.
//
// The hint providers live in placement/cpu, placement/memory and placement/device.
package placement
