package wire

import (
	"strconv"
	"strings"
)

// On nodes where Berth decides, the agent offers tokens to the kubelet in place of devices. A token
// does not stand for a particular device; only the number of tokens matters. When the kubelet
// allocates tokens to a container, the agent returns an annotation with the number of devices that
// they stand for (Allocate of the device plugin API). The kubelet passes the annotation to the
// container runtime. No pod can set this annotation.

// tokensPrefix is the prefix of the annotations for tokens.
const tokensPrefix = "tokens.berth.dev/"

// TokensAnnotation returns the name of a container's annotation in the container runtime. The
// annotation's value is the number of devices for which the kubelet has allocated tokens of the
// resource to the container (DeviceCount).
func TokensAnnotation(resource string) string {
	return tokensPrefix + strings.Replace(resource, "/", "_", 1)
}

// ReadTokens returns the numbers of devices for which a container has tokens, by resource, from the
// container's annotations in the runtime. An invalid number counts as -1, which matches no
// decision. So does a number that contradicts the number under another name of the same devices
// (DeviceOf).
func ReadTokens(annotations map[string]string) map[string]int {
	var out map[string]int
	for key, text := range annotations {
		name, ok := strings.CutPrefix(key, tokensPrefix)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			n = -1
		}
		if out == nil {
			out = map[string]int{}
		}
		resource := DeviceOf(strings.Replace(name, "_", "/", 1)) // domains have no underscore
		if other, twice := out[resource]; twice && other != n {
			n = -1
		}
		out[resource] = n
	}
	return out
}

// DevicesVariable returns the name of the environment variable that lists a container's devices of
// a resource. Its value has their PCI addresses, ascending and separated by commas. The SR-IOV
// device plugin uses the same name.
func DevicesVariable(resource string) string {
	return "PCIDEVICE_" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, resource)
}
