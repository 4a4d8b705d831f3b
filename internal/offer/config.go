package offer

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/internal/strict"
	"github.com/berth-dev/berth/internal/suggest"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// Config selects the devices that the agent offers to the kubelet, by resource name. The agent does
// not offer devices that no resource selects.
type Config struct {
	// Resources are the resources that pods can ask for. Each resource name appears once.
	Resources []Resource `json:"resources"`

	// object is the document's name, for errors.
	object string
}

// Resource is a resource name and a selection of devices: the devices that match all of its fields.
// At least one of class, vendor and addresses must be set.
type Resource struct {
	// Resource is the extended resource that pods ask for, like nvidia.com/gpu.
	Resource string `json:"resource"`
	// Class is the purpose of the devices: gpu, accelerator, nic (with or without RDMA), rdma, nvme
	// or other; "" for any.
	Class string `json:"class,omitempty"`
	// Vendor and Product are PCI ids, four hexadecimal digits; "" for any.
	Vendor  string `json:"vendor,omitempty"`
	Product string `json:"product,omitempty"`
	// Addresses are PCI addresses like 0000:3b:00.0. At each of them, the machine must have a
	// device that matches the other fields, unless Optional is set. If Addresses is empty, every
	// address matches.
	Addresses []string `json:"addresses,omitempty"`
	// Virtual means that the resource selects only virtual functions (SR-IOV). If it is false, the
	// resource selects no virtual functions.
	Virtual bool `json:"virtual,omitempty"`
	// Optional means that a machine without these devices is not an error.
	Optional bool `json:"optional,omitempty"`
	// CDI means that a vendor's CDI specification describes the devices. If it is not set, the
	// agent writes a specification, with the device nodes from sysfs.
	CDI *CDI `json:"cdi,omitempty"`
}

// CDI describes the names of devices in a vendor's specification.
type CDI struct {
	// Kind is the kind of the specification, like nvidia.com/gpu.
	Kind string `json:"kind"`
	// Names is the form of the devices' names in the specification: address, index or uuid. The
	// index counts the machine's devices of one vendor and kind (topology.DeviceKind), in ascending
	// order of their addresses. The uuid comes from NVIDIA's driver.
	Names string `json:"names"`
}

// maxConfig is the maximum size of a document in bytes, and maxResources the maximum number of its
// resources.
const (
	maxConfig    = 256 << 10
	maxResources = 64
)

// Read reads a document in YAML or JSON. `object` is its name in errors. Each error is or wraps a
// *wire.FieldError.
func Read(object string, doc []byte) (*Config, error) {
	if len(doc) > maxConfig {
		return nil, &wire.FieldError{Object: object, Field: "document", Value: fmt.Sprint(len(doc), " bytes"), Want: fmt.Sprint("at most ", maxConfig)}
	}
	c := &Config{object: object}
	if err := strict.Unmarshal(object, doc, c); err != nil {
		return nil, err
	}
	c.object = object
	return c, c.check()
}

func (c *Config) fail(field string, value any, want string) error {
	return &wire.FieldError{Object: c.object, Field: field, Value: fmt.Sprint(value), Want: want}
}

func (c *Config) check() error {
	if n := len(c.Resources); n == 0 || n > maxResources {
		return c.fail("resources", n, fmt.Sprint("1 to ", maxResources, " resources"))
	}
	seen := map[string]bool{}
	for i := range c.Resources {
		r, at := &c.Resources[i], fmt.Sprintf("resources[%d]", i)
		if err := c.checkName(at+".resource", r.Resource); err != nil {
			return err
		}
		if device := wire.DeviceOf(r.Resource); device != r.Resource {
			return c.fail(at+".resource", r.Resource, device+", which offers the same devices under this name as well")
		}
		// The resource's names in environment variables and annotations must be unique, too.
		variable := wire.DevicesVariable(r.Resource)
		if seen[variable] {
			return c.fail(at+".resource", r.Resource, "each resource once: two of them would have the environment variable "+variable)
		}
		seen[variable] = true
		if err := c.checkSelection(at, r); err != nil {
			return err
		}
		if err := c.checkCDI(at+".cdi", r.CDI); err != nil {
			return err
		}
	}
	return nil
}

// checkName accepts the names that the API server accepts for extended resources.
func (c *Config) checkName(at, name string) error {
	domain, _, qualified := strings.Cut(name, "/")
	if !qualified || len(validation.IsQualifiedName(name)) > 0 || !wire.IsExtended(corev1.ResourceName(name)) ||
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name)) > 0 || domain == "" {
		return c.fail(at, name, "the name of an extended resource, like example.com/gpu, outside of kubernetes.io")
	}
	return nil
}

var (
	pciID      = regexp.MustCompile(`^[0-9a-f]{4}$`)
	pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]$`)
	cdiKind    = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_.-]*[a-zA-Z0-9]/[a-zA-Z]([a-zA-Z0-9_-]*[a-zA-Z0-9])?$`)
)

var classes = map[string][]topology.DeviceKind{
	"gpu":         {topology.GPU},
	"accelerator": {topology.Accelerator},
	"nic":         {topology.NIC, topology.RDMANIC},
	"rdma":        {topology.RDMANIC},
	"nvme":        {topology.NVMe},
	"other":       {topology.OtherDevice},
}

var classWords = []string{"gpu", "accelerator", "nic", "rdma", "nvme", "other"}

func (c *Config) checkSelection(at string, r *Resource) error {
	switch {
	case r.Class == "" && r.Vendor == "" && len(r.Addresses) == 0:
		return c.fail(at, r.Resource, "class, vendor or addresses, which select the devices")
	case r.Class != "" && classes[r.Class] == nil:
		return c.fail(at+".class", r.Class, strings.Join(classWords, ", ")+suggest.DidYouMean(r.Class, classWords))
	case r.Vendor != "" && !pciID.MatchString(r.Vendor):
		return c.fail(at+".vendor", r.Vendor, `a PCI id: four lowercase hexadecimal digits in quotes, such as "10de"`)
	case r.Product != "" && !pciID.MatchString(r.Product):
		return c.fail(at+".product", r.Product, `a PCI id: four lowercase hexadecimal digits in quotes, such as "2330"`)
	case r.Product != "" && r.Vendor == "":
		return c.fail(at+".product", r.Product, "vendor to be set too, because products of different vendors can have the same id")
	case len(r.Addresses) > topology.MaxDevices:
		return c.fail(at+".addresses", len(r.Addresses), fmt.Sprint("at most ", topology.MaxDevices))
	}
	for i, a := range r.Addresses {
		if !pciAddress.MatchString(a) || slices.Contains(r.Addresses[:i], a) {
			return c.fail(fmt.Sprintf("%s.addresses[%d]", at, i), a, "a PCI address in lower case, such as 0000:3b:00.0, and each address only once")
		}
	}
	return nil
}

// The values of CDI.Names.
const (
	byAddress = "address"
	byIndex   = "index"
	byUUID    = "uuid"
)

func (c *Config) checkCDI(at string, cdi *CDI) error {
	ways := []string{byAddress, byIndex, byUUID}
	switch {
	case cdi == nil:
	case !cdiKind.MatchString(cdi.Kind) || len(cdi.Kind) > 253:
		return c.fail(at+".kind", cdi.Kind, "the kind of a CDI specification, like nvidia.com/gpu")
	case cdi.Kind == Kind:
		return c.fail(at+".kind", cdi.Kind, "a vendor's kind; without cdi the agent writes a specification of this kind itself")
	case !slices.Contains(ways, cdi.Names):
		return c.fail(at+".names", cdi.Names, strings.Join(ways, ", ")+suggest.DidYouMean(cdi.Names, ways))
	}
	return nil
}
