package wire

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/topology"
)

// koordinatorClasses maps Koordinator's device types to PCI class codes.
var koordinatorClasses = map[koordinator.DeviceType]string{
	koordinator.GPU: "030200", koordinator.RDMA: "020700", koordinator.FPGA: "120000", koordinator.XPU: "120000",
}

// BareDevice is a device for which Koordinator's Device object has no PCI address. Some releases of
// koordlet write GPUs in this way.
type BareDevice struct {
	Type  koordinator.DeviceType
	Minor int32
	// ID is the vendor's id of the device, or "".
	ID string
	// NUMA is the NUMA node of the device. HasNUMA is false if the NUMA node is not known.
	NUMA    topology.NUMAID
	HasNUMA bool
}

// String describes the device for users, such as "gpu 0 (GPU-1) on NUMA node 1".
func (b BareDevice) String() string {
	text := fmt.Sprintf("%s %d", b.Type, b.Minor)
	if b.ID != "" {
		text += " (" + b.ID + ")"
	}
	if !b.HasNUMA {
		return text + " on no known NUMA node"
	}
	return fmt.Sprintf("%s on NUMA node %d", text, b.NUMA)
}

// ReadDevice returns a copy of the machine with the devices of Koordinator's Device object in place
// of the machine's own, including their positions and virtual functions. Devices without an address
// cannot be part of a machine and are returned separately. ReadDevice ignores health, labels and
// amounts, because they are not hardware. The result has no links between devices, because the
// object does not contain them. The error is a *FieldError.
func ReadDevice(d *koordinator.Device, m *topology.Machine) (*topology.Machine, []BareDevice, error) {
	r := deviceReader{fieldErrors: fieldErrors("Device " + d.Name), m: m, seen: map[string]*field.Path{}, minors: map[string]bool{}}
	list := field.NewPath("spec", "devices")
	for i := range d.Spec.Devices {
		if err := r.add(list.Index(i), &d.Spec.Devices[i]); err != nil {
			return nil, nil, err
		}
	}
	out, err := m.SetDevices(r.devices, nil)
	if err != nil {
		return nil, nil, r.at(list, d.Name, "devices that make a machine: "+err.Error())
	}
	return out, r.bare, nil
}

type deviceReader struct {
	fieldErrors
	m       *topology.Machine
	devices []topology.Device
	bare    []BareDevice
	seen    map[string]*field.Path // by address, or by the id of a bare device
	minors  map[string]bool        // by type and number
}

func (r *deviceReader) add(at *field.Path, d *koordinator.DeviceInfo) error {
	class, known := koordinatorClasses[d.Type]
	if !known {
		return r.at(at.Child("type"), d.Type, "gpu, rdma, fpga or xpu")
	}
	switch {
	case d.Minor == nil:
		return r.at(at.Child("minor"), "none", "a number of at least 0 that no other device of the type has")
	case *d.Minor < 0:
		return r.at(at.Child("minor"), *d.Minor, "a number of at least 0 that no other device of the type has")
	}
	key := fmt.Sprintf("%s %d", d.Type, *d.Minor)
	if r.minors[key] {
		return r.at(at.Child("minor"), *d.Minor, "a number that no other device of the type has")
	}
	r.minors[key] = true
	out := topology.Device{Class: class}
	id := d.UUID
	where := at.Child("id")
	if t := d.Topology; t != nil {
		if t.BusID != "" {
			id, where = t.BusID, at.Child("topology", "busID")
		}
		if err := r.place(at.Child("topology"), t, &out); err != nil {
			return err
		}
	}
	if (d.Topology == nil || d.Topology.BusID == "") && !looksLikeAddress(id) {
		return r.enterBare(at, d, &out)
	}
	if err := r.enter(where, id, out); err != nil {
		return err
	}
	physical := r.devices[len(r.devices)-1]
	for g := range d.VFGroups {
		for v := range d.VFGroups[g].VFs {
			vf := physical
			vf.Physical = physical.Address
			if err := r.enter(at.Child("vfGroups").Index(g).Child("vfs").Index(v).Child("busID"), d.VFGroups[g].VFs[v].BusID, vf); err != nil {
				return err
			}
		}
	}
	return nil
}

// place sets the root complex and the NUMA node of a device. If NodeID is -1, the NUMA node is not
// known.
func (r *deviceReader) place(at *field.Path, t *koordinator.DeviceTopology, out *topology.Device) error {
	if len(t.PCIEID) > 256 {
		return r.at(at.Child("pcieID"), string(t.PCIEID), "at most 256 bytes")
	}
	out.Root = string(t.PCIEID)
	if t.NodeID == -1 {
		return nil
	}
	if t.NodeID < 0 || t.NodeID > 1<<16-1 || r.m.NUMANode(topology.NUMAID(t.NodeID)) == nil {
		return r.at(at.Child("nodeID"), t.NodeID, "a NUMA node that the machine has, or -1 if it is not known")
	}
	out.NUMA, out.HasNUMA = topology.NUMAID(t.NodeID), true
	return nil
}

// enter adds a device. It takes the PCI switch from the machine, because the object does not
// contain it, but only if the machine has the same device at the same root complex.
func (r *deviceReader) enter(at *field.Path, id string, d topology.Device) error {
	if len(r.devices) >= topology.MaxDevices {
		return r.at(at, id, fmt.Sprintf("at most %d devices", topology.MaxDevices))
	}
	address := pciAddress(id)
	if !topology.IsPCIAddress(address) {
		return r.at(at, id, `a PCI address such as "0000:3b:00.0"`)
	}
	if twice := r.seen[address]; twice != nil {
		return r.at(at, id, "an address that no other device has; it is also at "+twice.String())
	}
	if known := r.m.Device(address); known != nil && known.Root == d.Root {
		d.Switch = known.Switch
	}
	r.seen[address] = at
	d.Address = address
	r.devices = append(r.devices, d)
	return nil
}

func (r *deviceReader) enterBare(at *field.Path, d *koordinator.DeviceInfo, place *topology.Device) error {
	switch twice := r.seen[d.UUID]; {
	case len(d.UUID) > 256:
		return r.at(at.Child("id"), d.UUID, "at most 256 bytes")
	case len(d.VFGroups) > 0:
		return r.at(at.Child("topology", "busID"), "", "a PCI address: the device has virtual functions")
	case len(r.bare) >= topology.MaxDevices:
		return r.at(at, d.UUID, fmt.Sprintf("at most %d devices", topology.MaxDevices))
	case twice != nil:
		return r.at(at.Child("id"), d.UUID, "an id that no other device has; it is also at "+twice.String())
	case d.UUID != "":
		r.seen[d.UUID] = at.Child("id")
	}
	r.bare = append(r.bare, BareDevice{d.Type, *d.Minor, d.UUID, place.NUMA, place.HasNUMA})
	return nil
}

// looksLikeAddress reports whether id is meant as a PCI address, valid or not. Otherwise it is a
// vendor's id.
func looksLikeAddress(id string) bool {
	domain, _, ok := strings.Cut(id, ":")
	return ok && domain != "" && len(domain) <= 8 && strings.Trim(domain, "0123456789abcdefABCDEF") == ""
}

// pciAddress returns an address in the kernel's spelling. In id, the domain may have eight digits
// and letters may be in upper case, as NVML writes them.
func pciAddress(id string) string {
	id = strings.ToLower(id)
	if domain, _, ok := strings.Cut(id, ":"); ok && len(domain) == 8 {
		return strings.TrimPrefix(id, "0000")
	}
	return id
}

// WriteDevice returns Koordinator's Device object with the GPUs and RDMA cards of a machine. The id
// of a device is its PCI address, whereas koordlet writes the vendor's id.
func WriteDevice(node string, m *topology.Machine) *koordinator.Device {
	out := &koordinator.Device{
		TypeMeta:   metav1.TypeMeta{APIVersion: koordinator.GroupVersion.String(), Kind: "Device"},
		ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{"app.kubernetes.io/managed-by": "berth-agent"}},
	}
	whole := *resource.NewQuantity(100, resource.DecimalSI)
	minors := map[koordinator.DeviceType]int32{}
	for _, root := range m.PCITree() {
		eachFunction(root, func(f topology.PCIFunction) {
			d := koordinator.DeviceInfo{UUID: f.Address, Health: true}
			switch f.Kind() {
			case topology.GPU:
				d.Type = koordinator.GPU
				d.Resources = corev1.ResourceList{"koordinator.sh/gpu-core": whole, "koordinator.sh/gpu-memory-ratio": whole}
			case topology.RDMANIC:
				d.Type = koordinator.RDMA
				d.Resources = corev1.ResourceList{"koordinator.sh/rdma": whole}
			default:
				return
			}
			d.Minor = new(minors[d.Type])
			minors[d.Type]++
			d.Topology = &koordinator.DeviceTopology{SocketID: -1, NodeID: -1, PCIEID: koordinator.PCIEID(f.Root), BusID: f.Address}
			if f.HasNUMA {
				d.Topology.NodeID = int32(f.NUMA)
				d.Topology.SocketID = socketOf(m, f.NUMA)
			}
			if vfs := virtualFunctions(f); len(vfs) > 0 {
				d.VFGroups = []koordinator.VirtualFunctionGroup{{VFs: vfs}}
			}
			out.Spec.Devices = append(out.Spec.Devices, d)
		})
	}
	return out
}

// eachFunction calls f with each function below a port, at any depth.
func eachFunction(p *topology.PCIPort, f func(topology.PCIFunction)) {
	for _, function := range p.Functions {
		f(function)
	}
	for _, below := range p.Ports {
		eachFunction(below, f)
	}
}

func virtualFunctions(f topology.PCIFunction) (out []koordinator.VirtualFunction) {
	for i, vf := range f.Virtual {
		out = append(out, koordinator.VirtualFunction{Minor: int32(i), BusID: vf.Address})
	}
	return out
}

// socketOf returns the package of a NUMA node's CPUs. It returns -1 if the NUMA node has no CPUs,
// or if they are in several packages.
func socketOf(m *topology.Machine, node topology.NUMAID) int32 {
	cpus := &m.NUMANode(node).CPUs
	i := slices.IndexFunc(m.Packages, func(p topology.Package) bool { return !cpus.IsEmpty() && cpus.IsSubsetOf(&p.CPUs) })
	if i < 0 {
		return -1
	}
	return int32(m.Packages[i].ID)
}
