// Package steer is kube-scheduler's plugin DynamicResources, under another name, for pods that
// request devices on the NUMA nodes of their CPUs (berth.dev/claims). For every other pod it calls
// the original with the same arguments and state.
//
// The allocator is the original's. For each candidate node it sees copies of the node's
// ResourceSlices, without the devices on other NUMA nodes than the pod's CPUs could have there. It
// sees one way of lying after the other, up to MaxWays. If Berth decides on the node, its search
// counts the devices, and so finds the ways with enough devices. Each way has its own cycle state;
// Reserve replaces the original's state with that of the chosen node. Slices and counters do not
// change, and other plugins see all devices.
//
// The allocation is checked against Berth's decision: in Filter if it is older, otherwise in
// Reserve, after Berth's own, and again after PreBind. The claim for extended resources is in no
// list before PreBind; Reserve reads it from the tracker. If Unreserve finds that an attempt has
// written its allocation, it deallocates, unless another pod uses the claim.
package steer
