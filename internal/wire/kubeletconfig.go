package wire

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// KubeletFacts has facts about a kubelet that a KubeletConfiguration does not contain.
type KubeletFacts struct {
	// Version is the kubelet's release; 0 means placement.V136.
	Version placement.Version
	// MemoryBytes is the machine's memory (MachineInfo.MemoryCapacity), or 0 if it is not known. An
	// eviction threshold may be a percentage of this amount.
	MemoryBytes uint64
	// Partitioned means that OpenShift's workload partitioning is on (see Partitioned).
	Partitioned bool
}

// Partitioned reports whether OpenShift's workload partitioning is on for the node. The kubelet
// then offers the resource management.workload.openshift.io/cores (openshift/kubernetes,
// pkg/kubelet/managed).
func Partitioned(node *corev1.Node) bool {
	for name := range node.Status.Capacity {
		if strings.HasSuffix(string(name), ".workload.openshift.io/cores") {
			return true
		}
	}
	return false
}

// DefaultEviction is the kubelet's evictionHard[memory.available] if the configuration has no
// evictionHard (pkg/kubelet/eviction/defaults_linux.go).
const DefaultEviction = "100Mi"

// memoryAvailable is the eviction signal of the memory.
const memoryAvailable = "memory.available"

// ReadConfig returns the part of a KubeletConfiguration that affects placement. The error is a
// *FieldError. placement.NewModel checks whether the kubelet would start with it.
//
// With OpenShift's workload partitioning, a static CPU manager keeps the reserved CPUs out of the
// shared CPUs, as with strict-cpu-reservation (openshift/kubernetes, validateState of
// pkg/kubelet/cm/cpumanager/policy_static.go). So the result has this option.
func ReadConfig(c *kubeletv1beta1.KubeletConfiguration, k KubeletFacts) (placement.Config, error) {
	r := configReader{"KubeletConfiguration", c, k.Version}
	out := placement.Config{
		Version:                      k.Version,
		CPUManagerPolicy:             c.CPUManagerPolicy,
		CPUManagerPolicyOptions:      c.CPUManagerPolicyOptions,
		ReservedSystemCPUs:           c.ReservedSystemCPUs,
		MemoryManagerPolicy:          c.MemoryManagerPolicy,
		TopologyManagerPolicy:        c.TopologyManagerPolicy,
		TopologyManagerScope:         c.TopologyManagerScope,
		TopologyManagerPolicyOptions: c.TopologyManagerPolicyOptions,
		FeatureGates:                 c.FeatureGates,
	}
	if k.Partitioned && c.CPUManagerPolicy == "static" {
		out.CPUManagerPolicyOptions = map[string]string{}
		maps.Copy(out.CPUManagerPolicyOptions, c.CPUManagerPolicyOptions)
		out.CPUManagerPolicyOptions["strict-cpu-reservation"] = "true"
	}
	if err := r.reservations(&out, k.MemoryBytes); err != nil {
		return placement.Config{}, err
	}
	for i, m := range c.ReservedMemory {
		reserved, err := r.reservedMemory(field.NewPath("reservedMemory").Index(i), &m)
		if err != nil {
			return placement.Config{}, err
		}
		out.ReservedMemory = append(out.ReservedMemory, reserved)
	}
	return out, nil
}

// ReservedCPUs parses reservedSystemCPUs as the kubelet does. Blanks and strides, which a kernel's
// CPU list may have, are errors.
func ReservedCPUs(list string) (topology.CPUSet, error) {
	set, err := topology.ParseCPUList(list) // limits the ids, so cpuset.Parse is fast
	if err == nil {
		_, err = cpuset.Parse(list)
	}
	return set, err
}

// CheckReserved returns a *FieldError for reservedSystemCPUs with which a kubelet does not start,
// whatever its policies are (getReservedCPUs of cmd/kubelet/app): a list that it cannot parse, or
// CPUs that the machine does not have.
func CheckReserved(list string, view *placement.KubeletView) error {
	var all topology.CPUSet
	for i := range view.Nodes {
		for j := range view.Nodes[i].Cores {
			for _, id := range view.Nodes[i].Cores[j].Threads {
				if id < topology.MaxCPUs {
					all.Add(id)
				}
			}
		}
	}
	const r = fieldErrors("KubeletConfiguration")
	at := field.NewPath("reservedSystemCPUs")
	switch set, err := ReservedCPUs(list); {
	case err != nil:
		return r.at(at, list, WantReserved+": the kubelet would not start")
	case !all.IsEmpty() && !set.IsSubsetOf(&all): // package placement refuses a machine without CPUs
		return r.at(at, list, "CPUs that the machine has: "+all.String()+": the kubelet would not start")
	}
	return nil
}

// WantReserved describes a correct value of reservedSystemCPUs.
const WantReserved = "a list of CPUs and ranges without blanks, like 0-1,32-33"

// reservable are the resources that kubeReserved and systemReserved may list (parseResourceList of
// cmd/kubelet/app).
var reservable = []string{string(corev1.ResourceCPU), string(corev1.ResourceMemory), string(corev1.ResourceEphemeralStorage), "pid"}

type configReader struct {
	fieldErrors
	c       *kubeletv1beta1.KubeletConfiguration
	version placement.Version
}

// reserved adds up kubeReserved and systemReserved.
func (r configReader) reserved() (map[string]resource.Quantity, error) {
	sums := map[string]resource.Quantity{}
	for _, list := range [...]struct {
		name   string
		values map[string]string
	}{{"kubeReserved", r.c.KubeReserved}, {"systemReserved", r.c.SystemReserved}} {
		for name, text := range list.values {
			at := field.NewPath(list.name).Key(name)
			if !slices.Contains(reservable, name) {
				return nil, r.at(at, text, "only the resources "+strings.Join(reservable, ", ")+": the kubelet does not start with another resource there")
			}
			q, err := r.quantity(at, text)
			if err != nil {
				return nil, err
			}
			if name == string(corev1.ResourceCPU) && r.version >= placement.V137 && q.Cmp(maxCPUs) <= 0 {
				q.SetMilli((q.ScaledValue(resource.Micro) + 500) / 1000) // parseResourceList since 1.37
			}
			sum := sums[name]
			sum.Add(q)
			sums[name] = sum
		}
	}
	cpu := sums[string(corev1.ResourceCPU)]
	if cpu.Cmp(maxCPUs) > 0 {
		at, said := r.keeps(string(corev1.ResourceCPU))
		return nil, r.at(at, said, "at most "+maxCPUs.String()+" in kubeReserved and systemReserved together")
	}
	return sums, nil
}

// reservations reads the reservations for the system. It adds the eviction threshold to the memory,
// as cm.GetNodeAllocatableReservation does. If the threshold is not known, out.NodeReserved stays
// nil.
func (r configReader) reservations(out *placement.Config, capacity uint64) error {
	sums, err := r.reserved()
	if err != nil {
		return err
	}
	cpu := sums[string(corev1.ResourceCPU)]
	out.ReservedMilliCPU = cpu.MilliValue()
	evicted, known, err := r.eviction(capacity)
	if err != nil || !known {
		return err
	}
	memory := sums[string(corev1.ResourceMemory)]
	memory.Add(evicted)
	if r.c.MemoryManagerPolicy == kubeletv1beta1.StaticMemoryManagerPolicy && isFraction(memory) {
		return r.fraction()
	}
	out.NodeReserved = map[string]uint64{string(corev1.ResourceMemory): uint64(memory.Value())}
	return nil
}

// isFraction reports whether an amount of memory, such as 14.3Gi, has a fraction of a byte.
func isFraction(q resource.Quantity) bool {
	return q.Cmp(*resource.NewQuantity(q.Value(), resource.BinarySI)) != 0
}

// fraction returns the error about the reservation of memory that has a fraction of a byte. A
// kubelet with the Static memory manager does not start with it, because reservedMemory must have
// the same total amount (validateReservedMemory of pkg/kubelet/cm/memorymanager).
func (r configReader) fraction() error {
	name := string(corev1.ResourceMemory)
	at, said := field.NewPath("evictionHard").Key(memoryAvailable), r.c.EvictionHard[memoryAvailable]
	for _, list := range [...]struct {
		name   string
		values map[string]string
	}{{"systemReserved", r.c.SystemReserved}, {"kubeReserved", r.c.KubeReserved}} {
		if q, err := resource.ParseQuantity(list.values[name]); err == nil && isFraction(q) {
			at, said = field.NewPath(list.name).Key(name), list.values[name]
		}
	}
	return r.at(at, said, "a whole number of bytes: the total of reservedMemory cannot be a fraction, so the kubelet would not start")
}

func (r configReader) quantity(at *field.Path, text string) (resource.Quantity, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return q, r.at(at, text, "a quantity like 500m or 1Gi")
	}
	if q.Sign() < 0 || q.Cmp(maxMemory) > 0 {
		return q, r.at(at, text, "0 to "+maxMemory.String())
	}
	return q, nil
}

// MemoryEviction returns the hard threshold of memory.available, or the kubelet's default. ok is
// false if there is no threshold.
func MemoryEviction(c *kubeletv1beta1.KubeletConfiguration) (text string, ok bool) {
	text, ok = c.EvictionHard[memoryAvailable]
	merged := c.MergeDefaultEvictionSettings != nil && *c.MergeDefaultEvictionSettings
	if c.EvictionHard == nil || !ok && merged {
		return DefaultEviction, true
	}
	return text, ok
}

// eviction returns the hard threshold of memory.available in bytes. The result known is false if
// the threshold is a percentage of an unknown amount.
func (r configReader) eviction(capacity uint64) (bytes resource.Quantity, known bool, err error) {
	text, ok := MemoryEviction(r.c)
	if !ok || text == "0%" || text == "100%" { // either turns the threshold off (pkg/kubelet/eviction/helpers.go, parseThresholdStatement)
		return bytes, true, nil
	}
	at := field.NewPath("evictionHard").Key(memoryAvailable)
	if number, percent := strings.CutSuffix(text, "%"); percent {
		share, err := strconv.ParseFloat(number, 32)
		if err != nil || !(share >= 0 && share <= 100) {
			return bytes, false, r.at(at, text, "0% to 100%")
		}
		return *resource.NewQuantity(int64(float64(capacity)*float64(float32(share)/100)), resource.BinarySI), capacity > 0, nil
	}
	bytes, err = r.quantity(at, text)
	return bytes, err == nil, err
}

func (r configReader) reservedMemory(at *field.Path, m *kubeletv1beta1.MemoryReservation) (placement.ReservedMemory, error) {
	if m.NumaNode < 0 || m.NumaNode >= topology.MaxNUMANodes {
		return placement.ReservedMemory{}, r.at(at.Child("numaNode"), m.NumaNode, "0 to 63")
	}
	out := placement.ReservedMemory{NUMA: topology.NUMAID(m.NumaNode), Limits: map[string]uint64{}}
	for name, q := range m.Limits {
		where := at.Child("limits").Key(string(name))
		if !isMemory(name) {
			return out, r.at(where, name, "memory or hugepages-SIZE")
		}
		_, whole := q.AsInt64()                    // as getSystemReservedMemory; Cmp changes the form of q
		if q.Sign() <= 0 || q.Cmp(maxMemory) > 0 { // validateReservedMemoryConfiguration
			return out, r.at(where, q.String(), "more than 0, and at most "+maxMemory.String())
		}
		if !whole && r.c.MemoryManagerPolicy == kubeletv1beta1.StaticMemoryManagerPolicy {
			return out, r.at(where, "a fraction that is "+q.String(), "a whole number of a unit, like 1536Mi instead of 1.5Gi: the kubelet would not start")
		}
		out.Limits[string(name)] = uint64(q.Value())
	}
	return out, nil
}
