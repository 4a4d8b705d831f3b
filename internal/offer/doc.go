// Package offer is a device plugin for nodes where Berth assigns devices: it offers a machine's
// devices to the kubelet.
//
// A Config selects devices for resource names, and defines how the runtime injects them. Resolve, a
// pure function, finds the selected devices on a machine. Offers serves the kubelet as a device
// plugin. For each device it offers tokens without topology, so that the kubelet only counts them:
// one token, or 100 for a resource that Koordinator counts in hundredths (wire.DeviceUnits). Offers
// checks in sysfs whether devices are missing or in use, and writes a CDI specification for devices
// that no vendor's specification describes. The Binding of a pod names the devices of its
// containers, and internal/enforce makes the runtime inject them.
package offer
