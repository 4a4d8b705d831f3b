package claims

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Unserved explains why Berth cannot align the claim with the pod's CPUs, or returns "". uid is the
// UID of the pod. The text names the claim, and what would be right.
func Unserved(uid types.UID, c *resourceapi.ResourceClaim) string {
	name := c.Namespace + "/" + c.Name
	for i := range c.Spec.Devices.Requests {
		if e := c.Spec.Devices.Requests[i].Exactly; e != nil && e.AdminAccess != nil && *e.AdminAccess {
			return fmt.Sprintf("claim %s: request %s has adminAccess: want a request without adminAccess, so that the devices are allocated to this pod only", name, c.Spec.Devices.Requests[i].Name)
		}
	}
	for i := range c.OwnerReferences {
		if o := &c.OwnerReferences[i]; o.Controller != nil && *o.Controller && o.Kind == "PodGroup" {
			return fmt.Sprintf("claim %s belongs to PodGroup %s: want a claim for each pod", name, o.Name)
		}
	}
	for i := range c.Status.ReservedFor {
		switch user := &c.Status.ReservedFor[i]; {
		case user.Resource != "pods":
			return fmt.Sprintf("claim %s is reserved for %s %s: want a claim for each pod", name, user.Resource, user.Name)
		case user.UID != uid:
			return fmt.Sprintf("claim %s is shared with pod %s: want a claim for each pod", name, user.Name)
		}
	}
	return ""
}

// TakesAll reports whether a request of the claim asks for all matching devices. For such a claim
// the allocator must see all devices, or the claim would get too few.
func TakesAll(c *resourceapi.ResourceClaim) bool {
	for i := range c.Spec.Devices.Requests {
		r := &c.Spec.Devices.Requests[i]
		if r.Exactly != nil && r.Exactly.AllocationMode == resourceapi.DeviceAllocationModeAll {
			return true
		}
		for k := range r.FirstAvailable {
			if r.FirstAvailable[k].AllocationMode == resourceapi.DeviceAllocationModeAll {
				return true
			}
		}
	}
	return false
}
