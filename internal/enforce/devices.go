package enforce

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Offered has the devices that can be assigned to containers, by resource and id.
type Offered map[string]map[string]Device

// Device is an offered device.
type Device struct {
	// CDI is the name by which the runtime injects the device, KIND=NAME.
	CDI string
	// Sick is the reason why no pod may get the device, or "".
	Sick string
}

// Injection has the devices of one resource that the runtime must inject into a container.
type Injection struct {
	Resource string
	IDs      []string // ascending
	CDI      []string
}

// Offer replaces the devices that containers can get when they start. Running containers keep their
// devices.
func (b *Books) Offer(o Offered) { b.offered = o }

// giveDevices assigns to a container the devices that its decision names, or returns the reason why
// this is not possible. The kubelet must have allocated as many devices as decided, and all decided
// devices must be free and healthy.
func (b *Books) giveDevices(e *entry) string {
	wanted := map[string][]string{}
	if d := e.Decision; d != nil {
		for i := range d.Devices {
			resource := d.Devices[i].Resource
			if _, counted := e.Tokens[resource]; counted || b.offered[resource] != nil {
				wanted[resource] = append(wanted[resource], d.Devices[i].IDs...)
			}
		}
	}
	for resource := range e.Tokens {
		if _, named := wanted[resource]; !named {
			wanted[resource] = nil
		}
	}
	var got []placement.DeviceAllocation
	for _, resource := range slices.Sorted(maps.Keys(wanted)) {
		ids := slices.Sorted(slices.Values(wanted[resource]))
		if why := b.refuse(e, resource, ids); why != "" {
			return why
		}
		if len(ids) > 0 {
			got = append(got, placement.DeviceAllocation{Resource: resource, IDs: ids})
		}
	}
	e.devices = got
	return ""
}

// refuse explains why a container cannot have these devices of a resource, or returns "". A running
// container keeps devices that have become unhealthy or are no longer offered.
func (b *Books) refuse(e *entry, resource string, ids []string) string {
	tokens, counted := e.Tokens[resource]
	switch {
	case counted && len(ids) == 0 && e.Fault != "":
		return "it asks for " + resource + ", but its decision cannot be trusted: " + e.Fault
	case counted && len(ids) == 0:
		return "it asks for " + resource + ", but no decision names devices for it: only berth-scheduler may place such pods on this node"
	case !counted:
		return fmt.Sprintf("its decision names %s of %s, but the kubelet has allocated none to it", wire.Counted(len(ids), "device"), resource)
	case tokens != len(ids):
		return fmt.Sprintf("its decision names %s of %s, but the kubelet has allocated %d to it", wire.Counted(len(ids), "device"), resource, tokens)
	}
	for i, id := range ids {
		device, offered := b.offered[resource][id]
		switch {
		case i > 0 && ids[i-1] == id:
			return "its decision names device " + id + " of " + resource + " twice"
		case e.running:
		case !offered:
			return "its decision names device " + id + " of " + resource + ", which this node does not offer"
		case device.Sick != "":
			return "device " + id + " of " + resource + " cannot be given to it: " + device.Sick
		}
		if holder := b.holder(e, id); holder != "" {
			return "device " + id + " of " + resource + " is held by " + holder
		}
	}
	return ""
}

// holder names the container of another pod that has a device, or returns "". Containers of one pod
// may have the same device, because they do not run at the same time.
func (b *Books) holder(e *entry, id string) string {
	for _, other := range b.ids() {
		o := b.all[other]
		if o.ID == e.ID || samePod(&o.Container, &e.Container) {
			continue
		}
		for i := range o.devices {
			if slices.Contains(o.devices[i].IDs, id) {
				return o.Name
			}
		}
	}
	return ""
}

// The method given returns the devices of a container whose decision is not known: the devices that
// the container's environment variables name.
func (e *entry) given() (out []placement.DeviceAllocation) {
	for _, resource := range slices.Sorted(maps.Keys(e.Tokens)) {
		if ids := e.Given[wire.DevicesVariable(resource)]; ids != "" {
			out = append(out, placement.DeviceAllocation{Resource: resource, IDs: strings.Split(ids, ",")})
		}
	}
	return out
}

// lacking describes devices that the container lacks because it started while the agent did not
// run, or returns "".
func (e *entry) lacking() string {
	for i := range e.devices {
		d := &e.devices[i]
		if given := e.Given[wire.DevicesVariable(d.Resource)]; given != strings.Join(d.IDs, ",") {
			has := "no device"
			if given != "" {
				has = fmt.Sprintf("devices %q", given)
			}
			return fmt.Sprintf("has %s of %s, but should have %s: restart the container", has, d.Resource, strings.Join(d.IDs, ","))
		}
	}
	return ""
}

// Injections returns the devices that a container gets when it is created.
func (b *Books) Injections(id string) []Injection {
	e := b.all[id]
	if e == nil {
		return nil
	}
	var out []Injection
	for i := range e.devices {
		in := Injection{Resource: e.devices[i].Resource, IDs: e.devices[i].IDs}
		for _, device := range in.IDs {
			in.CDI = append(in.CDI, b.offered[in.Resource][device].CDI)
		}
		out = append(out, in)
	}
	return out
}
