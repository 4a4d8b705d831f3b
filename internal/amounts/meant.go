package amounts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/suggest"
)

// wellKnown are resources of device plugins that many clusters have.
var wellKnown = []string{
	"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "huawei.com/Ascend910", "huawei.com/Ascend310P",
	"rdma/hca", "rdma/hca_shared_devices_a", "nvidia.com/hostdev", "intel.com/intel_sriov_netdevice", "intel.com/intel_sriov_dpdk", "openshift.io/sriov",
}

// Meant returns the end of a sentence about a resource that a node does not have: ` (did you mean
// "nvidia.com/gpu"?)`. It returns "" if the resource is well known or offered itself, or if no such
// resource is similar. Two resources are similar if their domains are equal and their names are
// similar, or if their names are equal and their domains are similar.
func Meant(resource string, offered ...string) string {
	domain, name, _ := strings.Cut(resource, "/")
	known := slices.Concat(offered, wellKnown)
	if slices.Contains(known, resource) {
		return ""
	}
	for _, k := range known {
		d, n, _ := strings.Cut(k, "/")
		if d == domain && suggest.Nearest(name, []string{n}) != "" || n == name && suggest.Nearest(domain, []string{d}) != "" {
			return fmt.Sprintf(" (did you mean %q?)", k)
		}
	}
	return ""
}
