package offer

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/topology"
)

// Pool has the devices of one machine that are offered as the same resource.
type Pool struct {
	Resource string
	// Devices are in ascending order of their addresses.
	Devices []Device
	cdi     *CDI
}

// Device is an offered device.
type Device struct {
	*topology.Device
	// index is the position of the device among the machine's devices of the same vendor and kind.
	index int
}

// Selects reports whether any resource of the Config selects the device.
func (c *Config) Selects(d *topology.Device) bool {
	return c != nil && slices.ContainsFunc(c.Resources, func(r Resource) bool { return r.selects(d) })
}

func (r *Resource) selects(d *topology.Device) bool {
	kind := d.Kind()
	switch {
	case kind == topology.Bridge, r.Virtual != (d.Physical != ""):
		return false
	case r.Class != "" && !slices.Contains(classes[r.Class], kind):
		return false
	case r.Vendor != "" && d.Vendor != r.Vendor, r.Product != "" && d.Product != r.Product:
		return false
	}
	return len(r.Addresses) == 0 || slices.Contains(r.Addresses, d.Address)
}

// Resolve returns the devices that the Config selects on a machine, as one pool per resource, in
// the order of the resource names. An optional resource without devices has no pool. Resolve is
// pure.
//
// It returns a *wire.FieldError if two resources select the same device, or if a physical function
// and one of its virtual functions are selected. It also returns this error if a resource that is
// not optional has no device, or no matching device at one of its addresses.
func (c *Config) Resolve(m *topology.Machine) ([]Pool, error) {
	if c == nil {
		return nil, nil
	}
	var pools []Pool
	taken := map[string]string{} // resources by address
	for i := range c.Resources {
		p, err := c.pool(i, m, taken)
		if err != nil {
			return nil, err
		}
		if len(p.Devices) > 0 {
			pools = append(pools, p)
		}
	}
	for i := range c.Resources {
		if err := c.separate(i, m, taken); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(pools, func(a, b Pool) int { return cmp.Compare(a.Resource, b.Resource) })
	return pools, nil
}

// Keep restores devices that m only seems to have lost. It returns m with devices of the pools in
// the argument `before`: devices that m lacks, and devices that m shows in a way that no resource
// selects. For example, a network card whose RDMA device is in a container's network namespace
// looks like a card without RDMA on the host. A device that disappears while the agent reads it has
// no vendor or product, and Keep replaces it too. If a device of m has another vendor, product or
// physical function, it is a different device, and Keep does not replace it. If the result would be
// invalid, Keep returns m.
func (c *Config) Keep(m *topology.Machine, before []Pool) *topology.Machine {
	devices, kept := slices.Clone(m.Devices), false
	for i := range before {
		for _, d := range before[i].Devices {
			at := slices.IndexFunc(devices, func(o topology.Device) bool { return o.Address == d.Address })
			if at < 0 {
				devices, kept = append(devices, *d.Device), true
				continue
			}
			is := &devices[at]
			same := is.Vendor == d.Vendor && is.Product == d.Product && is.Physical == d.Physical
			if unread := is.Vendor == "" || is.Product == ""; unread || same && !c.Selects(is) {
				devices[at], kept = *d.Device, true
			}
		}
	}
	if !kept {
		return m
	}
	out, err := m.SetDevices(devices, m.Links)
	if err != nil {
		return m // a restored device depends on a device that is gone
	}
	return out
}

// pool finds the devices of one resource, and marks them as taken.
func (c *Config) pool(i int, m *topology.Machine, taken map[string]string) (Pool, error) {
	r, at := &c.Resources[i], fmt.Sprintf("resources[%d]", i)
	p := Pool{Resource: r.Resource, cdi: r.CDI}
	index := map[string]int{} // by vendor and kind
	for j := range m.Devices {
		d := &m.Devices[j]
		kin := d.Vendor + d.Kind().String()
		n := index[kin]
		index[kin]++
		if !r.selects(d) {
			continue
		}
		if other, twice := taken[d.Address]; twice {
			return p, c.fail(at, r.Resource, "devices of its own: "+d.Address+" is one of "+other)
		}
		taken[d.Address] = r.Resource
		p.Devices = append(p.Devices, Device{d, n})
	}
	for k, address := range r.Addresses {
		if !slices.ContainsFunc(p.Devices, func(d Device) bool { return d.Address == address }) && !r.Optional {
			return p, c.fail(fmt.Sprintf("%s.addresses[%d]", at, k), address, c.missing(r, m.Device(address)))
		}
	}
	if len(p.Devices) == 0 && !r.Optional {
		return p, c.fail(at, r.Resource, "a device of this machine; with optional: true the device may be missing")
	}
	return p, nil
}

// missing explains why an address matches no device of a resource.
func (c *Config) missing(r *Resource, d *topology.Device) string {
	switch {
	case d == nil:
		return "the address of a device of this machine; with optional: true the device may be missing"
	case r.Virtual && d.Physical == "":
		return "virtual: false, because this is not a virtual function"
	case !r.Virtual && d.Physical != "":
		return "virtual: true, because this is a virtual function"
	}
	return fmt.Sprintf("a device that the other fields select: this one has class %s (%s) and PCI id %s:%s", d.Class, d.Kind(), d.Vendor, d.Product)
}

// separate returns an error if the i-th resource has a virtual function whose physical function is
// offered too, because the owner of the physical function controls its virtual functions.
func (c *Config) separate(i int, m *topology.Machine, taken map[string]string) error {
	for j := range m.Devices {
		d := &m.Devices[j]
		if other := taken[d.Physical]; other != "" && taken[d.Address] == c.Resources[i].Resource {
			return c.fail(fmt.Sprintf("resources[%d]", i), c.Resources[i].Resource,
				"virtual functions only: "+d.Physical+", the physical function of "+d.Address+", is offered as "+other)
		}
	}
	return nil
}
