package kubeletconfig

import (
	"fmt"
	"slices"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

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

// reservations returns an error for reservations with which a kubelet does not start, whatever its
// managers' policies are (ValidateKubeletConfiguration of pkg/kubelet/apis/config/validation).
func reservations(c *kubeletv1beta1.KubeletConfiguration) error {
	wrong := func(field, value, want string) error {
		return &wire.FieldError{Object: "KubeletConfiguration", Field: field, Value: value, Want: want + ": the kubelet would not start"}
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
