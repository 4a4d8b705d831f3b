// Package offer offers devices of a machine to its kubelet, on a node where Berth decides about
// devices.
//
// A Config assigns devices to resource names, and defines how the runtime injects them. Resolve, a
// pure function, finds them on a machine. Offers maintains the offer. For the kubelet it is a
// device plugin whose devices are tokens without topology, one per device, so that the kubelet only
// counts them. Offers reads from sysfs which devices are gone or in use, and writes a CDI
// specification for devices that no vendor describes. The Binding of a pod has the devices of its
// containers, and internal/enforce makes the runtime inject them.
package offer
