package kubeletconfig

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/berth-dev/berth/internal/suggest"
	"github.com/berth-dev/berth/internal/wire"
)

// enforceable are the values of enforceNodeAllocatable, each with the field that it needs.
var enforceable = map[string]string{
	"pods": "", "none": "", "system-reserved": systemCgroup, "system-reserved-compressible": systemCgroup,
	"kube-reserved": kubeCgroup, "kube-reserved-compressible": kubeCgroup,
}

const (
	systemCgroup = "systemReservedCgroup"
	kubeCgroup   = "kubeReservedCgroup"
)

func wrong(field, value, want string) error {
	return &wire.FieldError{Object: "KubeletConfiguration", Field: field, Value: value, Want: want + ": the kubelet would not start"}
}

// starts returns an error for settings with which a kubelet on Linux does not start, whatever its
// managers' policies are.
func starts(c *kubeletv1beta1.KubeletConfiguration) error {
	scopes := []string{kubeletv1beta1.ContainerTopologyManagerScope, kubeletv1beta1.PodTopologyManagerScope}
	if scope := c.TopologyManagerScope; scope != "" && !slices.Contains(scopes, scope) {
		return wrong("topologyManagerScope", scope, "container or pod"+suggest.DidYouMean(scope, scopes))
	}
	if c.MemoryManagerPolicy == "BestEffort" { // NewManager of pkg/kubelet/cm/memorymanager
		return wrong("memoryManagerPolicy", c.MemoryManagerPolicy, "None or Static, because BestEffort exists only on Windows")
	}
	// Since 1.36 the gate cannot be off at all.
	if on, set := c.FeatureGates[topologyOptionsGate]; set && !on && len(c.TopologyManagerPolicyOptions) > 0 {
		return wrong("featureGates["+topologyOptionsGate+"]", "false", "true, because topologyManagerPolicyOptions is set")
	}
	return cmp.Or(reservations(c), thresholds(c))
}

const topologyOptionsGate = "TopologyManagerPolicyOptions"

// signals are the eviction signals (signalToResource of pkg/kubelet/eviction/helpers.go).
var signals = strings.Fields(`memory.available allocatableMemory.available nodefs.available nodefs.inodesFree imagefs.available
	imagefs.inodesFree containerfs.available containerfs.inodesFree pid.available`)

// thresholds returns an error for settings of the eviction with which a kubelet does not start
// (ParseThresholdConfig of pkg/kubelet/eviction/helpers.go).
func thresholds(c *kubeletv1beta1.KubeletConfiguration) error {
	const above = "more than 0, like 100Mi, or a percentage like 10%"
	for _, list := range []struct {
		name   string
		values map[string]string
		valid  func(string) bool
		want   string
	}{
		{hardEviction, c.EvictionHard, isThreshold, above},
		{"evictionSoft", c.EvictionSoft, isThreshold, above},
		{"evictionSoftGracePeriod", c.EvictionSoftGracePeriod, isPeriod, "a duration like 1m30s"},
		{"evictionMinimumReclaim", c.EvictionMinimumReclaim, isReclaim, "0 or more, or a percentage above 0%"},
	} {
		for _, signal := range slices.Sorted(maps.Keys(list.values)) {
			field, value := list.name+"["+signal+"]", list.values[signal]
			if !slices.Contains(signals, signal) {
				return wrong(field, value, "a known signal"+suggest.DidYouMean(signal, signals))
			}
			if !list.valid(value) {
				return wrong(field, value, list.want)
			}
			if _, set := c.EvictionSoftGracePeriod[signal]; list.name == "evictionSoft" && !set && !isOff(value) {
				return wrong(field, value, "evictionSoftGracePeriod["+signal+"] to be set")
			}
		}
	}
	return nil
}

// isOff reports whether the kubelet ignores a threshold (parseThresholdStatement).
func isOff(value string) bool { return value == "0%" || value == "100%" }

func isThreshold(value string) bool {
	if share, percent, err := percentage(value); percent {
		return err == nil && share >= 0 && share <= 100
	}
	q, err := resource.ParseQuantity(value)
	return err == nil && q.Sign() > 0
}

func isReclaim(value string) bool {
	if share, percent, err := percentage(value); percent {
		return err == nil && share > 0
	}
	q, err := resource.ParseQuantity(value)
	return err == nil && q.Sign() >= 0
}

// percentage reads a value that ends in %, as the kubelet's parsePercentage does.
func percentage(value string) (share float64, percent bool, err error) {
	if !strings.HasSuffix(value, "%") {
		return 0, false, nil
	}
	share, err = strconv.ParseFloat(strings.TrimRight(value, "%"), 32)
	return share, true, err
}

func isPeriod(value string) bool {
	d, err := time.ParseDuration(value)
	return err == nil && d >= 0
}

// reservations returns an error for reservations with which a kubelet does not start
// (ValidateKubeletConfiguration of pkg/kubelet/apis/config/validation).
func reservations(c *kubeletv1beta1.KubeletConfiguration) error {
	if _, err := wire.ReservedCPUs(c.ReservedSystemCPUs); err != nil {
		return wrong("reservedSystemCPUs", c.ReservedSystemCPUs, wire.WantReserved)
	}
	cgroups := map[string]string{systemCgroup: c.SystemReservedCgroup, kubeCgroup: c.KubeReservedCgroup}
	for _, field := range []string{systemCgroup, kubeCgroup} {
		if c.ReservedSystemCPUs != "" && cgroups[field] != "" {
			return wrong(field, cgroups[field], "no value together with reservedSystemCPUs")
		}
	}
	enforced := c.EnforceNodeAllocatable
	for i, key := range enforced {
		at := fmt.Sprintf("enforceNodeAllocatable[%d]", i)
		needs, known := enforceable[key]
		switch {
		case !known:
			return wrong(at, key, "pods, kube-reserved, system-reserved, one of these two with -compressible, or none")
		case slices.Contains(enforced[:i], key):
			return wrong(at, key, "each value once")
		case key == "none" && len(enforced) > 1:
			return wrong(at, key, "no other value next to none")
		case needs != "" && cgroups[needs] == "":
			return wrong(at, key, needs+" to be set")
		case slices.Contains(enforced, key+"-compressible"):
			return wrong(at, key, "only one of "+key+" and "+key+"-compressible")
		}
	}
	if perQOS := c.CgroupsPerQOS; perQOS != nil && !*perQOS && !slices.Equal(enforced, []string{"none"}) && (enforced == nil || len(enforced) > 0) {
		return wrong("cgroupsPerQOS", "false", "true, or none in enforceNodeAllocatable")
	}
	type reserved struct {
		numa     int32
		resource string
	}
	seen := map[reserved]bool{}
	for i, m := range c.ReservedMemory {
		for name, q := range m.Limits {
			key := reserved{m.NumaNode, string(name)}
			if seen[key] {
				return wrong(fmt.Sprintf("reservedMemory[%d].limits[%s]", i, name), q.String(), "each resource once per NUMA node")
			}
			seen[key] = true
		}
	}
	return nil
}
