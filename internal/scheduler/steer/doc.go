// Package steer is kube-scheduler's plugin DynamicResources, under another name, for pods that want
// devices on the NUMA nodes of their CPUs (berth.dev/claims). Every other pod goes to the original
// by the same calls, with the same state.
//
// The allocator is the original's. For each candidate node it is shown copies of the node's
// ResourceSlices without the devices on other NUMA nodes than the pod's CPUs could have there, one
// way of lying after the other, up to MaxWays. If Berth decides on the node, its search counts the
// devices, and so finds the ways near which there may be enough. Each way has a cycle state of its
// own; Reserve puts the one of the chosen node in the place of the original's. Slices and counters
// stay, and other plugins see all devices.
//
// What was allocated is checked against what Berth decided: in Filter if it was allocated earlier,
// otherwise in Reserve, after Berth's own, and again after PreBind. The claim for
// extended resources is in no list before PreBind; Reserve takes what the tracker is told of it.
// If Unreserve finds that an attempt has written its allocation, it takes the allocation back,
// unless another pod uses the claim.
package steer
