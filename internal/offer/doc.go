// Package offer offers devices of a machine to its kubelet, on a node where Berth decides which
// container gets which.
//
// A Config says which devices go by which resource name, and how the runtime injects them. Resolve
// finds them on a machine, purely. Offers keeps them up: to the kubelet it is a device plugin whose
// devices are tokens, as many as there are devices and without topology, so that it counts and does
// not choose; it looks at sysfs for what has gone or is in use; and it writes a CDI specification
// for devices that no vendor's describes. Which devices a container gets comes with its Binding,
// and internal/enforce has the runtime inject them.
package offer
