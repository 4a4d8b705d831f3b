package query

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/parallel"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Setting is an assumed change of nodes. The zero value changes nothing.
type Setting struct {
	// Policy, Scope and CPUManager are the KubeletConfiguration's topologyManagerPolicy,
	// topologyManagerScope and cpuManagerPolicy; "" means no change.
	Policy, Scope, CPUManager string
	// Reserved are the KubeletConfiguration's reservedSystemCPUs; "" means no change.
	Reserved string
	// NUMAPerPackage is the number of NUMA nodes in each package (NPS, SNC); 0 means no change.
	NUMAPerPackage int
	// Empty means that the nodes are treated as if they had no pods. A change of CPUManager,
	// Reserved or NUMAPerPackage implies Empty, because a node must be drained for it.
	Empty bool
}

// The keys of ParseSetting.
const (
	settingPolicy     = "topologyManagerPolicy"
	settingScope      = "topologyManagerScope"
	settingCPUManager = "cpuManagerPolicy"
	settingReserved   = "reservedSystemCPUs"
	settingNUMA       = "numaNodesPerPackage"
)

// settingValues are the allowed values of each key. They are nil if the value is a number or a list
// of CPUs.
var settingValues = map[string][]string{
	settingPolicy:     {"none", "best-effort", "restricted", "single-numa-node"},
	settingScope:      {"container", "pod"},
	settingCPUManager: {"none", "static"},
	settingReserved:   nil,
	settingNUMA:       nil,
}

// SettingKeys returns the keys of ParseSetting.
func SettingKeys() []string {
	return []string{settingPolicy, settingScope, settingCPUManager, settingReserved, settingNUMA}
}

// ParseSetting parses texts of the form KEY=VALUE. The error describes the expected form.
func ParseSetting(texts []string) (Setting, error) {
	var s Setting
	given := map[string]bool{}
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		values, known := settingValues[key]
		twice := given[key]
		given[key] = true
		switch {
		case twice:
			return s, fmt.Errorf("%.80q: %s is given twice: want each key once", text, key)
		case !ok || !known:
			return s, fmt.Errorf("%.80q: want KEY=VALUE, where KEY is one of %s", text, strings.Join(SettingKeys(), ", "))
		case key == settingReserved:
			cpus, err := wire.ReservedCPUs(value)
			if err != nil || cpus.IsEmpty() {
				return s, fmt.Errorf("%.80q: want %s", text, wire.WantReserved)
			}
			s.Reserved = cpus.String()
		case values == nil:
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > topology.MaxNUMANodes {
				return s, fmt.Errorf("%.80q: want the number of NUMA nodes per package, from 1 to %d (the firmware calls it NPS or SNC)", text, topology.MaxNUMANodes)
			}
			s.NUMAPerPackage = n
		default:
			if !slices.Contains(values, value) {
				return s, fmt.Errorf("%.80q: want one of %s", text, strings.Join(values, ", "))
			}
			*map[string]*string{settingPolicy: &s.Policy, settingScope: &s.Scope, settingCPUManager: &s.CPUManager}[key] = value
		}
	}
	return s, nil
}

// drains reports whether nodes must be drained before the change.
func (o *Setting) drains() bool {
	return o.NUMAPerPackage > 0 || o.CPUManager != "" || o.Reserved != ""
}

// Notes returns the assumptions that answers with this setting depend on.
func (o *Setting) Notes() (out []string) {
	if o.drains() {
		out = append(out, "a node must be drained before this setting is changed, so each node that would change is treated as empty")
	}
	if o.NUMAPerPackage > 0 {
		out = append(out, "the future NUMA nodes of devices are not known: the devices of a package are assumed to be spread over its NUMA nodes")
	}
	return out
}

// on returns the survey with the setting applied to the named nodes.
func (o *Setting) on(s *survey.Survey, names []string) *survey.Survey {
	if *o == (Setting{}) {
		return s
	}
	out := *s
	out.States = maps.Clone(s.States)
	nodes := make([]*survey.NodeState, len(names))
	parallel.Do(len(names), func(i int) { nodes[i] = o.onNode(s.States[names[i]]) })
	for i, name := range names {
		out.States[name] = nodes[i]
	}
	return &out
}

// empties reports whether the node is treated as empty, because Empty is set or the change requires
// that the node is drained.
func (o *Setting) empties(n *survey.NodeState) bool {
	if o.Empty || o.NUMAPerPackage > 0 {
		return true
	}
	spec := n.Spec()
	return spec != nil && (o.CPUManager != "" && spec.Config.CPUManagerPolicy != o.CPUManager || o.Reserved != "" && spec.Config.ReservedSystemCPUs != o.Reserved)
}

func (o *Setting) onNode(n *survey.NodeState) *survey.NodeState {
	out, empty := *n, o.empties(n)
	if empty {
		out.Bound = nil
	}
	if n.Account == nil {
		return &out
	}
	devices := n.Report().Snapshot.Devices
	reading, err := n.Reading.Under(func(spec *wire.NodeSpec) (err error) {
		if o.Policy != "" {
			spec.Config.TopologyManagerPolicy = o.Policy
		}
		if o.Scope != "" {
			spec.Config.TopologyManagerScope = o.Scope
		}
		if o.CPUManager != "" {
			spec.Config.CPUManagerPolicy = o.CPUManager
		}
		if o.Reserved != "" {
			spec.Config.ReservedSystemCPUs = o.Reserved
			if err = wire.CheckReserved(o.Reserved, spec.View); err != nil {
				return err
			}
		}
		if o.NUMAPerPackage > 0 {
			devices, err = divide(spec, o.NUMAPerPackage, devices)
		}
		return err
	}, empty, func() []placement.DevicePool { return devices })
	if err != nil {
		out.Trouble, out.Account = &survey.Trouble{Reason: "NotPossible", Message: "the node cannot have this configuration: " + err.Error()}, nil
		return &out
	}
	out.Object = o.allocatableOf(n.Object)
	out.Reading, out.Account, out.InFlight, out.Lingering = reading, new(ledger.Ledger).Open(nil), 0, 0
	out.Account.Accept(reading.State)
	for _, pod := range out.Bound {
		_ = out.See(pod) // the survey already has a note about unreadable pods
	}
	return &out
}

// allocatableOf returns the Node with the number of CPUs that would be allocatable after the
// change. If reservedSystemCPUs is set, the kubelet ignores other CPU reservations
// (cmd/kubelet/app/server.go).
func (o *Setting) allocatableOf(object *corev1.Node) *corev1.Node {
	if o.Reserved == "" || object == nil {
		return object
	}
	all, told := object.Status.Capacity[corev1.ResourceCPU]
	reserved, err := topology.ParseCPUList(o.Reserved)
	if !told || err != nil {
		return object
	}
	out := object.DeepCopy()
	out.Status.Allocatable[corev1.ResourceCPU] = *resource.NewMilliQuantity(max(0, all.MilliValue()-1000*int64(reserved.Len())), resource.DecimalSI)
	return out
}

// divide changes the number of NUMA nodes in each package of the machine. It returns the devices
// with their new NUMA nodes.
func divide(spec *wire.NodeSpec, perPackage int, pools []placement.DevicePool) ([]placement.DevicePool, error) {
	d, err := spec.Machine.Divide(perPackage)
	if err != nil {
		return nil, err
	}
	spec.Machine = d.Machine
	if spec.View, err = placement.ViewOf(d.Machine); err != nil {
		return nil, err
	}
	return Rehang(d, pools), nil
}

// Rehang returns the devices with their new NUMA nodes on the divided machine.
func Rehang(d *topology.Division, pools []placement.DevicePool) []placement.DevicePool {
	out := make([]placement.DevicePool, len(pools))
	for i := range pools {
		out[i] = pools[i]
		out[i].Devices = append([]placement.Device{}, pools[i].Devices...)
		var hang []topology.NUMAID
		for _, dev := range out[i].Devices {
			hang = append(hang, dev.NUMA.Lowest())
		}
		hang = d.Rehang(hang)
		for j := range out[i].Devices {
			if dev := &out[i].Devices[j]; dev.NUMA != 0 {
				dev.NUMA = topology.NewNUMASet(hang[j])
			}
		}
	}
	return out
}
