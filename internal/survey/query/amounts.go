package query

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// lacking describes the first resource of which even the empty node has too little, or returns "".
// It ignores a resource of a device class if the node has nothing of this resource, as
// nodestate.RoomOf does.
func lacking(asked amounts.List, classes map[corev1.ResourceName]bool, node *corev1.Node) string {
	all, told := nodestate.Allocatable(node)
	if !told {
		return ""
	}
	for _, r := range slices.Sorted(maps.Keys(asked)) {
		if all[r] < asked[r] && (all[r] > 0 || !classes[corev1.ResourceName(r)]) {
			has, wants := amounts.Texts(r, all[r], asked[r])
			return fmt.Sprintf("the node has %s %s in total, but the pod asks for %s", has, amounts.Name(r, all[r]), wants)
		}
	}
	return ""
}

// foreign reports whether the amounts include a resource of a device plugin or of a device class. A
// device class has a default resource name, and may have a second in spec.extendedResourceName
// (pkg/scheduler/util, IsDRAExtendedResourceName).
func foreign(asked amounts.List) bool {
	for r, amount := range asked {
		if amount > 0 && (amounts.IsExtended(r) || strings.HasPrefix(r, resourcev1.ResourceDeviceClassPrefix)) {
			return true
		}
	}
	return false
}

// short describes the first resource of which the node has too little for a pod, or a host port
// that another pod uses. It returns "" if nothing is missing.
func short(asked amounts.List, ports []amounts.Port, room *amounts.Node) string {
	s, taken := room.Short(asked), room.Taken(ports)
	switch {
	case s == nil && taken == "":
		return ""
	case s == nil:
		return "port " + taken + " of the node is taken"
	case s.Resource == amounts.Pods:
		return fmt.Sprintf("the node has %s, and admits at most %d", wire.Counted(int(s.Used), "pod"), s.Capacity)
	}
	left := max(0, s.Capacity-s.Used)
	has, wants := amounts.Texts(s.Resource, left, s.Requested)
	return fmt.Sprintf("the node has %s %s left for more pods, but the pod asks for %s", has, amounts.Name(s.Resource, left), wants)
}

// Instead returns the total amounts of a pod after its request has changed. The argument `asked` is
// the total before the change, `from` is the old request, and `to` is the new request.
func Instead(asked amounts.List, from, to *placement.Request) amounts.List {
	out := maps.Clone(asked)
	add := func(r *placement.Request, sign int64) {
		sums := placement.Peaks[string]{}
		for i := range r.Containers {
			c := &r.Containers[i]
			sums.Add(c.Kind, amounts.CPU, uint64(c.MilliCPU))
			for _, m := range c.Memory {
				sums.Add(c.Kind, m.Resource, m.Bytes)
			}
			for _, d := range c.Devices {
				sums.Add(c.Kind, d.Resource, uint64(max(0, d.Count)))
			}
		}
		for resource, sum := range sums {
			out[resource] += sign * int64(sum.Most())
		}
	}
	add(to, 1)
	add(from, -1)
	return out
}

// classesFor returns the extended resources of DeviceClasses. It returns nil if none of the
// requested resources could be one of them.
func classesFor(ctx context.Context, s *survey.Survey, c *survey.Cluster, asked amounts.List) (map[corev1.ResourceName]bool, error) {
	if !foreign(asked) {
		return nil, nil
	}
	classes, notes, err := c.From.DeviceClasses(ctx)
	s.Notes = append(s.Notes, notes...)
	return classes, err
}
