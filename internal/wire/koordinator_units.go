package wire

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// koordinatorUnit is the number of units that Koordinator's device manager counts for a whole
// device.
const koordinatorUnit = 100

// koordinatorDevices has Koordinator's resources that count 100 units for one device. Each value
// lists other resource names for the same devices. A pod requests a whole GPU with 100 of
// koordinator.sh/gpu, or with 100 of each of the other two resources.
var koordinatorDevices = map[string][]string{
	"koordinator.sh/gpu":  {"koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio"},
	"koordinator.sh/rdma": nil,
	"koordinator.sh/fpga": nil,
}

// DeviceOf returns the resource whose devices a resource name counts: koordinator.sh/gpu for
// koordinator.sh/gpu-core, for example. For most names, this is the name itself.
func DeviceOf(name string) string {
	for resource, others := range koordinatorDevices {
		if slices.Contains(others, name) {
			return resource
		}
	}
	return name
}

// DeviceNames returns the resource names with which pods request the devices of a resource.
func DeviceNames(resource string) []string {
	return append([]string{resource}, koordinatorDevices[resource]...)
}

// DeviceUnits returns the number of units of a resource name that stand for one device.
func DeviceUnits(name string) int {
	if _, units := koordinatorDevices[DeviceOf(name)]; units {
		return koordinatorUnit
	}
	return 1
}

// DeviceCount formats units as a number of devices. A fraction of a device becomes a text such as
// "50/100". ReadTokens counts this text as -1, because Berth never decides on a fraction.
func DeviceCount(name string, units int) string {
	each := DeviceUnits(name)
	if units%each != 0 {
		return strconv.Itoa(units) + "/" + strconv.Itoa(each)
	}
	return strconv.Itoa(units / each)
}

// koordinatorParts are resources that stand for parts of GPUs.
var koordinatorParts = []string{"koordinator.sh/gpu-memory", "koordinator.sh/gpu.shared"}

// isKoordinatorDevice reports whether a resource name counts Koordinator's devices, or parts of
// them.
func isKoordinatorDevice(name string) bool {
	return DeviceUnits(name) > 1 || slices.Contains(koordinatorParts, name)
}

// checkUnits returns an error if the pod requests parts of devices through Koordinator's resources.
// The error is a *FieldError.
func checkUnits(pod *corev1.Pod) error {
	for at, c := range Containers(pod) {
		limits := c.Resources.Limits
		for _, name := range namesIn(limits) {
			if q, want := limits[name], wantUnits(string(name), limits); want != "" {
				return fieldErrors(podName(pod)).at(at.Path().Child("resources", "limits").Key(string(name)), &q, want)
			}
		}
	}
	return nil
}

// wantUnits describes the correct request for a container, or returns "" if the request is correct.
func wantUnits(name string, limits corev1.ResourceList) string {
	q, device := limits[corev1.ResourceName(name)], DeviceOf(name)
	switch {
	case q.IsZero():
		return ""
	case slices.Contains(koordinatorParts, name):
		return "koordinator.sh/gpu (100 are a GPU), or the resource of the GPUs' own plugin: Berth gives whole devices"
	case DeviceUnits(name) > 1 && q.MilliValue()%(1000*koordinatorUnit) != 0:
		return "a multiple of 100, which is one device: Berth gives whole devices"
	}
	for _, other := range DeviceNames(device) {
		also, said := limits[corev1.ResourceName(other)]
		switch {
		case !said || also.IsZero() || other == name:
		case other == device:
			return "nothing next to " + device + ", which asks for whole devices"
		case q.Cmp(also) != 0 && name > other:
			return also.String() + ", as " + other + " says: Berth gives whole devices"
		}
	}
	return ""
}
