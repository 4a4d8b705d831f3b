package claims

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/internal/clip"
)

// Standard attributes (k8s.io/dynamic-resource-allocation/deviceattribute).
const (
	StandardNUMANode = "resource.kubernetes.io/numaNode"
	StandardAddress  = "resource.kubernetes.io/pciBusID"
	StandardPCIeRoot = "resource.kubernetes.io/pcieRoot"
)

// Sources are attributes in which drivers publish the NUMA node or the PCI address of a device, in
// order of precedence. The standard attributes take precedence over all of them. Each name here
// includes its domain, although a driver may omit the domain in a ResourceSlice if it equals the
// driver's name.
type Sources struct {
	// NUMA are the names of attributes with the number of a NUMA node.
	NUMA []string
	// Address are the names of attributes with the PCI address of the device.
	Address []string
}

// DefaultSources returns the attributes of known drivers that use attributes of their own: dranet,
// dra-driver-sriov, dra-driver-cpu before 0.3, and older GPU drivers of AMD and NVIDIA.
func DefaultSources() Sources {
	return Sources{
		NUMA:    []string{"dra.net/numaNode", "dra.cpu/numaNodeID", "gpu.amd.com/numaNode", "gpu.nvidia.com/numa"},
		Address: []string{"dra.net/pciAddress", "sriovnetwork.k8snetworkplumbingwg.io/pciAddress", "gpu.amd.com/pciAddr"},
	}
}

// maxSources is the maximum number of attributes that an administrator may add.
const maxSources = 32

// With adds attributes for NUMA nodes, which take precedence over the attributes in s. The error
// names the wrong attribute and the expected form.
func (s Sources) With(numa []string) (Sources, error) {
	if len(numa) > maxSources {
		return s, fmt.Errorf("%d attributes: want at most %d", len(numa), maxSources)
	}
	for _, name := range numa {
		domain, id, found := strings.Cut(name, "/")
		if !found || len(validation.IsDNS1123Subdomain(domain)) > 0 || len(validation.IsCIdentifier(id)) > 0 {
			return s, fmt.Errorf("%s: want an attribute with its domain, such as gpu.example.com/numaNode", clip.Quoted(name))
		}
	}
	s.NUMA = slices.Concat(numa, s.NUMA)
	return s, nil
}

// attribute returns the attribute of a driver's device with the given full name.
func attribute(driver string, d *resourceapi.Device, name string) (resourceapi.DeviceAttribute, bool) {
	if a, found := d.Attributes[resourceapi.QualifiedName(name)]; found {
		return a, true
	}
	if domain, id, _ := strings.Cut(name, "/"); domain == driver {
		a, found := d.Attributes[resourceapi.QualifiedName(id)]
		return a, found
	}
	return resourceapi.DeviceAttribute{}, false
}

func number(a *resourceapi.DeviceAttribute) (n int64, ok bool) {
	switch {
	case a.IntValue != nil:
		return *a.IntValue, true
	case len(a.IntValues) > 0:
		return a.IntValues[0], true
	}
	return 0, false
}

func text(a *resourceapi.DeviceAttribute) (s string, ok bool) {
	switch {
	case a.StringValue != nil:
		return *a.StringValue, true
	case len(a.StringValues) > 0:
		return a.StringValues[0], true
	}
	return "", false
}

func typeOf(a *resourceapi.DeviceAttribute) string {
	switch {
	case a.IntValue != nil:
		return "an int"
	case a.BoolValue != nil:
		return "a bool"
	case a.StringValue != nil:
		return "a string"
	case a.VersionValue != nil:
		return "a version"
	case a.IntValues != nil:
		return "a list of ints"
	case a.BoolValues != nil:
		return "a list of bools"
	case a.StringValues != nil:
		return "a list of strings"
	case a.VersionValues != nil:
		return "a list of versions"
	}
	return "of an unknown type"
}

// canonical returns a PCI address as Linux writes it, such as "0000:3b:00.0". NVIDIA's tools write
// domains of eight digits, and users leave out the domain.
func canonical(address string) string {
	address = strings.ToLower(address)
	domain, rest, found := strings.Cut(address, ":")
	switch {
	case !found:
		return address
	case !strings.Contains(rest, ":"):
		return "0000:" + address
	case len(domain) == 8 && strings.HasPrefix(domain, "0000"):
		return domain[4:] + ":" + rest
	}
	return address
}
