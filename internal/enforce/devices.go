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
	// CDI is the name by which the runtime injects it, KIND=NAME.
	CDI string
	// Sick explains why no pod may get it; "" if pods may.
	Sick string
}

// Injection is one resource's devices that a container is given.
type Injection struct {
	Resource string
	IDs      []string // ascending
	CDI      []string
}

// Offer replaces the devices for containers that start. Running containers keep their devices.
func (b *Books) Offer(o Offered) { b.offered = o }

// giveDevices gives a container the devices of its decision. The text explains why it cannot have
// them. It can if the kubelet has counted the same number and all are free and healthy.
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
		return "it asks for " + resource + ", and its decision cannot be believed: " + e.Fault
	case counted && len(ids) == 0:
		return "it asks for " + resource + ", and no decision names devices for it: only berth-scheduler places such pods here"
	case !counted:
		return fmt.Sprintf("its decision names %d of %s, and the kubelet has counted none for it", len(ids), resource)
	case tokens != len(ids):
		return fmt.Sprintf("its decision names %d of %s, and the kubelet has counted %d for it", len(ids), resource, tokens)
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
// may have the same device, because they take turns.
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

// given returns the devices that the runtime has given a container with an unknown decision.
func (e *entry) given() (out []placement.DeviceAllocation) {
	for _, resource := range slices.Sorted(maps.Keys(e.Tokens)) {
		if ids := e.Given[wire.DevicesVariable(resource)]; ids != "" {
			out = append(out, placement.DeviceAllocation{Resource: resource, IDs: strings.Split(ids, ",")})
		}
	}
	return out
}

// lacking returns which of its devices the runtime has not injected: the container started while
// the agent was away.
func (e *entry) lacking() string {
	for i := range e.devices {
		d := &e.devices[i]
		if given := e.Given[wire.DevicesVariable(d.Resource)]; given != strings.Join(d.IDs, ",") {
			return fmt.Sprintf("has %q of %s, decided were %s: it has to be started again", given, d.Resource, strings.Join(d.IDs, ","))
		}
	}
	return ""
}

// Injections returns the devices that a container gets with its creation.
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
