// Package steer is kube-scheduler's plugin DynamicResources with an addition: it places pods so
// that their devices are on the NUMA nodes of their CPUs (berth.dev/claims). For a pod that does
// not ask for this, it calls DynamicResources with the same arguments and state.
//
// The allocator of DynamicResources chooses the devices. A way is one placement of the pod's
// containers on the NUMA nodes of a node. For each way, this package shows the allocator copies of
// the node's ResourceSlices, without the devices on other NUMA nodes. It tries up to MaxWays ways
// per node, one after another. If Berth decides on the node, its search for placements takes the
// number of devices per NUMA node into account, so that it finds ways with enough devices. Each way
// has its own cycle state. Reserve writes the state of the chosen node into the pod's own cycle
// state. The ResourceSlices in the cluster do not change, and other plugins see all devices.
//
// The plugin compares the allocation with Berth's decision. It checks an earlier allocation in
// Filter, a new allocation in Reserve after Berth's own plugin, and both again after PreBind. The
// claim for extended resources exists in the API only from PreBind on, so Reserve takes it from the
// ResourceClaimTracker. If the attempt fails after PreBind has written an allocation, Unreserve
// deallocates the claim unless another pod uses it.
package steer
