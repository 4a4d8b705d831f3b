// Package steer is kube-scheduler's plugin DynamicResources with an addition: it places pods so
// that their devices are on the NUMA nodes of their CPUs (berth.dev/claims). For every other pod it
// calls DynamicResources with the same arguments and state.
//
// Devices are chosen by the allocator of DynamicResources. For each candidate node, this package
// shows the allocator copies of the node's ResourceSlices. Devices on NUMA nodes where the pod's
// CPUs could not be are left out. A way is one placement of the pod's containers on NUMA nodes; the
// allocator is asked about up to MaxWays, one after another. If Berth decides on the node, its
// search counts the devices, so it tries ways with enough devices. Each way has its own cycle
// state. Reserve installs the state of the chosen node. The ResourceSlices in the cluster do not
// change, and other plugins see all devices.
//
// The plugin checks the allocation against Berth's decision. It checks an older allocation in
// Filter, a new one in Reserve after Berth's own plugin, and both again after PreBind. The claim
// for extended resources is in no list before PreBind, so Reserve reads it from the tracker. If
// PreBind has written an allocation and the attempt fails, Unreserve deallocates the claim unless
// another pod uses it.
package steer
