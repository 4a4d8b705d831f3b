// Package offer offers devices of a machine to its kubelet, on a node where Berth decides about
// devices.
//
// A Config assigns devices to resource names, and defines how the runtime injects them. Resolve, a
// pure function, finds the devices on a machine. Offers offers them to the kubelet as a device
// plugin. The plugin's devices are tokens without topology, one per real device, so that the
// kubelet only counts them. Offers reads from sysfs which devices are gone or in use, and writes a
// CDI specification for devices that no vendor describes. The Binding of a pod has the devices of
// its containers, and internal/enforce makes the runtime inject them.
package offer
