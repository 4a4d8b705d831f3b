package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

const (
	koordinatorJoint = "scheduling.koordinator.sh/device-joint-allocate"
	koordinatorHint  = "scheduling.koordinator.sh/device-allocate-hint"
)

// KoordinatorDevicesAnnotation has the devices of a decision in Koordinator's format.
const KoordinatorDevicesAnnotation = "scheduling.koordinator.sh/device-allocated"

// koordinatorTypes maps the names of device types in Koordinator's annotations to Berth's types.
var koordinatorTypes = map[string]placement.DeviceTypes{
	"gpu": placement.GPUType, "rdma": placement.RDMAType, "fpga": placement.AcceleratorType, "xpu": placement.AcceleratorType,
}

const koordinatorTypesWanted = "gpu, rdma, fpga or xpu"

// koordinatorJointSpec is the value of the annotation device-joint-allocate. koordinatorHintSpec is
// the value of device-allocate-hint for one type.
type koordinatorJointSpec struct {
	Types []string `json:"deviceTypes"`
	Scope string   `json:"requiredScope"`
}

type koordinatorHintSpec struct {
	Selector  json.RawMessage `json:"selector"`
	VFs       json.RawMessage `json:"vfSelector"`
	Strategy  string          `json:"allocateStrategy"`
	Scope     string          `json:"requiredTopologyScope"`
	Exclusive string          `json:"exclusivePolicy"`
}

// devices reads the requirements for the position of the pod's devices. Koordinator's scope PCIe
// means a root complex.
func (r koordinatorReader) devices() (rules placement.DeviceRules, err error) {
	var together koordinatorJointSpec
	found, err := r.parse(koordinatorJoint, &together)
	if err != nil {
		return rules, err
	}
	if found {
		if err := r.together(&together, &rules); err != nil {
			return placement.DeviceRules{}, err
		}
	}
	var hints map[string]koordinatorHintSpec
	if _, err := r.parse(koordinatorHint, &hints); err != nil {
		return placement.DeviceRules{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(hints)) {
		hint := hints[name]
		if err := r.hint(name, &hint, len(hints), &rules); err != nil {
			return placement.DeviceRules{}, err
		}
	}
	return rules, nil
}

func (r koordinatorReader) together(spec *koordinatorJointSpec, rules *placement.DeviceRules) error {
	at := annotation(koordinatorJoint)
	if len(spec.Types) == 0 {
		return r.at(at.Child("deviceTypes"), "", "the types that are placed together: "+koordinatorTypesWanted)
	}
	for i, name := range spec.Types {
		t, known := koordinatorTypes[name]
		if !known || rules.Joint&t != 0 {
			return r.at(at.Child("deviceTypes").Index(i), name, koordinatorTypesWanted+", each once")
		}
		rules.Joint |= t
	}
	rules.Same, rules.SameHow = joint.SameRoot, joint.Preferred
	switch spec.Scope {
	case "":
	case "SamePCIe":
		rules.SameHow = joint.Required
	default:
		return r.at(at.Child("requiredScope"), spec.Scope, "SamePCIe or nothing")
	}
	return nil
}

func (r koordinatorReader) hint(name string, spec *koordinatorHintSpec, types int, rules *placement.DeviceRules) error {
	at := annotation(koordinatorHint).Key(name)
	t, known := koordinatorTypes[name]
	if !known {
		return r.at(at, name, koordinatorTypesWanted)
	}
	if !selectsAll(spec.Selector) {
		return r.at(at.Child("selector"), string(spec.Selector), "nothing, or {}: Berth's devices have no labels")
	}
	if !selectsAll(spec.VFs) {
		return r.at(at.Child("vfSelector"), string(spec.VFs), "nothing, or {}: Berth's devices have no labels")
	}
	if spec.VFs != nil && string(spec.VFs) != "null" {
		rules.OnePerFunction |= t
	}
	switch spec.Strategy {
	case "", "RequestsAsCount":
	case "ApplyForAll":
		rules.All |= t
	default:
		return r.at(at.Child("allocateStrategy"), spec.Strategy, "ApplyForAll or RequestsAsCount")
	}
	if spec.Exclusive != "" {
		return r.at(at.Child("exclusivePolicy"), spec.Exclusive, "nothing: Berth assigns whole devices and functions, and cannot keep the rest of a card free")
	}
	return r.scope(at.Child("requiredTopologyScope"), spec.Scope, t, types, rules)
}

// scope reads the requirement that all devices of type t are at one root complex. The requirement
// is allowed only if device-allocate-hint names no other type and device-joint-allocate is missing.
func (r koordinatorReader) scope(at *field.Path, text string, t placement.DeviceTypes, types int, rules *placement.DeviceRules) error {
	switch text {
	case "", "Node":
		return nil
	case "PCIe":
		if types > 1 || rules.Same != joint.Anywhere {
			return r.at(at, text, "PCIe for only one device type, without device-joint-allocate")
		}
		rules.Same, rules.SameHow, rules.Joint = joint.OneRoot, joint.Required, t
		return nil
	case "NUMANode":
		return r.at(at, text, "PCIe, Node or nothing; for one NUMA node, use the policy SingleNUMANode")
	case "Device":
		return r.at(at, text, "PCIe, Node or nothing: Berth gives whole devices")
	}
	return r.at(at, text, "PCIe, Node or nothing")
}

// selectsAll reports whether a label selector is missing or empty.
func selectsAll(selector json.RawMessage) bool {
	text := strings.Join(strings.Fields(string(selector)), "")
	return text == "" || text == "null" || text == "{}"
}

// deviceAllocated is the entry of device-allocated for one device.
type deviceAllocated struct {
	Minor     int32                        `json:"minor"`
	ID        string                       `json:"id"`
	Resources map[string]resource.Quantity `json:"resources"`
	Extension *deviceExtension             `json:"extension,omitempty"`
}

type deviceExtension struct {
	VFs []allocatedVF `json:"vfs"`
}

type allocatedVF struct {
	Minor int32  `json:"minor"`
	BusID string `json:"busID"`
}

// WriteKoordinatorWords returns the annotations that report a decision in Koordinator's format, for
// pods and Reservations: amounts and CPUs, and devices if there are any.
func WriteKoordinatorWords(d *placement.Decision, m *topology.Machine) (map[string]string, error) {
	status, err := WriteKoordinatorStatus(d, m)
	if err != nil {
		return nil, err
	}
	devices, err := WriteKoordinatorDevices(d, m)
	if err != nil {
		return nil, err
	}
	out := map[string]string{KoordinatorStatusAnnotation: status}
	if devices != "" {
		out[KoordinatorDevicesAnnotation] = devices
	}
	return out, nil
}

// WriteKoordinatorDevices returns the devices of a decision in Koordinator's format. It lists only
// GPUs and RDMA cards, with the numbers that WriteDevice gives them; virtual functions are listed
// below their cards. The result is "" if the decision has no such devices.
func WriteKoordinatorDevices(d *placement.Decision, m *topology.Machine) (string, error) {
	given := map[string]bool{}
	for i := range d.Containers {
		for _, a := range d.Containers[i].Devices {
			for _, id := range a.IDs {
				given[id] = true
			}
		}
	}
	out := map[koordinator.DeviceType][]deviceAllocated{}
	all := WriteDevice("", m).Spec.Devices
	for i := range all {
		info := &all[i]
		a := deviceAllocated{Minor: *info.Minor, ID: info.UUID, Resources: map[string]resource.Quantity{}}
		for name, q := range info.Resources {
			a.Resources[string(name)] = q
		}
		for _, g := range info.VFGroups {
			for _, vf := range g.VFs {
				if given[vf.BusID] {
					if a.Extension == nil {
						a.Extension = &deviceExtension{}
					}
					a.Extension.VFs = append(a.Extension.VFs, allocatedVF{vf.Minor, vf.BusID})
				}
			}
		}
		if given[info.UUID] || a.Extension != nil {
			if !given[info.UUID] {
				for name := range a.Resources {
					a.Resources[name] = *resource.NewQuantity(int64(len(a.Extension.VFs)), resource.DecimalSI)
				}
			}
			out[info.Type] = append(out[info.Type], a)
		}
	}
	if len(out) == 0 {
		return "", nil
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("device-allocated of pod %s: %w", d.UID, err)
	}
	return string(text), nil
}
