package kubeletstate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-dev/berth/topology"
)

// DeviceState is the content of a device-plugins/kubelet_internal_checkpoint.
type DeviceState struct {
	// Registered are the ids of healthy devices by resource, ascending.
	Registered map[string][]string
	// Entries are ascending by pod UID, container, resource.
	Entries []DeviceEntry
}

// DeviceEntry has the devices of one resource of a container.
type DeviceEntry struct {
	PodUID, Container, Resource string
	// Devices are ascending by id. Each device appears once.
	Devices []HeldDevice
}

// HeldDevice is a device with the NUMA nodes that the kubelet recorded when it was allocated.
type HeldDevice struct {
	ID   string
	NUMA topology.NUMASet // 0 if the file has the device under -1, the kubelet's mark for devices without topology
}

// The file in the format of pkg/kubelet/cm/devicemanager/checkpoint. Its checksum covers Data.
type deviceFile struct {
	Data     deviceData
	Checksum uint64
}

type deviceData struct {
	PodDeviceEntries  []deviceEntry
	RegisteredDevices map[string][]string
}

type deviceEntry struct {
	PodUID        string
	ContainerName string
	ResourceName  string
	DeviceIDs     map[int64][]string
	AllocResp     []byte
}

// ParseDevices parses a kubelet_internal_checkpoint of Kubernetes 1.20 to 1.37. The error is an
// *Error that contains name as the file's name.
func ParseDevices(name string, data []byte) (*DeviceState, error) {
	f := file(name)
	in := deviceFile{Data: deviceData{PodDeviceEntries: []deviceEntry{}, RegisteredDevices: map[string][]string{}}} // as the kubelet's getCheckpoint
	if err := decode(data, &in); err != nil {
		return nil, ignored(f.broken("", err, "the JSON of a kubelet_internal_checkpoint"))
	}
	if in.Checksum != uint64(sumDevices(&in.Data)) {
		return nil, ignored(f.checksum("Checksum", in.Checksum, sumDevices(&in.Data)))
	}
	out := &DeviceState{Registered: map[string][]string{}}
	for resource, ids := range in.Data.RegisteredDevices {
		out.Registered[resource] = slices.Compact(slices.Sorted(slices.Values(ids)))
	}
	for i := range in.Data.PodDeviceEntries {
		e, err := f.deviceEntry(i, &in.Data.PodDeviceEntries[i])
		if err != nil {
			return nil, err
		}
		out.Entries = append(out.Entries, e)
	}
	slices.SortStableFunc(out.Entries, DeviceEntry.Compare)
	return out, nil
}

// ignored returns the error for a file that the device manager cannot read. The manager logs the
// error and starts without the file (ManagerImpl.Start of pkg/kubelet/cm/devicemanager).
func ignored(err *Error) *Error {
	err.Want += "; a kubelet that starts ignores this file, and gives away devices that pods still have: drain the node first"
	return err
}

func (f file) deviceEntry(i int, e *deviceEntry) (DeviceEntry, error) {
	at := fmt.Sprintf("Data.PodDeviceEntries[%d]", i)
	out := DeviceEntry{PodUID: e.PodUID, Container: e.ContainerName, Resource: e.ResourceName}
	if e.PodUID == "" || e.ContainerName == "" || e.ResourceName == "" {
		return out, f.err(at, fmt.Sprintf("%s/%s/%s", e.PodUID, e.ContainerName, e.ResourceName), "a pod UID, a container and a resource")
	}
	numa := map[string]topology.NUMASet{}
	for node, ids := range e.DeviceIDs {
		if node < -1 || node >= topology.MaxNUMANodes {
			return out, f.err(at+".DeviceIDs", node, "NUMA nodes between 0 and 63, or -1 for none")
		}
		for _, id := range ids {
			set := numa[id]
			if node >= 0 {
				set = set.With(topology.NUMAID(node))
			}
			numa[id] = set
		}
	}
	for _, id := range slices.Sorted(maps.Keys(numa)) {
		out.Devices = append(out.Devices, HeldDevice{id, numa[id]})
	}
	return out, nil
}

// Give adds a container's devices and removes them from other pods. The kubelet never assigns a
// device to two pods at a time. So if it has assigned a device again, the earlier pod no longer has
// it.
func (s *DeviceState) Give(e DeviceEntry) {
	given := map[string]bool{}
	for _, d := range e.Devices {
		given[d.ID] = true
	}
	for i := range s.Entries {
		if o := &s.Entries[i]; o.Resource == e.Resource && o.PodUID != e.PodUID {
			o.Devices = slices.DeleteFunc(slices.Clone(o.Devices), func(d HeldDevice) bool { return given[d.ID] })
		}
	}
	s.Entries = slices.DeleteFunc(s.Entries, func(o DeviceEntry) bool { return len(o.Devices) == 0 })
	s.Entries = append(s.Entries, e)
	slices.SortStableFunc(s.Entries, DeviceEntry.Compare)
}

// Compare compares the pod UIDs, containers and resources of entries. It ignores the devices.
func (e DeviceEntry) Compare(o DeviceEntry) int {
	return cmp.Or(cmp.Compare(e.PodUID, o.PodUID), cmp.Compare(e.Container, o.Container), cmp.Compare(e.Resource, o.Resource))
}

// Check refuses a device that two pods hold. The error is an *Error.
func (s *DeviceState) Check(name string) error {
	holder := map[string]string{}
	for _, e := range s.Entries {
		for _, d := range e.Devices {
			key := e.Resource + "\x00" + d.ID
			if other, ok := holder[key]; ok && other != e.PodUID {
				return file(name).err(fmt.Sprintf("Data.PodDeviceEntries[%s][%s]", e.PodUID, e.Container), d.ID,
					"a device that pod "+other+" does not hold too")
			}
			holder[key] = e.PodUID
		}
	}
	return nil
}

// sumDevices is the checksum of the Data of a device checkpoint.
func sumDevices(c *deviceData) uint32 {
	d := newDump("(checkpoint.checkpointData){")
	d.field("PodDeviceEntries", "[]checkpoint.PodDevicesEntry")
	list(d, c.PodDeviceEntries, d.deviceEntry)
	d.field("RegisteredDevices", "map[string][]string")
	dumpMap(d, c.RegisteredDevices, d.text, d.strs)
	d.text("}")
	return d.sum()
}

func (d *dump) deviceEntry(e deviceEntry) {
	d.text("{")
	d.str("PodUID", e.PodUID)
	d.str("ContainerName", e.ContainerName)
	d.str("ResourceName", e.ResourceName)
	d.field("DeviceIDs", "checkpoint.DevicesPerNUMA")
	dumpMap(d, e.DeviceIDs, func(numa int64) { d.number(int(numa)) }, d.strs)
	d.field("AllocResp", "[]uint8")
	list(d, e.AllocResp, func(b byte) { d.number(int(b)) })
	d.text("}")
}
