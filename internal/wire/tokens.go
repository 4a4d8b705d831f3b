package wire

import (
	"strconv"
	"strings"
)

// On nodes where Berth decides, the kubelet allocates tokens for devices that the agent offers. A
// token stands for no particular device; only their number counts. The agent's reply to the kubelet
// marks the container with the number, by an annotation of the container in the runtime, which no
// pod can set.

// tokensPrefix is the prefix of these annotations.
const tokensPrefix = "tokens.berth.dev/"

// TokensAnnotation is the annotation of a container in the container runtime with the number of
// tokens that the kubelet assigned to it for a resource.
func TokensAnnotation(resource string) string {
	return tokensPrefix + strings.Replace(resource, "/", "_", 1)
}

// ReadTokens returns the tokens of a container by resource, from its annotations in the runtime. An
// invalid number counts as -1, which matches no decision.
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

// DevicesVariable is the environment variable with the PCI addresses of a container's devices of a
// resource, ascending and separated by commas. The SR-IOV device plugin uses the same name.
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
